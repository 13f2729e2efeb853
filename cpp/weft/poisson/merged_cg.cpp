#include "weft/poisson/merged_cg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/space/overlap.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

// Runs work(range) -> CgSums on every range, using threads; the sums are added in the order of the ranges.
template <class Work>
CgSums sum_over(const std::vector<Range>& ranges, int threads, Work&& work) {
  std::vector<CgSums> parts(ranges.size());
  space::for_count(std::ssize(ranges), threads, [&](std::int64_t i) { parts[i] = work(ranges[i]); });
  CgSums total;
  for (const CgSums& part : parts) total += part;
  return total;
}

}  // namespace

template <class T>
MergedCg<T>::MergedCg(const SimdOperator<T>& op, const T* inverse_diagonal)
    : op_(op), d_(inverse_diagonal), owned_(op.space().unknowns()), pieces_(space::pieces({0, owned_})) {
  for (device::Array<T>* a : {&r_, &p_, &v_}) *a = device::Array<T>(op.space().device(), op.space().entries());
}

template <class T>
void MergedCg<T>::start(const T* b, T* x, bool zero_guess, device::Stream& stream) {
  const std::int64_t entries = op_.space().entries();
  T* r = r_.data();
  std::fill_n(p_.data(), entries, T{0});
  std::fill_n(v_.data(), entries, T{0});
  std::fill_n(r, entries, T{0});
  std::copy_n(b, owned_, r);
  if (zero_guess) {
    std::fill_n(x, entries, T{0});
    return;
  }
  T* v = v_.data();
  x[entries - 1] = 0;
  op_.apply(x, v, 1, stream);
  for (std::int64_t i = 0; i < owned_; ++i) r[i] -= v[i];
  std::fill_n(v, entries, T{0});
}

template <class T>
CgSums MergedCg<T>::update(T* x, const Scalars& scalars) {
  return sum_over(pieces_, op_.plan().threads, [&](const Range& range) {
    CgSweep<T> sweep({r_.data(), p_.data(), v_.data(), x, d_}, scalars);
    sweep.before(range);
    sweep.finish_block();
    return sweep.sums;
  });
}

template <class T>
double MergedCg<T>::exact_next(T alpha) {
  return sum_over(pieces_, op_.plan().threads,
                  [&](const Range& range) {
                    CgSums sums;
                    for (std::int64_t i = range.begin; i < range.end; ++i) {
                      const double r = r_.data()[i] - alpha * v_.data()[i];
                      sums.rz += r * r * (d_ != nullptr ? static_cast<double>(d_[i]) : 1.0);
                    }
                    return sums;
                  })
      .rz;
}

template <class T>
void MergedCg<T>::sweep(T* x, const Scalars& scalars, space::Part part, CgSums& sums) {
  static constexpr std::array<const char*, 3> names{"merged cg: first half", "merged cg: halo",
                                                    "merged cg: second half"};
  const space::Plan& plan = op_.plan();
  const auto pass = simd_passes<T>(op_.order()).iterate;
  for (int p = part.first; p <= part.last; ++p) {
    const trace::Span span(names[p], trace::Category::cpu);
    std::vector<CgSums> parts(space::count_chunks(plan.chunks[p]));
    space::for_numbered_chunks(plan.chunks[p], plan.threads, [&](int number, const Range& chunk, int thread) {
      CgSweep<T> work({r_.data(), p_.data(), v_.data(), x, d_}, scalars);
      pass(op_.elements(), plan, work, chunk, op_.scratch(thread));
      parts[number] = work.sums;
    });
    for (const CgSums& s : parts) sums += s;
  }
}

// Entries shared with other ranks are updated before the overlap, and their sums are computed after it.
template <class T>
CgSums MergedCg<T>::iterate(T* x, const Scalars& scalars, device::Stream& stream) {
  const space::Plan& plan = op_.plan();
  const typename CgSweep<T>::Vectors vectors{r_.data(), p_.data(), v_.data(), x, d_};
  T* v = v_.data();
  CgSums sums;
  const auto apart = [&](auto&& visit) {
    sums += sum_over(plan.apart, plan.threads, [&](const Range& range) {
      CgSweep<T> work(vectors, scalars);
      visit(work, range);
      work.finish_block();
      return work.sums;
    });
  };
  overlap(
      op_.space(), space::Vectors<T>{p_.data()}, space::Vectors<T>{v},
      [&] {
        apart([](CgSweep<T>& work, const Range& range) { work.before(range); });
        std::fill(v + plan.halo.begin, v + plan.halo.end, T{0});
      },
      [&](space::Part part) { sweep(x, scalars, part, sums); },
      [&] {
        v[plan.zero] = 0;  // where masked points added their values
        apart([](CgSweep<T>& work, const Range& range) { work.after(range); });
      },
      stream);
  return sums;
}

template <class T>
solver::SolveResult MergedCg<T>::solve(const T* b, T* x, bool zero_guess, const solver::SolveOptions& options,
                                       device::Stream& stream) {
  solver::StoppingRule rule(options);
  const trace::Span span("merged cg", trace::Category::cpu);
  // If the next r.z is below this fraction of r.z, its recurrence has lost a quarter of the digits, and it is
  // recomputed.
  const double cancels = std::pow(static_cast<double>(std::numeric_limits<T>::epsilon()), 0.25);
  // x is updated only every second iteration, when p_{j-1} = (p_j - z_j) / beta can be recovered without being stored,
  // unless beta is so small that this would amplify rounding.
  constexpr double smallest_beta = 0.05;

  const mpi::Comm& comm = op_.space().comm();
  start(b, x, zero_guess, stream);

  double alpha = 0;  // step along the current p, found after the last sweep
  double older = 0;  // the step before that
  double made = 0;   // beta with which the current p was computed
  double beta = 0;   // for the next p
  int pending = 0;   // steps not yet added to x: none, alpha, or alpha and older
  for (int j = 0;; ++j) {
    const bool last = j == options.max_iterations;
    Scalars s{op_.lambda(), static_cast<T>(alpha), static_cast<T>(beta), 0, 0, false};
    if (pending == 2) {
      s.ax = static_cast<T>(alpha + older / made);
      s.bx = static_cast<T>(-older / made);
    } else if (pending == 1 && (last || beta < smallest_beta)) {
      s.ax = static_cast<T>(alpha);
    }
    s.update_x = s.ax != 0;
    if (s.update_x) pending = 0;

    CgSums sums = last ? update(x, s) : iterate(x, s, stream);
    std::array<double, 5> all{sums.rr, sums.rz, sums.pv, sums.zv, sums.vdv};
    comm.sum(all.data(), static_cast<int>(all.size()));
    const auto [rr, rz, pv, zv, vdv] = all;

    if (rule.take(std::sqrt(rr))) {
      if (pending == 1) {  // p has been updated: x += alpha p_{j-1}
        const T step = static_cast<T>(alpha / beta);
        for (std::int64_t i = 0; i < owned_; ++i)
          x[i] += step * (p_.data()[i] - (d_ != nullptr ? d_[i] : T{1}) * r_.data()[i]);
      }
      break;
    }

    rule.require_positive(pv);
    older = alpha;
    made = beta;
    alpha = rz / pv;
    ++pending;
    double next = rz - 2 * alpha * zv + alpha * alpha * vdv;  // r.z after the step along p
    if (!(next > cancels * rz)) {
      next = exact_next(static_cast<T>(alpha));
      comm.sum(&next, 1);
    }
    beta = next / rz;
  }
  return rule.result();
}

template class MergedCg<double>;
template class MergedCg<float>;

}  // namespace weft::poisson
