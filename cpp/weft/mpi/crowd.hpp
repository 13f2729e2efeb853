// Whether ranks share processors.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// Whether this node has more ranks of `comm` than processors. Then waiting by looking keeps a processor from the rank
// that is waited for, and so does sched_yield between looks where each rank is scheduled as a group of its own: Linux
// makes a group of every session (autogroup, sched(7)), and Hydra starts each rank in a session. One that yields to
// another session was seen to get its processor back at once, until its slice of some ms was over; asleep it hands over
// in microseconds. (collective the first time)
inline bool crowded(const Comm& comm) { return static_cast<long>(comm.node().size()) > sysconf(_SC_NPROCESSORS_ONLN); }

// Whether any node has: the same on all ranks, as what they decide together needs. (collective)
inline bool any_crowded(const Comm& comm) { return comm.max(std::int64_t{crowded(comm)}) == 1; }

}  // namespace weft::mpi
