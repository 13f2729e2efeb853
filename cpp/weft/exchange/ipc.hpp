// The path between ranks of a node: each reads its neighbours' values from where they packed them.
//
// Every rank packs into memory that the others have opened (two slots in turn), and sets the flag "round n is ready" in
// shared host memory. Its neighbours copy their parts to their destination and set "round n is read"; the slot is
// reused two rounds later. On GPUs a flag means that an event has been recorded, for which the other's stream then
// waits; no host waits for a stream. So a value is copied once between two ranks, by the receiver.
//
// It does not reach other nodes; channel.cpp decides which messages use it.
#pragma once

#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/exchange/schedule.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {

// A cycle: kernels write send(stream), or take() copies there; start(stream); finish(to, stream). Starting does not
// wait. Waiting for another rank ends with a std::runtime_error if that rank gave up the transfer (its Ipc is gone), or
// its process ended.
class Ipc {
 public:
  // `parts`: of ranks of comm.node() other than this one. send_bytes: how long send() is, at least what the parts need.
  // `tag` as of a Route. CollectiveError on all ranks if it fails on one. (collective)
  Ipc(std::shared_ptr<device::Device> device, const mpi::Comm& comm, int tag, std::vector<Part> parts,
      std::size_t send_bytes);
  ~Ipc();
  Ipc(const Ipc&) = delete;
  Ipc& operator=(const Ipc&) = delete;

  // The memory that the next start sends from; subsequent work on the stream may write to it.
  std::byte* send(device::Stream& stream);
  // Copies the parts there from a buffer laid out in the same way.
  void take(const std::byte* from, device::Stream& stream);
  // The work already on the stream must complete the parts of send().
  void start(device::Stream& stream);
  // Subsequent work on the stream sees the neighbours' parts in `to`.
  void finish(std::byte* to, device::Stream& stream);

  // Rounds whose readers differ, and which are read where they lie: send() is written; publish(); arrived() for each
  // rank that is read from; reclaim(). A round has been read when the next is published, or keep_until_read() is
  // called. All ranks publish the same rounds; `ranks` are the neighbours that read this rank's.
  void publish(const std::vector<int>& ranks, device::Stream& stream,
               const std::shared_ptr<const trace::Traffic>& traffic);
  // The slot of a neighbour, once it is published.
  const std::byte* arrived(int rank, device::Stream& stream, const std::shared_ptr<const trace::Traffic>& traffic);
  // Waits until the round before this one has been read by all, so that send() may be written.
  void reclaim(device::Stream& stream);
  // What is on the stream so far uses the neighbours' memory: it is not let go before.
  void keep_until_read(device::Stream& stream);
  std::size_t bytes() const;  // of both slots

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether the ranks of every node can use each other's memory of this device, tested by a transfer. (collective)
PathState ipc_state(device::Device& device, const mpi::Comm& comm);

}  // namespace weft::exchange
