// How messages travel. A schedule is one file that implements Transfer and one line in schedule.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

enum class Schedule { pairwise, alltoallv, neighbor, crystal };
std::string name(Schedule schedule);
std::vector<Schedule> schedules();
// Whether every rank of the communicator must start and finish it, those without neighbours too.
bool collective(Schedule schedule);

// One neighbour's part of the two buffers of a transfer: where it is and how long, in bytes. Either length may be 0;
// parts that are received do not overlap.
struct Part {
  int rank;
  std::size_t send_offset, send_bytes;
  std::size_t receive_offset, receive_bytes;
};

// What a transfer moves, and between whom.
struct Route {
  mpi::Comm comm;
  int tag;                          // of this transfer alone (Comm::fresh_tag)
  std::vector<Part> parts;          // ascending by rank, each rank once; what one rank sends the other must expect
  const std::byte* send = nullptr;  // the buffers, of a memory MPI may be given; they outlive the transfer
  std::byte* receive = nullptr;
  std::shared_ptr<device::Device> memory;  // the device whose kernels and copies can touch the buffers
};

// Moves the parts of `send` to the neighbours and theirs into `receive`, over and over. On one communicator several may
// be in flight. Those of collective schedules are started in the same order on all ranks, and finished in the same
// order, as MPI asks of non-blocking collectives; ranks without neighbours take part. None goes in flight.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void post() = 0;    // `receive` may be written from now on
  virtual void start() = 0;   // after post(): `send` is complete and stays as it is until finish() returns
  virtual void finish() = 0;  // all of `receive` is there, all of `send` may be written again
};

// CollectiveError on all ranks if it fails on one. (collective)
std::unique_ptr<Transfer> make_transfer(Schedule schedule, Route route);

}  // namespace weft::exchange
