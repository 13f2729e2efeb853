// How long the next time step is, and when a simulation has blown up.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "weft/mpi/comm.hpp"
#include "weft/turbulence/options.hpp"

namespace weft::turbulence {

// Thrown, on all ranks, if the Courant number exceeds its limit or the velocity is no longer finite. The fields are
// those before the step that failed.
class BlownUp : public mpi::CollectiveError {
 public:
  BlownUp(const std::string& message, std::int64_t step, double courant)
      : mpi::CollectiveError(message), step(step), courant(courant) {}
  std::int64_t step;
  double courant;
};

// Where a simulation is: after `steps` steps, the last with Courant number `courant`; it stops at `end`.
struct Clock {
  std::int64_t steps = 0;
  double time = 0, courant = 0, end = std::numeric_limits<double>::infinity();
};

struct TimeStep {
  double dt, courant;
};
// The next step, given the largest bracket of GESTS' Eq. 8 over all points of all ranks (inf: not finite). The last two
// steps before the end are of equal length. Throws BlownUp, or CollectiveError if nothing tells a step; all ranks call
// it with the same arguments.
TimeStep next_step(const Options& options, const Clock& now, double rate);

}  // namespace weft::turbulence
