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

// The state of a simulation in time: the number of steps taken, the Courant number of the last one, and the time at
// which the simulation ends.
struct Clock {
  std::int64_t steps = 0;
  double time = 0, courant = 0, end = std::numeric_limits<double>::infinity();
};

struct TimeStep {
  double dt, courant;
};
// Chooses the next step. rate: the largest value of the bracket in GESTS' Eq. 8 over the points of all ranks, infinity
// if a velocity is not finite. The last two steps before the end have the same length. Throws BlownUp if the Courant
// number exceeds its limit, and CollectiveError if a flow at rest has no longest step. All ranks call this function
// with the same arguments.
TimeStep next_step(const Options& options, const Clock& now, double rate);

}  // namespace weft::turbulence
