// One direction of an exchange: its buffers, its messages, and where in its cycle it is. The one place where a path is
// realised; Exchange and its kernels know device memory only.
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

// A cycle: check_idle(); kernels write send() on a stream; start(stream); …; finish(stream); kernels on the stream read
// receive(); drained(stream). Or, for values that lie in one piece elsewhere, start(from, stream) and
// finish(to, stream), which save a copy where the path needs one anyway.
class Channel {
 public:
  // Device memory to work in instead of the channel's own, as long as the parts reach: channels that are never under
  // way at the same time, and are used on one stream, can share it. With path ipc a channel has its own all the same.
  struct Buffers {
    std::byte *send = nullptr, *receive = nullptr;
  };

  // `what` names it in errors. CollectiveError on all ranks if it fails on one. (collective)
  Channel(std::shared_ptr<device::Device> device, const mpi::Comm& comm, const Choice& choice, int tag,
          std::vector<Part> parts, const char* what, Buffers buffers);
  Channel(std::shared_ptr<device::Device> device, const mpi::Comm& comm, const Choice& choice, int tag,
          std::vector<Part> parts, const char* what)
      : Channel(std::move(device), comm, choice, tag, std::move(parts), what, Buffers()) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Device memory, as long as the parts of the channel reach.
  std::byte* send(device::Stream& stream);  // for kernels on this stream, until the next start
  const std::byte* receive() const;
  std::size_t send_bytes() const;
  std::size_t receive_bytes() const;

  void check_idle() const;  // std::logic_error if it is started
  // What is on the stream completes send(); returns when the messages are on their way. send() must stay as it is until
  // finish.
  void start(device::Stream& stream);
  // Sends send_bytes() of device memory at `from`, which may be written again by what follows on the stream.
  void start(const void* from, device::Stream& stream);
  // Waits for the messages; what follows on the stream sees all of receive(). std::logic_error if it is not started.
  void finish(device::Stream& stream);
  // After finish: all that reads receive() is on the stream.
  void drained(device::Stream& stream);
  // finish and drained, with what arrived at `to`, receive_bytes() of device memory.
  void finish(void* to, device::Stream& stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::exchange
