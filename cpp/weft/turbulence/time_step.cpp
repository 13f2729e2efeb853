#include "weft/turbulence/time_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace weft::turbulence {

TimeStep next_step(const Options& options, const Clock& now, double rate) {
  double next = options.dt;
  if (next == 0 && std::isfinite(rate)) {
    if (rate == 0 && options.max_dt == 0)
      throw mpi::CollectiveError(
          "turbulence: the velocity is 0 everywhere, so that a Courant number tells no time "
          "step; give dt");
    next = rate == 0 ? options.max_dt : options.courant / rate;
    if (options.max_dt > 0) next = std::min(next, options.max_dt);
  }
  // Equal steps at the end, rather than a tiny last one.
  if (const double left = (now.end - now.time) / next; left < 2 && std::abs(left - std::round(left)) > 1e-9)
    next = (now.end - now.time) / std::max(1.0, std::ceil(left - 1e-6));
  const double number = next * rate;
  if (!(number <= options.courant_limit)) {
    char text[300];
    if (std::isfinite(rate))
      std::snprintf(text, sizeof text,
                    "turbulence: blown up in step %lld (time %.6g): the Courant number is %.4g, its limit %.4g; take a "
                    "smaller dt, or a Courant number instead",
                    static_cast<long long>(now.steps + 1), now.time, number, options.courant_limit);
    else
      std::snprintf(text, sizeof text,
                    "turbulence: blown up in step %lld (time %.6g): the velocity is no longer finite (Courant number "
                    "nan; it was %.4g in the step before)",
                    static_cast<long long>(now.steps + 1), now.time, now.courant);
    throw BlownUp(text, now.steps + 1, std::isfinite(rate) ? number : std::numeric_limits<double>::quiet_NaN());
  }
  return {next, number};
}

}  // namespace weft::turbulence
