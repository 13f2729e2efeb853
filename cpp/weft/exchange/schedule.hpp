// How messages travel. A schedule is one file that implements Transfer and one line in schedule.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::exchange {

enum class Schedule { pairwise };
std::string name(Schedule schedule);
std::vector<Schedule> schedules();

// One neighbour's part of the two buffers of a transfer, in bytes; parts follow one another in the order of the ranks.
struct Part {
  int rank;
  std::size_t send_bytes, receive_bytes;  // either may be 0
};

// Moves the parts of `send` to the neighbours and theirs into `receive`, over and over. The buffers must outlive it and
// be of a memory MPI may be given.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void post() = 0;    // `receive` may be written from now on
  virtual void start() = 0;   // after post(): `send` is complete and stays as it is until finish() returns
  virtual void finish() = 0;  // all of `receive` is there, all of `send` may be written again
};

// `tag`: of this transfer alone (Comm::fresh_tag).
std::unique_ptr<Transfer> make_transfer(Schedule schedule, const mpi::Comm& comm, int tag, std::vector<Part> parts,
                                        const std::byte* send, std::byte* receive);

}  // namespace weft::exchange
