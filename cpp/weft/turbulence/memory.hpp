// The memory that a simulation will take.
#pragma once

#include <cstdint>

#include "weft/mpi/comm.hpp"
#include "weft/turbulence/options.hpp"

namespace weft::turbulence {

// Bytes per rank by Eq. 9, plus what this solver holds in addition, in fields: 3 + scalars for the solution, 5 + 3
// scalars work fields, 3 + scalars more for RK4, 1 per scalar with a mean gradient; 2 Q message buffers on more than
// one rank; on GPUs, what the transforms hold of all variables of a stage, as modes and as points, and the work area of
// the FFT library, which is asked for it. Memory of statistics and of messages by path ipc comes on top.
std::int64_t predicted_bytes(const Options& options, int ranks, int bytes_of_real);

// CollectiveError on all ranks if a rank has less free memory than that. (collective)
void check_memory(const Options& options, const mpi::Comm& comm, int bytes_of_real);

}  // namespace weft::turbulence
