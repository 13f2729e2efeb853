// The path between ranks of a node: each rank reads its neighbours' values from where they packed them.
//
// Every rank packs into memory that the others have opened (two slots used alternately), and sets the flag "round n is
// ready" in shared host memory. Its neighbours copy their parts to their destination and set "round n is read"; the
// slot is reused two rounds later. On GPUs a flag means that an event has been recorded, and the other rank's stream
// waits for the event; no host waits for a stream. So a value is copied once between two ranks, by the receiver.
//
// This path does not reach other nodes; channel.cpp decides which messages use it.
#pragma once

#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/exchange/schedule.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {

// One cycle: kernels write send(stream), or take() copies the values there; start(stream); finish(to, stream). Starting
// does not wait. Waiting for another rank ends with a std::runtime_error if that rank has abandoned the transfer (its
// Ipc is destroyed) or its process has ended (said after some seconds, in which a launcher usually ends this one too).
class Ipc {
 public:
  // `parts`: to and from other ranks of comm.node(). send_bytes: the size of send(), at least as long as the parts
  // require. `tag`: as in Route. CollectiveError on all ranks if construction fails on one. (collective)
  Ipc(std::shared_ptr<device::Device> device, const mpi::Comm& comm, int tag, std::vector<Part> parts,
      std::size_t send_bytes);
  ~Ipc();
  Ipc(const Ipc&) = delete;
  Ipc& operator=(const Ipc&) = delete;

  // The memory that the next start sends from; later work on the stream may write to it.
  std::byte* send(device::Stream& stream);
  // Copies the parts into send() from a buffer with the same layout.
  void take(const std::byte* from, device::Stream& stream);
  // The parts in send() must be complete once the work already on the stream is done.
  void start(device::Stream& stream);
  // Later work on the stream sees the neighbours' parts in `to`.
  void finish(std::byte* to, device::Stream& stream);

  // For rounds that are read by changing sets of ranks, directly from the slot: write send(); publish(); arrived() for
  // each rank to read from; reclaim(). A round counts as read when the next one is published, or keep_until_read() is
  // called. All ranks publish the same rounds; `ranks` are the neighbours that read this rank's slot.
  void publish(const std::vector<int>& ranks, device::Stream& stream,
               const std::shared_ptr<const trace::Traffic>& traffic);
  // The slot of a neighbour, once that rank has published it.
  const std::byte* arrived(int rank, device::Stream& stream, const std::shared_ptr<const trace::Traffic>& traffic);
  // Waits until all readers have read the previous round, so that send() may be written again.
  void reclaim(device::Stream& stream);
  // Records that the work now on the stream uses the neighbours' memory, which is not released before it is done.
  void keep_until_read(device::Stream& stream);
  std::size_t bytes() const;  // of both slots

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether the ranks of every node can use each other's memory on this device, tested by a transfer. (collective)
PathState ipc_state(device::Device& device, const mpi::Comm& comm);

}  // namespace weft::exchange
