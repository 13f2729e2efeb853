#include "weft/flow/pressure.hpp"

#include <cmath>
#include <stdexcept>

#include "weft/device/vector.hpp"

namespace weft::flow {
namespace {

constexpr int window = 25;
constexpr const char* advice =
    "Check that flow in and out of the domain balance and that the time step is not too large; try more Chebyshev "
    "steps, gmres instead of cg, the cycle in double precision, or a larger tolerance (single precision does not reach "
    "small ones).";

std::vector<int> levels(std::vector<int> orders, int order) {
  if (orders.empty())
    for (int each = order; each >= 1; each /= 2) orders.push_back(each);
  return orders;
}

}  // namespace

template <class T>
Pressure<T>::Pressure(poisson::Operator<T>& stiffness, std::vector<std::string> outflow, const T* mask,
                      const PressureOptions& options, T* scratch)
    : space_(stiffness.space()),
      mask_(outflow.empty() ? nullptr : mask),
      options_(options),
      orders_(levels(options.orders, space_.order())),
      multigrid_(stiffness, space_.mesh(), {orders_, options.degree}, options.single, options.method, options.restart,
                 poisson::Masked<T>{mesh::BoundarySet(std::move(outflow)), mask_}),
      projection_([this](T* x, T* y, device::Stream& stream) { multigrid_.apply(x, y, stream); }, scratch,
                  space_.entries(), space_.unknowns(), options.projection, space_.device(), space_.comm()),
      multiply_(device::vector_kernel<T>(*space_.device(), "multiply")) {
  if (options.max_iterations < 1)
    throw std::invalid_argument("pressure: max_iterations = " + std::to_string(options.max_iterations) +
                                "; at least 1");
}

template <class T>
PressureResult Pressure<T>::solve(T* rhs, T* x, double tolerance, device::Stream& stream) {
  const double scale = 1 / std::sqrt(space_.volume());
  const long n = space_.unknowns();
  if (mask_ != nullptr) multiply_(stream, device::vector_blocks(n), device::vector_shape, n, mask_, rhs, rhs);
  PressureResult result;
  result.unprojected = scale * projection_.project(rhs, x, stream);
  const solver::SolveOptions krylov{.name = "pressure",
                                    .max_iterations = options_.max_iterations,
                                    .absolute = tolerance,
                                    .norm_scale = scale,
                                    .stall_window = window,
                                    .advice = advice};
  const solver::SolveResult solved = multigrid_.solve(rhs, projection_.correction(), true, krylov, stream);
  if (solved.iterations > 0) projection_.keep(x, stream);
  result.iterations = solved.iterations;
  result.first = solved.residuals.front();
  result.last = solved.residuals.back();
  return result;
}

template <class T>
std::map<std::string, std::int64_t> Pressure<T>::memory_bytes() const {
  auto bytes = multigrid_.memory_bytes();
  bytes["projection onto earlier pressures"] = projection_.memory_bytes();
  return bytes;
}

template class Pressure<float>;
template class Pressure<double>;

}  // namespace weft::flow
