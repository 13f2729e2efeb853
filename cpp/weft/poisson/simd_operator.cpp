#include "weft/poisson/simd_operator.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/device/host_compiler.hpp"
#include "weft/element/even_odd.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/poisson/simd_geometry.hpp"
#include "weft/poisson/simd_sweep.hpp"
#include "weft/space/overlap.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

// The factors, [stored block][n^3][6][lanes], 0 in lanes beyond the last element. Sets `stored` to the position of each
// curved block. Checks the Jacobians of all elements. (collective)
template <class T>
device::Array<T> stored_factors(const space::Numbering& numbering, std::span<const mesh::Shape> shapes,
                                std::vector<std::int32_t>& stored, const std::shared_ptr<device::Device>& host) {
  const std::int64_t each = numbering.points_per_element() * 6, lanes = numbering.lanes;
  std::vector<std::int64_t> of_blocks, others;  // elements
  std::int32_t blocks = 0;
  for (std::int64_t b = 0; b < std::ssize(shapes); ++b) {
    stored.push_back(blocks);
    const bool curved = shapes[b] == mesh::Shape::curved;
    if (curved) ++blocks;
    const auto first = numbering.split.order.begin() + b * lanes;
    std::vector<std::int64_t>& to = curved ? of_blocks : others;
    to.insert(to.end(), first, std::min(first + lanes, numbering.split.order.end()));
  }
  const std::int64_t elements = std::ssize(of_blocks);
  mesh::ElementFactors geometry(numbering.mesh, numbering.order);
  device::Array<T> factors;
  numbering.mesh.comm.together([&] {
    factors = {host, static_cast<std::size_t>(blocks * lanes * each)};
    if (elements % lanes != 0) std::fill_n(factors.data() + (elements - elements % lanes) * each, lanes * each, T(0));
    geometry.each(of_blocks, [&](std::int64_t e, const double* g, const double*) {
      T* to = factors.data() + e / lanes * each * lanes + e % lanes;
      for (std::int64_t i = 0; i < each; ++i) to[i * lanes] = static_cast<T>(g[i]);
    });
  });
  geometry.jacobians(others);
  geometry.check();
  return factors;
}

// D^T diag(weights) D, row-major.
std::vector<double> stiffness_matrix(const element::Gll& gll) {
  const std::size_t n = gll.points.size();
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t q = 0; q < n; ++q)
        matrix[i * n + j] += gll.derivative[q * n + i] * gll.weights[q] * gll.derivative[q * n + j];
  return matrix;
}

}  // namespace

template <class T>
const SimdPasses<T>& simd_passes(int order) {
  if (order < 1 || order > element::max_order)
    throw std::invalid_argument("poisson: order " + std::to_string(order) + " is not in 1.." +
                                std::to_string(element::max_order));
  return device::host_table<SimdPasses<T>>("poisson/simd_order", "passes", order, device::type_name<T>());
}

template <class T>
SimdOperator<T>::SimdOperator(space::Space<T>& space, Geometry geometry, double lambda)
    : space_(space), lambda_(static_cast<T>(lambda)), geometry_(geometry) {
  if (space.blocks() == nullptr) throw std::invalid_argument("poisson: the SIMD kernels need a space with blocks");
  check_geometry(geometry, space.mesh());
  const int order = space.order(), n = order + 1;
  const auto& device = space.device();

  const element::Gll& gll = element::gll(order);
  std::vector<double> transposed(n * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) transposed[i * n + j] = gll.derivative[j * n + i];
  std::vector<T> tables;
  element::append_even_odd(gll.derivative, n, tables);
  const std::size_t forward = tables.size();
  element::append_even_odd(transposed, n, tables);
  const std::size_t stiffness = tables.size();
  element::append_even_odd(stiffness_matrix(gll), n, n, true, tables);
  const std::size_t points = tables.size();
  for (const double x : gll.points) tables.push_back(static_cast<T>(x));
  for (const double w : gll.weights) tables.push_back(static_cast<T>(w));
  tables_ = device::Array<T>(device, tables);

  shapes_ = space.numbering().shapes;
  if (geometry == Geometry::stored) std::ranges::fill(shapes_, mesh::Shape::curved);
  const auto all_stored = [&] { return std::ranges::count(shapes_, mesh::Shape::curved) == std::ssize(shapes_); };
  const T* table = tables_.data();
  elements_ = {space.blocks()->index(),
               table,
               table + forward,
               table + stiffness,
               table + points,
               table + points + n,
               nullptr,
               nullptr,
               all_stored() ? nullptr : space.trilinear_blocks().data(),
               shapes_.data(),
               simd_passes<T>(order).planes};
  if (geometry == Geometry::automatic) choose_metric();
  factors_ = stored_factors<T>(space.numbering(), shapes_, stored_, device);
  elements_.factors = factors_.data();
  elements_.stored = stored_.data();
  scratch_ = {plan().threads, scratch_vectors(order) * simd::lanes<T>};
}

template <class T>
void SimdOperator<T>::choose_metric() {
  const StraightMetric metric =
      choose_straight_metric<T>(space_, elements_, std::ranges::count(shapes_, mesh::Shape::trilinear));
  geometry_reason_ = metric.reason;
  if (metric.stored) std::ranges::replace(shapes_, mesh::Shape::trilinear, mesh::Shape::curved);
  const std::int64_t stored = std::ranges::count(shapes_, mesh::Shape::curved), blocks = std::ssize(shapes_);
  const mpi::Comm& comm = space_.comm();
  const bool some = comm.max(stored) > 0, others = comm.max(blocks - stored) > 0;
  geometry_ = !some ? Geometry::trilinear : others ? Geometry::mixed : Geometry::stored;
}

template <class T>
void SimdOperator<T>::begin(const T* x, T* y, int fields) const {
  const space::Plan& plan = this->plan();
  for (int f = 0; f < fields; ++f, x += plan.zero + 1, y += plan.zero + 1) {
    space::for_pieces(plan.apart, plan.threads, [&](Range range) { OperatorSweep<T>(x, y, lambda_).before(range); });
    std::fill(y + plan.halo.begin, y + plan.halo.end, T{0});
    y[plan.zero] = 0;
  }
}

template <class T>
void SimdOperator<T>::work(const T* x, T* y, space::Part part, int fields) const {
  static constexpr std::array<const char*, 3> names{"operator: first half", "operator: halo", "operator: second half"};
  const space::Plan& plan = this->plan();
  const auto pass = simd_passes<T>(order()).apply;
  const std::int64_t entries = plan.zero + 1;
  for (int p = part.first; p <= part.last; ++p) {
    const trace::Span span(names[p], trace::Category::cpu);
    space::for_chunks(plan.chunks[p], plan.threads, [&](const Range& chunk, int thread) {
      if (fields == 1) {
        OperatorSweep<T> sweep(x, y, lambda_);
        pass(elements_, plan, sweep, chunk, scratch(thread));
        return;
      }
      for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
        for (int f = 0; f < fields; ++f) {
          OperatorSweep<T> sweep(x + f * entries, y + f * entries, lambda_);
          pass(elements_, plan, sweep, {b, b + 1}, scratch(thread));
        }
      }
    });
    for (int f = 0; f < fields; ++f) y[f * entries + plan.zero] = 0;  // where masked points added theirs
  }
}

template <class T>
void SimdOperator<T>::apply(T* x, T* y, int fields, device::Stream& stream) const {
  overlap(
      space_, space::Vectors<T>{x, fields}, space::Vectors<T>{y, fields}, [&] { begin(x, y, fields); },
      [&](space::Part part) { work(x, y, part, fields); }, [] {}, stream);
}

template <class T>
std::array<std::int64_t, 4> SimdOperator<T>::elements_by_shape() const {
  std::array<std::int64_t, 4> counts{};
  const std::int64_t lanes = space_.numbering().lanes, elements = space_.elements();
  for (std::int64_t b = 0; b < std::ssize(shapes_); ++b)
    counts[static_cast<std::size_t>(shapes_[b])] += std::min(lanes, elements - b * lanes);
  return counts;
}

template <class T>
std::map<std::string, std::int64_t> SimdOperator<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes{{"scratch", scratch_.bytes()}};
  if (!factors_.empty()) bytes["geometry"] = static_cast<std::int64_t>(factors_.bytes());
  return bytes;
}

template const SimdPasses<double>& simd_passes<double>(int);
template const SimdPasses<float>& simd_passes<float>(int);
template class SimdOperator<double>;
template class SimdOperator<float>;

}  // namespace weft::poisson
