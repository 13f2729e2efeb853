// Schedules: how messages travel. Each schedule is one file that implements Transfer, and one line in schedule.cpp.
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
// Whether every rank of the communicator must start and finish a transfer, including ranks without neighbours.
bool collective(Schedule schedule);

// The part of the two buffers that is exchanged with one neighbour: offsets and lengths in bytes. Either length may be
// 0; received parts do not overlap.
struct Part {
  int rank;
  std::size_t send_offset, send_bytes;
  std::size_t receive_offset, receive_bytes;
};

// What a transfer moves, and between which ranks.
struct Route {
  mpi::Comm comm;
  int tag;                          // not used by any other transfer (Comm::fresh_tag)
  std::vector<Part> parts;          // ascending by rank, one per rank; lengths must match those of the other rank
  const std::byte* send = nullptr;  // buffers in memory that MPI accepts; they must outlive the transfer
  std::byte* receive = nullptr;
  std::shared_ptr<device::Device> memory;  // the device whose kernels and copies can access the buffers
};

// Repeatedly sends the parts of `send` to the neighbours and receives theirs into `receive`. Several transfers may be
// in flight on one communicator. Transfers of collective schedules must be started in the same order on all ranks, and
// finished in the same order, as MPI requires of non-blocking collectives; ranks without neighbours take part. A
// Transfer must not be destroyed in flight.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void post() = 0;    // from now on `receive` may be overwritten
  virtual void start() = 0;   // call after post(), once `send` is complete; do not change it until finish() returns
  virtual void finish() = 0;  // `receive` is complete, and `send` may be written again
};

// CollectiveError on all ranks if construction fails on one. (collective)
std::unique_ptr<Transfer> make_transfer(Schedule schedule, Route route);

}  // namespace weft::exchange
