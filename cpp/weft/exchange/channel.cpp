#include "weft/exchange/channel.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace weft::exchange {
namespace {

// Memory messages are sent from and received into: the device's own (direct) or pinned host memory (staged).
class MessageBuffer {
 public:
  MessageBuffer(std::shared_ptr<device::Device> device, Path path, std::size_t bytes)
      : device_(std::move(device)), path_(path) {
    if (bytes == 0) return;
    data_ = path_ == Path::direct ? device_->allocate(bytes) : device_->allocate_pinned(bytes);
  }
  ~MessageBuffer() {
    if (data_ == nullptr) return;
    path_ == Path::direct ? device_->release(data_) : device_->release_pinned(data_);
  }
  MessageBuffer(const MessageBuffer&) = delete;
  MessageBuffer& operator=(const MessageBuffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::shared_ptr<device::Device> device_;
  Path path_;
  void* data_ = nullptr;
};

std::size_t extent(const std::vector<Part>& parts, std::size_t Part::* offset, std::size_t Part::* bytes) {
  std::size_t end = 0;
  for (const Part& part : parts) end = std::max(end, part.*offset + part.*bytes);
  return end;
}

}  // namespace

struct Channel::State {
  State(const std::shared_ptr<device::Device>& device, Path path_in, const std::vector<Part>& parts,
        const char* what_in)
      : what(what_in),
        path(path_in),
        send_bytes(extent(parts, &Part::send_offset, &Part::send_bytes)),
        receive_bytes(extent(parts, &Part::receive_offset, &Part::receive_bytes)),
        send(device, path, send_bytes),
        receive(device, path, receive_bytes),
        drained(device) {
    if (path == Path::staged) {
      packed = device::Array<char>(device, send_bytes);
      arrived = device::Array<char>(device, receive_bytes);
    }
  }

  void copy(void* to, const void* from, std::size_t bytes, device::CopyKind staged_kind, device::Stream& stream) const {
    if (bytes == 0) return;
    stream.device().copy(to, from, bytes, path == Path::direct ? device::CopyKind::device_to_device : staged_kind,
                         stream);
  }
  // The send buffer will be complete when what is on the stream is done.
  void begin(device::Stream& stream) {
    if (used) drained.synchronize();  // what arrived last time has been read
    transfer->post();
    if (!stream.device().is_host()) stream.synchronize();
    transfer->start();
    active = true;
  }
  void end() {
    if (!active) throw std::logic_error(std::string(what) + " was not started");
    transfer->finish();
    active = false;
  }

  const char* what;
  Path path;
  std::size_t send_bytes, receive_bytes;
  MessageBuffer send, receive;
  device::Array<char> packed, arrived;  // staged: the kernels' side of the two
  device::Event drained;
  std::unique_ptr<Transfer> transfer;
  bool active = false, used = false;
};

Channel::Channel(std::shared_ptr<device::Device> device, const mpi::Comm& comm, const Choice& choice, int tag,
                 std::vector<Part> parts, const char* what) {
  comm.together([&] { state_ = std::make_unique<State>(device, choice.path, parts, what); });
  state_->transfer = make_transfer(choice.schedule,
                                   {.comm = comm,
                                    .tag = tag,
                                    .parts = std::move(parts),
                                    .send = state_->send.data(),
                                    .receive = state_->receive.data(),
                                    .memory = choice.path == Path::direct ? std::move(device) : device::open("host")});
}
Channel::~Channel() = default;

std::byte* Channel::send() {
  return state_->path == Path::direct ? state_->send.data() : reinterpret_cast<std::byte*>(state_->packed.data());
}
const std::byte* Channel::receive() const {
  return state_->path == Path::direct ? state_->receive.data()
                                      : reinterpret_cast<const std::byte*>(state_->arrived.data());
}
std::size_t Channel::send_bytes() const { return state_->send_bytes; }
std::size_t Channel::receive_bytes() const { return state_->receive_bytes; }

void Channel::check_idle() const {
  if (state_->active) throw std::logic_error(std::string(state_->what) + " is already started: finish it first");
}

void Channel::start(device::Stream& stream) {
  State& s = *state_;
  if (s.path == Path::staged)
    s.copy(s.send.data(), s.packed.data(), s.send_bytes, device::CopyKind::device_to_host, stream);
  s.begin(stream);
}

void Channel::start(const void* from, device::Stream& stream) {
  State& s = *state_;
  s.copy(s.send.data(), from, s.send_bytes, device::CopyKind::device_to_host, stream);
  s.begin(stream);
}

void Channel::finish(device::Stream& stream) {
  State& s = *state_;
  s.end();
  if (s.path == Path::staged)
    s.copy(s.arrived.data(), s.receive.data(), s.receive_bytes, device::CopyKind::host_to_device, stream);
}

void Channel::finish(void* to, device::Stream& stream) {
  State& s = *state_;
  s.end();
  s.copy(to, s.receive.data(), s.receive_bytes, device::CopyKind::host_to_device, stream);
  drained(stream);
}

void Channel::drained(device::Stream& stream) {
  state_->drained.record(stream);
  state_->used = true;
}

}  // namespace weft::exchange
