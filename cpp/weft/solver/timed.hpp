// Measures the time that a solve takes.
#pragma once

#include <chrono>
#include <utility>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/solver/stopping.hpp"

namespace weft::solver {

// The result of `solve()` with its time in seconds on the slowest rank, from when all ranks and the stream are ready
// until the work that the solve has enqueued on the stream is done. Solvers do not time themselves, because timing
// needs two waits. (collective)
template <class Solve>
SolveResult timed(const mpi::Comm& comm, device::Stream& stream, Solve&& solve) {
  stream.synchronize();
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  SolveResult result = std::forward<Solve>(solve)();
  stream.synchronize();
  result.seconds = comm.max(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return result;
}

}  // namespace weft::solver
