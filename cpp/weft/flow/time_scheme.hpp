// The coefficients of BDFk/EXTk for steps of any lengths.
#pragma once

#include <array>
#include <span>

#include "weft/flow/state.hpp"

namespace weft::flow {

// At the new time t0: du/dt(t0) = (gamma u^{n+1} + sum_j b_j u^{n-j}) and u*(t0) = sum_j a_j u^{n-j}. gamma and b are
// in 1/s.
struct TimeScheme {
  int order = 0;
  double gamma = 0;
  std::array<double, max_time_order> b{}, a{};
};

// steps: t^{n+1} - t^n, t^n - t^{n-1}, …, as many as the order, 1 to 3. Uses derivatives and values, at the new time,
// of the polynomials through the levels (for equal steps: Karniadakis, Israeli and Orszag 1991).
TimeScheme time_scheme(std::span<const double> steps);

}  // namespace weft::flow
