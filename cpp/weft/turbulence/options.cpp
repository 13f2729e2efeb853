#include "weft/turbulence/options.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace weft::turbulence {
namespace {

bool smooth(std::int64_t n) {
  for (const int prime : {2, 3, 5, 7})
    while (n % prime == 0) n /= prime;
  return n == 1;
}

}  // namespace

std::string name(Scheme scheme) { return scheme == Scheme::rk2 ? "rk2" : "rk4"; }

std::string name(ForcingKind kind) {
  return kind == ForcingKind::none ? "none" : kind == ForcingKind::stochastic ? "stochastic" : "band";
}

void check(const Options& options) {
  const auto complain = [](const std::string& text) { throw std::invalid_argument("turbulence: " + text); };
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t n = options.box.sizes[axis];
    if (n < 4 || !smooth(n))
      complain("a grid of " + std::to_string(n) + " points in " + "xyz"[axis] +
               "; sizes are products of 2, 3, 5 and 7, of at least 4");
    if (!(options.box.lengths[axis] > 0) || !std::isfinite(options.box.lengths[axis]))
      complain("the length of the box in " + std::string(1, "xyz"[axis]) + " must be above 0");
  }
  if (!(options.viscosity >= 0) || !std::isfinite(options.viscosity)) complain("the viscosity must be at least 0");
  if ((options.dt > 0) == (options.courant > 0) || !(options.dt >= 0) || !(options.courant >= 0))
    complain("give either a time step dt or a Courant number, above 0");
  if (!(options.courant_limit > 0)) complain("the limit of the Courant number must be above 0");
  if (!(options.max_dt >= 0) || !std::isfinite(options.max_dt)) complain("the longest step must be at least 0");
  if (options.courant > 0 && !(options.courant < std::min(1.0, options.courant_limit)))
    complain("a Courant number of " + std::to_string(options.courant) +
             " is not stable: it must be below 1 (GESTS, Eq. 8) and the limit");
  for (const ScalarOptions& scalar : options.scalars)
    if (!(scalar.schmidt > 0)) complain("a Schmidt number must be above 0");
  if (options.batch && *options.batch < 1) complain("batch must be at least 1");
}

}  // namespace weft::turbulence
