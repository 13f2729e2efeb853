#include "weft/poisson/component_passes.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "weft/device/host_compiler.hpp"
#include "weft/element/gll.hpp"
#include "weft/space/overlap.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

template <class T>
void add_sums(const std::vector<ComponentSweep<T>>& sweeps, double* sums) {
  for (std::size_t c = 0; c < sweeps.size(); ++c)
    for (int s = 0; s < component_sums; ++s) sums[s * sweeps.size() + c] += sweeps[c].sums[s];
}

}  // namespace

template <class T>
ComponentPasses<T>::ComponentPasses(const SimdOperator<T>& op, const T* b, const T* mask, int components)
    : op_(op),
      b_(b),
      mask_(mask),
      components_(components),
      entries_(op.space().entries()),
      pieces_(space::pieces({0, op.space().unknowns()})) {
  if (components > max_fields) throw std::invalid_argument("poisson: more components than a pass supports");
  op.space().exchange(components);
}

template <class T>
std::vector<ComponentSweep<T>> ComponentPasses<T>::sweeps(const solver::ComponentPass<T>& pass) const {
  std::vector<ComponentSweep<T>> all;
  for (int c = 0; c < components_; ++c) {
    const std::int64_t at = c * entries_;
    const double alpha = pass.alpha[c] * pass.h1;  // for v = A p / h1
    all.emplace_back(typename ComponentSweep<T>::Vectors{pass.r + at, pass.p + at, pass.v + at, pass.x + at, b_, pass.d,
                                                         mask_ == nullptr ? nullptr : mask_ + at},
                     typename ComponentSweep<T>::Scalars{static_cast<T>(pass.h2 / pass.h1), static_cast<T>(alpha),
                                                         static_cast<T>(pass.beta[c]), static_cast<T>(pass.alpha[c])});
  }
  return all;
}

// Runs work(sweep, range) on every range for every component, using threads. The sums are added in the order of the
// ranges.
template <class T>
template <class Work>
void ComponentPasses<T>::for_ranges(const solver::ComponentPass<T>& pass, const std::vector<Range>& ranges,
                                    double* sums, Work&& work) const {
  const int threads = op_.plan().threads;
  if (ranges.empty()) return;
  std::vector<std::vector<ComponentSweep<T>>> parts(threads > 1 ? ranges.size() : 1, sweeps(pass));
  space::for_count(std::ssize(ranges), threads, [&](std::int64_t i) {
    for (ComponentSweep<T>& sweep : parts[threads > 1 ? i : 0]) {
      work(sweep, ranges[i]);
      sweep.finish_block();
    }
  });
  for (const auto& part : parts) add_sums(part, sums);
}

template <class T>
void ComponentPasses<T>::sweep(const solver::ComponentPass<T>& pass, space::Part part, double* sums) const {
  static constexpr std::array<const char*, 3> names{"component cg: first half", "component cg: halo",
                                                    "component cg: second half"};
  const space::Plan& plan = op_.plan();
  const auto run =
      device::host_table<FieldPasses<T>>("poisson/simd_order", "fields", op_.order(), device::type_name<T>()).iterate;
  for (int p = part.first; p <= part.last; ++p) {
    const trace::Span span(names[p], trace::Category::cpu);
    std::vector<std::vector<ComponentSweep<T>>> parts(space::count_chunks(plan.chunks[p]));
    space::for_numbered_chunks(plan.chunks[p], plan.threads, [&](int number, const Range& chunk, int thread) {
      std::vector<ComponentSweep<T>> work = sweeps(pass);  // of its own: threads must not share cache lines
      run(op_.elements(), plan, work.data(), components_, chunk, op_.scratch(thread));
      parts[number] = std::move(work);
    });
    for (const auto& each : parts) add_sums(each, sums);
  }
}

// Entries shared with other ranks are updated before the overlap, and their sums are computed after it.
template <class T>
void ComponentPasses<T>::operator()(const solver::ComponentPass<T>& pass, double* sums, device::Stream& stream) const {
  std::fill_n(sums, component_sums * components_, 0.0);
  const space::Plan& plan = op_.plan();
  if (pass.last) {
    for_ranges(pass, pieces_, sums, [](ComponentSweep<T>& sweep, const Range& range) { sweep.solution(range); });
    return;
  }
  overlap(
      op_.space(), space::Vectors<T>{pass.p, components_}, space::Vectors<T>{pass.v, components_},
      [&] {
        for_ranges(pass, plan.apart, sums, [](ComponentSweep<T>& sweep, const Range& range) { sweep.before(range); });
        for (int c = 0; c < components_; ++c)
          std::fill(pass.v + c * entries_ + plan.halo.begin, pass.v + c * entries_ + plan.halo.end, T{0});
      },
      [&](space::Part part) { sweep(pass, part, sums); },
      [&] {
        for (int c = 0; c < components_; ++c) pass.v[c * entries_ + plan.zero] = 0;
        for_ranges(pass, plan.apart, sums, [](ComponentSweep<T>& sweep, const Range& range) { sweep.after(range); });
      },
      stream);
  // v is A p / h1.
  for (int c = 0; c < components_; ++c) {
    for (const int once : {2, 3, 5}) sums[once * components_ + c] *= pass.h1;
    for (const int twice : {4, 6}) sums[twice * components_ + c] *= pass.h1 * pass.h1;
  }
}

template class ComponentPasses<float>;
template class ComponentPasses<double>;

}  // namespace weft::poisson
