#include "weft/poisson/merged_chebyshev.hpp"

#include <algorithm>

#include "weft/solver/chebyshev.hpp"
#include "weft/space/overlap.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
template <class T>
MergedChebyshev<T>::MergedChebyshev(Operator<T>& op, int degree)
    : op_(op),
      degree_(degree),
      d_(op.inverse_diagonal()),
      r_(op.options().device, op.entries()),
      z_(op.options().device, op.entries()) {
  solver::ChebyshevSetup<T> setup;
  setup.apply = [&op](T* x, T* y, device::Stream& stream) { op.apply(x, y, stream); };
  setup.diagonal = d_.data();
  setup.entries = op.entries();
  setup.unknowns = op.unknowns();
  setup.start = rough_values(op);
  setup.degree = degree;
  largest_ = solver::largest_eigenvalue<T>(setup, op.options().device, op.comm());
  r_.zero();
  z_.zero();
}

template <class T>
void MergedChebyshev<T>::start(const T* b, T* x, T* work, bool residual, device::Stream& stream) {
  const trace::Span span("smoother", trace::Category::cpu);
  x[op_.entries() - 1] = 0;
  steps(b, x, work, true, residual, stream);
}

template <class T>
void MergedChebyshev<T>::improve(const T* b, T* x, T* work, device::Stream& stream) {
  const trace::Span span("smoother", trace::Category::cpu);
  op_.apply(x, work, stream);
  steps(b, x, work, false, false, stream);
}

template <class T>
void MergedChebyshev<T>::steps(const T* b, T* x, T* v, bool fresh, bool residual, device::Stream& stream) {
  const T* r = b;  // before v is subtracted
  for (int i = 1; i <= degree_; ++i) {
    const solver::ChebyshevStep step = solver::chebyshev_step(degree_, i, largest_);
    const bool last = i == degree_;
    const Sweep sweep({r, !last && !(fresh && i == 1) ? r_.data() : nullptr, z_.data(), v, x, d_.data(), b},
                      {static_cast<T>(op_.options().lambda), static_cast<T>(step.a), static_cast<T>(step.c),
                       static_cast<T>(step.s), !(fresh && i == 1), fresh && i == 1, last && residual});
    if (last && !residual)
      sweep.update_only({0, op_.unknowns()});
    else
      pass(sweep, stream);
    if (sweep.entries.to.kept != nullptr) r = r_.data();
  }
}

// Entries shared with other ranks are updated before the overlap, and their residual is computed after it.
template <class T>
void MergedChebyshev<T>::pass(const Sweep& sweep, device::Stream& stream) {
  const SimdOperator<T>& op = *op_.simd();
  const space::Plan& plan = op.plan();
  T* const v = sweep.entries.to.v;
  T* const y = sweep.entries.step.residual ? sweep.entries.to.x : sweep.entries.to.z;
  const auto run = simd_passes<T>(op.order()).smooth;
  overlap(
      op.space(), space::Vectors<T>{y}, space::Vectors<T>{v},
      [&] {
        space::for_pieces(plan.apart, plan.threads, [&](const Range& range) { sweep.before(range); });
        std::fill(v + plan.halo.begin, v + plan.halo.end, T{0});
      },
      [&](space::Part part) {
        for (int p = part.first; p <= part.last; ++p)
          space::for_chunks(plan.chunks[p], plan.threads, [&](const Range& chunk, int thread) {
            Sweep own = sweep;
            run(op.elements(), plan, own, chunk, op.scratch(thread));
          });
      },
      [&] {
        v[plan.zero] = 0;  // where masked points added their values
        space::for_pieces(plan.apart, plan.threads, [&](const Range& range) { sweep.after(range); });
      },
      stream);
}

template <class T>
std::int64_t MergedChebyshev<T>::memory_bytes() const {
  return static_cast<std::int64_t>(d_.bytes() + r_.bytes() + z_.bytes());
}

template class MergedChebyshev<float>;
template class MergedChebyshev<double>;

}  // namespace weft::poisson
