#include "weft/solver/component_cg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "weft/device/vector.hpp"
#include "weft/solver/stopping.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::solver {
namespace {

enum Kind { rr, rz, pv, zv, vdv, rv, vv, kinds };  // must match kernels/component_cg.hpp
constexpr int made_with_residual = 2;              // rr and rz

constexpr int window = 60;  // the residual of Jacobi-CG may rise for a while
constexpr const char* advice =
    "Use smaller time steps or a larger tolerance (single precision cannot reach small ones), and look for elements "
    "that are very flat or almost folded.";

}  // namespace

template <class T>
ComponentCg<T>::ComponentCg(ComponentSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm)
    : system_(std::move(system)),
      device_(std::move(device)),
      comm_(comm),
      blocks_(device::vector_blocks(system_.unknowns)),
      d_(device_, system_.entries),
      p_(device_, system_.p == nullptr ? system_.components * system_.entries : 0),
      v_(device_, system_.v == nullptr ? system_.components * system_.entries : 0),
      partials_(device_, std::size_t{kinds} * system_.components * std::max<std::int64_t>(1, blocks_)),
      sums_(device_, std::size_t{kinds} * system_.components),
      host_(device_, device::Memory::host, kinds * max_components * sizeof(double)) {
  if (system_.components < 1 || system_.components > max_components)
    throw std::invalid_argument("component cg: " + std::to_string(system_.components) + " components; 1 to 4");
  const auto kernel = [this](const char* name) { return device_->kernel<T>("component_cg", name); };
  diagonal_ = kernel("component_diagonal");
  start_ = kernel("component_start");
  products_ = kernel("component_products");
  update_ = kernel("component_update");
  solution_ = kernel("component_solution");
  sum_ = kernel("component_sums");
  for (device::Array<T>* vector : {&d_, &p_, &v_}) vector->zero();
  if (system_.p == nullptr) system_.p = p_.data();
  if (system_.v == nullptr) system_.v = v_.data();
  partials_.zero();
}

template <class T>
void ComponentCg<T>::set(double h1, double h2, device::Stream& stream) {
  if (!(h1 >= 0 && h2 >= 0 && h1 + h2 > 0))
    throw std::invalid_argument(system_.name + ": h1 = " + std::to_string(h1) + " and h2 = " + std::to_string(h2) +
                                " do not give a positive definite operator");
  if (h1 == h1_ && h2 == h2_) return;
  h1_ = h1;
  h2_ = h2;
  diagonal_(stream, blocks_, device::vector_shape, system_.unknowns, h1, h2, system_.diagonal, system_.mass, d_.data());
}

template <class T>
void ComponentCg<T>::sum_up(int count, double* sums, device::Stream& stream) {
  const int all = count * system_.components;
  sum_(stream, all, device::vector_shape, blocks_, partials_.data(), sums_.data());
  device_->copy(host_.as<double>(), sums_.data(), all * sizeof(double), device::CopyKind::device_to_host, stream);
  stream.synchronize();
  std::copy_n(host_.as<double>(), all, sums);
}

template <class T>
std::vector<ComponentResult> ComponentCg<T>::solve(T* rhs, T* x, bool zero_guess, const ComponentCgOptions& options,
                                                   device::Stream& stream) {
  const int k = system_.components;
  const long n = system_.unknowns, entries = system_.entries;
  const std::int64_t blocks = blocks_ * k;
  const T *b = system_.mass, *d = d_.data(), *mask = system_.mask;
  T *p = system_.p, *v = system_.v;
  double* partials = partials_.data();
  if (h1_ + h2_ == 0) throw std::logic_error(system_.name + ": solve() was called before set()");

  if (zero_guess) {
    device_->fill_zero(x, k * entries * sizeof(T), stream);
    device_->fill_zero(v, k * entries * sizeof(T), stream);
  } else {
    system_.stiffness(x, v, k, stream);
  }
  start_(stream, blocks, device::vector_shape, n, entries, k, h1_, h2_, b, d, mask, zero_guess ? nullptr : v, x, rhs, p,
         partials);

  std::vector<StoppingRule> rules(k, StoppingRule({.name = system_.name,
                                                   .max_iterations = options.max_iterations,
                                                   .absolute = options.tolerance,
                                                   .norm_scale = options.norm_scale,
                                                   .stall_window = window,
                                                   .advice = advice}));
  // The square root of a square that rounding may have made negative; NaN and Inf are preserved.
  const auto norm = [](double square) { return std::sqrt(square < 0 ? 0 : square); };
  std::vector<double> sums(kinds * k);
  sum_up(made_with_residual, sums.data(), stream);
  comm_.sum(sums.data(), made_with_residual * k);
  for (int c = 0; c < k; ++c) rules[c].take(norm(sums[rr * k + c]));

  const bool fused = system_.fused && h1_ > 0;
  Scalars scalars{};
  const auto pass = [&](bool last) {
    system_.fused({.h1 = h1_,
                   .h2 = h2_,
                   .alpha = scalars.alpha,
                   .beta = scalars.beta,
                   .r = rhs,
                   .p = p,
                   .v = v,
                   .x = x,
                   .d = d,
                   .last = last},
                  sums.data(), stream);
  };
  const auto update = [&] {
    update_(stream, blocks, device::vector_shape, n, entries, k, scalars, d, v, x, rhs, p, partials);
  };
  // The rounding error of r . r if the formula below gives 0.
  constexpr double rounding = 16 * static_cast<double>(std::numeric_limits<T>::epsilon());
  bool stepped = false;
  while (!std::ranges::all_of(rules, &StoppingRule::ended)) {
    if (fused) {
      pass(false);
    } else {
      if (stepped) update();
      system_.stiffness(p, v, k, stream);
      products_(stream, blocks, device::vector_shape, n, entries, k, h1_, h2_, b, d, mask, rhs, p, v, partials);
      sum_up(kinds, sums.data(), stream);
    }
    comm_.sum(sums.data(), kinds * k);
    scalars = {};
    stepped = true;
    for (int c = 0; c < k; ++c) {
      if (rules[c].ended()) continue;  // with steps of length 0
      const auto of = [&](Kind kind) { return sums[kind * k + c]; };
      rules[c].require_positive(of(pv));
      const double alpha = of(rz) / of(pv);
      const double next = of(rr) - 2 * alpha * of(rv) + alpha * alpha * of(vv);
      scalars.alpha[c] = alpha;
      scalars.beta[c] = std::max(0.0, (of(rz) - 2 * alpha * of(zv) + alpha * alpha * of(vdv)) / of(rz));
      rules[c].take(norm(next < rounding * of(rr) ? rounding * of(rr) : next));
    }
  }
  if (stepped && fused)
    pass(true);
  else if (stepped)
    solution_(stream, blocks, device::vector_shape, n, entries, k, scalars, p, x);
  std::vector<ComponentResult> results;
  for (const StoppingRule& rule : rules) results.push_back({rule.iterations(), rule.first(), rule.last()});
  return results;
}

template <class T>
std::int64_t ComponentCg<T>::memory_bytes() const {
  return static_cast<std::int64_t>(d_.bytes() + p_.bytes() + v_.bytes() + partials_.bytes());
}

template class ComponentCg<float>;
template class ComponentCg<double>;

}  // namespace weft::solver
