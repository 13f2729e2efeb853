#include "weft/exchange/channel.hpp"

#include <algorithm>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/device/buffer.hpp"
#include "weft/exchange/ipc.hpp"
#include "weft/mpi/finalized.hpp"

namespace weft::exchange {
namespace {

std::size_t extent(const std::vector<Part>& parts, std::size_t Part::* offset, std::size_t Part::* bytes) {
  std::size_t end = 0;
  for (const Part& part : parts) end = std::max(end, part.*offset + part.*bytes);
  return end;
}

// The parts that are sent by MPI, with one schedule, direct or staged.
class ByMpi {
 public:
  // in_place: the buffers have the same layout as the channel's, so kernels may use them directly, and the caller may
  // provide their memory. Otherwise they hold only the parts of this object, which are copied.
  struct Lengths {
    std::size_t send, receive;
    Channel::Buffers buffers;
  };
  ByMpi(std::shared_ptr<device::Device> device, Path path, std::vector<Part> parts, std::optional<Lengths> in_place)
      : path_(path),
        sends_(runs(parts, &Part::send_offset, &Part::send_bytes, in_place.has_value())),
        receives_(runs(parts, &Part::receive_offset, &Part::receive_bytes, in_place.has_value())),
        parts_(std::move(parts)),
        given_(in_place ? in_place->buffers : Channel::Buffers()),
        send_(device, memory(path),
              given_.send != nullptr ? 0
              : in_place             ? in_place->send
                                     : extent(parts_, &Part::send_offset, &Part::send_bytes)),
        receive_(device, memory(path),
                 given_.receive != nullptr ? 0
                 : in_place                ? in_place->receive
                                           : extent(parts_, &Part::receive_offset, &Part::receive_bytes)),
        device_(std::move(device)) {}

  // (collective)
  void connect(const mpi::Comm& comm, Schedule schedule, int tag) {
    transfer_ = make_transfer(schedule, {.comm = comm,
                                         .tag = tag,
                                         .parts = parts_,
                                         .send = send(),
                                         .receive = arrived(),
                                         .memory = path_ == Path::direct ? device_ : device::open("host")});
  }

  std::byte* send() const { return given_.send != nullptr ? given_.send : send_.data(); }
  const std::byte* receive() const { return arrived(); }

  // Copies from and to device memory with the layout of the channel's buffers.
  void take(const std::byte* from, device::Stream& stream) const {
    for (const Run& run : sends_)
      copy(send() + run.here, from + run.there, run, device::CopyKind::device_to_host, stream);
  }
  void give(std::byte* to, device::Stream& stream) const {
    for (const Run& run : receives_)
      copy(to + run.there, receive() + run.here, run, device::CopyKind::host_to_device, stream);
  }
  Transfer& transfer() const { return *transfer_; }

 private:
  std::byte* arrived() const { return given_.receive != nullptr ? given_.receive : receive_.data(); }
  static device::Memory memory(Path path) {
    return path == Path::direct ? device::Memory::device : device::Memory::host;
  }
  struct Run {
    std::size_t here, there, bytes;  // offset in its own buffers, offset in the channel's
  };
  // Assigns each part its place in the buffers, and joins contiguous ones.
  static std::vector<Run> runs(std::vector<Part>& parts, std::size_t Part::* offset, std::size_t Part::* bytes,
                               bool in_place) {
    std::vector<Run> all;
    std::size_t next = 0;
    for (Part& part : parts) {
      if (part.*bytes == 0) continue;
      const std::size_t there = part.*offset;
      if (!in_place) part.*offset = std::exchange(next, next + part.*bytes);
      const Run run{part.*offset, there, part.*bytes};
      if (!all.empty() && all.back().there + all.back().bytes == run.there &&
          all.back().here + all.back().bytes == run.here) {
        all.back().bytes += run.bytes;
      } else {
        all.push_back(run);
      }
    }
    return all;
  }
  void copy(void* to, const void* from, const Run& run, device::CopyKind staged, device::Stream& stream) const {
    device_->copy(to, from, run.bytes, path_ == Path::direct ? device::CopyKind::device_to_device : staged, stream);
  }

  Path path_;
  std::vector<Run> sends_, receives_;
  std::vector<Part> parts_;
  Channel::Buffers given_;
  device::Buffer send_, receive_;
  std::shared_ptr<device::Device> device_;
  std::unique_ptr<Transfer> transfer_;
};

// The path of each message: the chosen one, or the alternative for small messages. Both ends decide the same, because
// both know the length of a message and whether they share a node.
struct Split {
  std::vector<Part> main, other;
};
Split split(const std::vector<Part>& parts, const Choice& choice, const mpi::Comm& comm) {
  const auto on_main = [&](int rank, std::size_t bytes) {
    if (choice.small_bytes > 0 && bytes <= choice.small_bytes) return false;
    if (choice.path != Path::ipc) return true;
    return rank != comm.rank() && std::binary_search(comm.node().begin(), comm.node().end(), rank);
  };
  Split result;
  for (const Part& part : parts) {
    const bool sent = on_main(part.rank, part.send_bytes), received = on_main(part.rank, part.receive_bytes);
    Part main = part, other = part;
    (sent ? other : main).send_bytes = 0;
    (received ? other : main).receive_bytes = 0;
    if (main.send_bytes + main.receive_bytes > 0) result.main.push_back(main);
    if (other.send_bytes + other.receive_bytes > 0) result.other.push_back(other);
  }
  return result;
}

}  // namespace

struct Channel::State {
  State(std::shared_ptr<device::Device> device_in, const std::vector<Part>& parts, const char* what_in,
        Buffers buffers_in)
      : what(what_in),
        device(std::move(device_in)),
        send_bytes(extent(parts, &Part::send_offset, &Part::send_bytes)),
        receive_bytes(extent(parts, &Part::receive_offset, &Part::receive_bytes)),
        buffers(buffers_in),
        ready(device),
        drained(device) {}
  ~State() {
    if (!device->is_host()) {
      try {
        if (used) drained.synchronize();  // data still being sent from the buffers
        if (!mpi::finalized()) depart();  // other ranks wait for it
      } catch (const std::exception&) {   // the device is lost
      }
    }
    if (!active) return;
    // Messages are in flight (because of an exception or garbage collection before finish), so their buffers must be
    // kept.
    static auto& left_behind = *new std::list<ByMpi>;
    left_behind.splice(left_behind.end(), by_mpi);
  }

  void begin(device::Stream& stream) {
    if (ipc) ipc->start(stream);
    active = true;
    if (by_mpi.empty()) return;
    waiting = true;
    if (device->is_host()) {
      depart();
      return;
    }
    // MPI may write where the previously received data were, so it must wait for the work that reads them, which comes
    // before the event. Channels that share memory use one stream, so the event covers them too.
    if (used) drained.wait_on(stream);
    ready.record(stream);
  }
  void depart(bool packed = false) {
    if (!std::exchange(waiting, false)) return;
    if (!device->is_host() && !packed) ready.synchronize();
    for (const ByMpi& way : by_mpi) way.transfer().post();
    for (const ByMpi& way : by_mpi) way.transfer().start();
  }
  // Copies everything that does not arrive in place to `to`.
  void end(std::byte* to, device::Stream& stream) {
    if (!active) throw std::logic_error(std::string(what) + " was not started");
    depart();
    if (ipc) {
      if (used && !device->is_host()) drained.wait_on(stream);
      ipc->finish(to, stream);
    }
    for (const ByMpi& way : by_mpi) {
      way.transfer().finish();
      if (&way != in_place || to != arrived()) way.give(to, stream);
    }
    active = false;
  }
  static std::byte* data(device::Array<std::byte>& array, std::size_t bytes, std::shared_ptr<device::Device>& device) {
    if (array.size() < bytes) array = device::Array<std::byte>(device, bytes);
    return array.data();
  }
  std::byte* packed() { return buffers.send != nullptr ? buffers.send : data(packed_array, send_bytes, device); }
  std::byte* arrived() {
    if (in_place != nullptr) return const_cast<std::byte*>(in_place->receive());
    return buffers.receive != nullptr ? buffers.receive : data(arrived_array, receive_bytes, device);
  }

  const char* what;
  std::shared_ptr<device::Device> device;
  std::size_t send_bytes, receive_bytes;
  Buffers buffers;
  std::optional<Ipc> ipc;
  std::list<ByMpi> by_mpi;                               // a list, so that their addresses do not change
  const ByMpi* in_place = nullptr;                       // the one whose buffers the kernels use directly
  device::Array<std::byte> packed_array, arrived_array;  // used if there is none
  device::Event ready, drained;  // on a GPU: the data to send are complete; the received data have been read
  bool active = false, used = false, waiting = false;
};

Channel::Channel(std::shared_ptr<device::Device> device, const mpi::Comm& comm, const Choice& choice, int tag,
                 std::vector<Part> parts, const char* what, Buffers buffers) {
  if (choice.path == Path::ipc) buffers = {};
  const bool two_ways = choice.path == Path::ipc || choice.small_bytes > 0;
  const int other_tag = two_ways ? comm.fresh_tag() : tag;
  if (choice.path == Path::ipc) comm.node();
  const Split ways = split(parts, choice, comm);
  // A route that one rank needs is created on all ranks, because its creation may be collective.
  const bool other = two_ways && comm.max(std::int64_t{!ways.other.empty()}) == 1;
  const Path other_path = choice.path == Path::direct || !other ? Path::staged : mpi_path(*device, comm).path;
  comm.together([&] {
    if (choice.path == Path::staged && choice.small_bytes > 0)
      throw std::invalid_argument("the path staged has no alternative for small messages");
    state_ = std::make_unique<State>(device, parts, what, buffers);
    State& s = *state_;
    if (choice.path != Path::ipc) {
      std::optional<ByMpi::Lengths> in_place;
      if (choice.path == Path::direct) in_place = {s.send_bytes, s.receive_bytes, buffers};
      s.by_mpi.emplace_back(device, choice.path, ways.main, in_place);
    }
    if (other) s.by_mpi.emplace_back(device, other_path, ways.other, std::nullopt);
  });
  State& s = *state_;
  if (choice.path == Path::ipc) {
    s.ipc.emplace(device, comm, tag, ways.main, s.send_bytes);
    if (ways.main.empty()) s.ipc.reset();  // created with the others, but not needed here
  } else {
    s.by_mpi.front().connect(comm, choice.schedule, tag);
    if (choice.path == Path::direct) s.in_place = &s.by_mpi.front();
  }
  if (other) s.by_mpi.back().connect(comm, choice.schedule, other_tag);
}
Channel::~Channel() = default;

std::byte* Channel::send(device::Stream& stream) {
  State& s = *state_;
  if (s.ipc) return s.ipc->send(stream);
  return s.in_place != nullptr ? s.in_place->send() : s.packed();
}
const std::byte* Channel::receive() const { return state_->arrived(); }
std::size_t Channel::send_bytes() const { return state_->send_bytes; }
std::size_t Channel::receive_bytes() const { return state_->receive_bytes; }

void Channel::check_idle() const {
  if (state_->active) throw std::logic_error(std::string(state_->what) + " is already started: finish it first");
}

void Channel::start(device::Stream& stream) {
  State& s = *state_;
  const std::byte* from = send(stream);
  for (const ByMpi& way : s.by_mpi) {
    if (&way != s.in_place) way.take(from, stream);
  }
  s.begin(stream);
}

void Channel::start(const void* from, device::Stream& stream) {
  State& s = *state_;
  if (s.ipc) s.ipc->take(static_cast<const std::byte*>(from), stream);
  for (const ByMpi& way : s.by_mpi) way.take(static_cast<const std::byte*>(from), stream);
  s.begin(stream);
}

void Channel::depart(bool packed) { state_->depart(packed); }

void Channel::finish(device::Stream& stream) { state_->end(state_->arrived(), stream); }

void Channel::finish(void* to, device::Stream& stream) {
  state_->end(static_cast<std::byte*>(to), stream);
  drained(stream);
}

void Channel::drained(device::Stream& stream) {
  state_->drained.record(stream);
  state_->used = true;
}

}  // namespace weft::exchange
