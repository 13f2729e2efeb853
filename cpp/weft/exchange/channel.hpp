// One direction of an exchange: its buffers, its messages, and the state of its cycle. Paths are implemented only here;
// Exchange and its kernels see nothing but device memory.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/exchange/schedule.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// One cycle: check_idle(); kernels write send() on a stream; start(stream); …; depart(); …; finish(stream); kernels on
// the stream read receive(); drained(stream). For contiguous values elsewhere, use start(from, stream) and finish(to,
// stream), which save a copy if the path needs one anyway.
class Channel {
 public:
  // Device memory to use instead of the channel's own, large enough for all parts. Channels that are never in flight at
  // the same time, and are used on one stream, can share it. With path ipc a channel always has its own memory.
  struct Buffers {
    std::byte *send = nullptr, *receive = nullptr;
  };

  // `what` names the channel in errors. CollectiveError on all ranks if construction fails on one. (collective)
  Channel(std::shared_ptr<device::Device> device, const mpi::Comm& comm, const Choice& choice, int tag,
          std::vector<Part> parts, const char* what, Buffers buffers);
  Channel(std::shared_ptr<device::Device> device, const mpi::Comm& comm, const Choice& choice, int tag,
          std::vector<Part> parts, const char* what)
      : Channel(std::move(device), comm, choice, tag, std::move(parts), what, Buffers()) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Device memory that covers all parts of the channel.
  std::byte* send(device::Stream& stream);  // for kernels on this stream, until the next start
  const std::byte* receive() const;
  std::size_t send_bytes() const;
  std::size_t receive_bytes() const;

  void check_idle() const;  // throws std::logic_error if the channel is started
  // send() must be complete once the work already on the stream is done, and must not change until finish. Does not
  // wait for a GPU.
  void start(device::Stream& stream);
  // Sends send_bytes() of device memory at `from`, which later work on the stream may overwrite.
  void start(const void* from, device::Stream& stream);
  // Sends the messages, unless start() has sent them already: on a GPU, MPI must first wait for the packing. Call it
  // once the work that hides the messages is on the stream. Otherwise finish() calls it, and then no other message
  // overlaps with this one. packed: the caller has waited for the packing.
  void depart(bool packed = false);
  // Waits for the messages; later work on the stream sees all of receive(). std::logic_error if the channel is not
  // started.
  void finish(device::Stream& stream);
  // Call this after finish, once all work that reads receive() has been enqueued on the stream.
  void drained(device::Stream& stream);
  // finish and drained; the data arrive at `to`, receive_bytes() of device memory.
  void finish(void* to, device::Stream& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::exchange
