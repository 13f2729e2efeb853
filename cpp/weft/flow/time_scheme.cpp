#include "weft/flow/time_scheme.hpp"

#include <stdexcept>
#include <string>

namespace weft::flow {

TimeScheme time_scheme(std::span<const double> steps) {
  if (steps.empty() || steps.size() > max_time_order)
    throw std::invalid_argument("flow: the order in time must be 1 to 3, not " + std::to_string(steps.size()));
  TimeScheme scheme;
  scheme.order = static_cast<int>(steps.size());
  std::array<double, max_time_order> age{};  // time from each old level to the new time
  for (int j = 0; j < scheme.order; ++j) age[j] = (j > 0 ? age[j - 1] : 0) + steps[j];
  for (int j = 0; j < scheme.order; ++j) {
    // Lagrange polynomials of level j, evaluated at the new time: through the old levels, and through these and the new
    // time.
    double value = 1;
    for (int m = 0; m < scheme.order; ++m)
      if (m != j) value *= age[m] / (age[m] - age[j]);
    scheme.a[j] = value;
    scheme.b[j] = -value / age[j];
    scheme.gamma += 1 / age[j];
  }
  return scheme;
}

}  // namespace weft::flow
