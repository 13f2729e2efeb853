#include "weft/exchange/exchange.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/exchange/groups.hpp"
#include "weft/exchange/schedule.hpp"
#include "weft/trace/recorder.hpp"

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

// One direction of an exchange: its buffers, its messages, and where in its cycle it is.
class Direction {
 public:
  Direction(const std::shared_ptr<device::Device>& device, const mpi::Comm& comm, const Choice& choice, int tag,
            const std::vector<Part>& parts)
      : path_(choice.path),
        send_bytes_(total(parts, &Part::send_bytes)),
        receive_bytes_(total(parts, &Part::receive_bytes)),
        send_(device, choice.path, send_bytes_),
        receive_(device, choice.path, receive_bytes_),
        drained_(device),
        transfer_(make_transfer(choice.schedule, comm, tag, parts, send_.data(), receive_.data())) {}

  std::byte* send() const { return send_.data(); }
  std::byte* receive() const { return receive_.data(); }
  std::size_t send_bytes() const { return send_bytes_; }
  std::size_t receive_bytes() const { return receive_bytes_; }

  void check_idle(const char* what) const {
    if (active_) throw std::logic_error(std::string(what) + " is already started: finish it first");
  }
  // From device memory into the send buffer.
  void fill(const void* from, device::Stream& stream) {
    if (send_bytes_ == 0) return;
    stream.device().copy(send(), from, send_bytes_,
                         path_ == Path::direct ? device::CopyKind::device_to_device : device::CopyKind::device_to_host,
                         stream);
  }
  // The send buffer will be complete when what is on the stream is done.
  void start(device::Stream& stream) {
    if (used_) drained_.synchronize();  // what arrived last time has been read
    transfer_->post();
    if (!stream.device().is_host()) stream.synchronize();
    transfer_->start();
    active_ = true;
  }
  void finish(const char* what) {
    if (!active_) throw std::logic_error(std::string(what) + " was not started");
    transfer_->finish();
    active_ = false;
  }
  // From the receive buffer into device memory.
  void drain(void* to, device::Stream& stream) {
    if (receive_bytes_ == 0) return;
    stream.device().copy(to, receive(), receive_bytes_,
                         path_ == Path::direct ? device::CopyKind::device_to_device : device::CopyKind::host_to_device,
                         stream);
  }
  void drained(device::Stream& stream) {
    drained_.record(stream);
    used_ = true;
  }

 private:
  static std::size_t total(const std::vector<Part>& parts, std::size_t Part::* bytes) {
    std::size_t sum = 0;
    for (const Part& part : parts) sum += part.*bytes;
    return sum;
  }

  Path path_;
  std::size_t send_bytes_, receive_bytes_;
  MessageBuffer send_, receive_;
  device::Event drained_;
  std::unique_ptr<Transfer> transfer_;
  bool active_ = false, used_ = false;
};

std::vector<Part> halo_parts(const Pattern& pattern, std::size_t entry_bytes, bool reverse) {
  std::vector<Part> parts;
  for (const Pattern::Neighbor& n : pattern.neighbors) {
    Part part{n.rank, static_cast<std::size_t>(n.owned) * entry_bytes, static_cast<std::size_t>(n.halo) * entry_bytes};
    if (reverse) std::swap(part.send_bytes, part.receive_bytes);
    parts.push_back(part);
  }
  return parts;
}

// What the owners combine: per shared entry the places of its copies' values in the receive buffer, by rank.
GroupList copies_by_entry(const Pattern& pattern) {
  std::vector<std::pair<std::int32_t, std::int32_t>> places;  // entry, place
  for (const std::int32_t entry : pattern.owned_index)
    places.emplace_back(entry, static_cast<std::int32_t>(places.size()));
  std::sort(places.begin(), places.end());
  GroupList list;
  std::vector<std::int32_t> copies;
  for (std::size_t i = 0; i < places.size(); ++i) {
    copies.push_back(places[i].second);
    if (i + 1 == places.size() || places[i + 1].first != places[i].first) {
      list.add(places[i].first, copies);
      copies.clear();
    }
  }
  return list;
}

}  // namespace

template <class T>
struct Exchange<T>::State {
  State(const Pattern& pattern, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm, Choice chosen,
        std::array<int, 2> tags, int fields_count)
      : choice(std::move(chosen)),
        fields(fields_count),
        halo_first(pattern.halo_first),
        neighbors(pattern.neighbors.size()),
        pack(pattern.owned_index, device),
        combine(copies_by_entry(pattern), device),
        halo(device, comm, choice, tags[0], halo_parts(pattern, entry_bytes(), false)),
        gather(device, comm, choice, tags[1], halo_parts(pattern, entry_bytes(), true)) {
    if (choice.path == Path::staged) {  // the kernels' side of the pinned buffers
      packed = device::Array<T>(device, halo.send_bytes() / sizeof(T));
      arrived = device::Array<T>(device, gather.receive_bytes() / sizeof(T));
    }
    for (const Pattern::Neighbor& n : pattern.neighbors) messages += n.owned > 0 ? 1 : 0;
  }
  std::size_t entry_bytes() const { return sizeof(T) * static_cast<std::size_t>(fields); }

  Choice choice;
  int fields;
  std::int64_t halo_first;
  std::size_t neighbors;
  std::int64_t messages = 0;
  Packing<T> pack;    // owned entries that have copies, by neighbour
  Groups<T> combine;  // copies' values into the owned entries
  Direction halo, gather;
  device::Array<T> packed, arrived;
};

template <class T>
Exchange<T>::Exchange(const Pattern& pattern, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
                      Choice choice, int fields) {
  // First of all, so that a rank that fails below has taken as many as the others.
  const std::array<int, 2> tags{comm.fresh_tag(), comm.fresh_tag()};
  if (fields < 1) throw std::invalid_argument("fields must be at least 1, not " + std::to_string(fields));
  state_ = std::make_unique<State>(pattern, device, comm, std::move(choice), tags, fields);
}
template <class T>
Exchange<T>::~Exchange() = default;
template <class T>
Exchange<T>::Exchange(Exchange&&) noexcept = default;
template <class T>
Exchange<T>& Exchange<T>::operator=(Exchange&&) noexcept = default;

template <class T>
void Exchange<T>::start_halo(const T* x, device::Stream& stream) {
  State& s = *state_;
  if (trivial()) return;
  s.halo.check_idle("the halo exchange");
  if (s.choice.path == Path::direct) {
    s.pack(s.fields, x, reinterpret_cast<T*>(s.halo.send()), stream);
  } else {
    s.pack(s.fields, x, s.packed.data(), stream);
    s.halo.fill(s.packed.data(), stream);
  }
  s.halo.start(stream);
}

template <class T>
void Exchange<T>::finish_halo(T* x, device::Stream& stream) {
  State& s = *state_;
  if (trivial()) return;
  s.halo.finish("the halo exchange");
  s.halo.drain(x + s.halo_first * s.fields, stream);
  s.halo.drained(stream);
}

template <class T>
void Exchange<T>::start_gather(const T* y, device::Stream& stream) {
  State& s = *state_;
  if (trivial()) return;
  s.gather.check_idle("the gather");
  s.gather.fill(y + s.halo_first * s.fields, stream);
  s.gather.start(stream);
}

template <class T>
void Exchange<T>::finish_gather(T* y, Op op, device::Stream& stream) {
  State& s = *state_;
  if (trivial()) return;
  s.gather.finish("the gather");
  const T* arrived = reinterpret_cast<const T*>(s.gather.receive());
  if (s.choice.path == Path::staged) {
    s.gather.drain(s.arrived.data(), stream);
    arrived = s.arrived.data();
  }
  s.combine.gather(op, s.fields, true, arrived, y, stream);
  s.gather.drained(stream);
}

template <class T>
bool Exchange<T>::trivial() const {
  return state_->neighbors == 0;
}
template <class T>
std::int64_t Exchange<T>::bytes_sent() const {
  return static_cast<std::int64_t>(state_->halo.send_bytes());
}
template <class T>
std::int64_t Exchange<T>::messages() const {
  return state_->messages;
}
template <class T>
Choice Exchange<T>::choice() const {
  return state_->choice;
}

template class Exchange<double>;
template class Exchange<float>;
template class Exchange<std::int32_t>;
template class Exchange<std::int64_t>;

}  // namespace weft::exchange
