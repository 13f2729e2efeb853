// Whether ranks have to share processors.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// Whether this node has more ranks of `comm` than processors. Then a rank that busy-waits keeps a processor from the
// rank that it waits for. Calling sched_yield does not help if each rank is a scheduling group of its own: Linux makes
// a group of every session (autogroup, sched(7)), and Hydra starts each rank in a session. In our measurements ranks
// that yielded got their processor back at once, until their time slice of a few ms was over; sleeping hands the
// processor over within microseconds. (collective the first time)
inline bool crowded(const Comm& comm) { return static_cast<long>(comm.node().size()) > sysconf(_SC_NPROCESSORS_ONLN); }

// Whether this is true of any node. The result is the same on all ranks, for decisions that they must take alike.
// (collective)
inline bool any_crowded(const Comm& comm) { return comm.max(std::int64_t{crowded(comm)}) == 1; }

}  // namespace weft::mpi
