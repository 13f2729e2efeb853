#include "weft/maxwell/simd_operator.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <stdexcept>
#include <utility>

#include "weft/device/host_compiler.hpp"
#include "weft/element/even_odd.hpp"
#include "weft/element/gll.hpp"
#include "weft/exchange/pattern.hpp"
#include "weft/mesh/axes.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/mesh/shape.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::maxwell {
namespace {

// How the kernels treat an element: a box with edges in other directions is like any other parallelepiped, and
// trilinear elements are like curved ones.
Shape treatment(const mesh::Mesh& mesh, std::int64_t element) {
  switch (mesh::shape_of(mesh, element)) {
    case mesh::Shape::box:
      return mesh::along_axes(mesh, element) ? Shape::box : Shape::affine;
    case mesh::Shape::affine:
      return Shape::affine;
    case mesh::Shape::trilinear:
    case mesh::Shape::curved:
      return Shape::curved;
  }
  return Shape::curved;
}

// The components (0..2) along the axes of a side.
int axis_a(int side) { return side < 2 ? 1 : 0; }
int axis_b(int side) { return side < 4 ? 2 : 1; }

// The position in the element of point q of a side.
std::int64_t side_point(int side, std::int64_t q, std::int64_t n) {
  const std::array<std::int64_t, 3> strides{1, n, n * n};
  return q % n * strides[axis_a(side)] + q / n * strides[axis_b(side)] + side % 2 * (n - 1) * strides[side / 2];
}

// g_aa, g_ab, g_bb divided by the area element, at a point of a side. g: [9][points] at the point.
std::array<double, 3> surface_metric(const double* g, std::int64_t points, int side) {
  const auto dot = [&](int u, int v) {
    double sum = 0;
    for (int c = 0; c < 3; ++c) sum += g[(3 * u + c) * points] * g[(3 * v + c) * points];
    return sum;
  };
  const int a = axis_a(side), b = axis_b(side);
  const double aa = dot(a, a), ab = dot(a, b), bb = dot(b, b), area = std::sqrt(aa * bb - ab * ab);
  return {aa / area, ab / area, bb / area};
}

// media, fluxes and g are those of the element.
template <class T>
ElementValues<T> element_values(Shape shape, const double* media, const double* fluxes, const double* g,
                                std::int64_t points, double end_weight) {
  ElementValues<T> v{};
  const auto cast = [](double x) { return static_cast<T>(x); };
  v.inverse_eps = cast(media[0]);
  v.minus_inverse_mu = cast(-media[1]);
  v.loss = cast(media[2]);
  std::array<double, 3> h{1, 1, 1};              // lengths that make components covariant
  std::array<double, 6> rate{1, 1, 1, 1, 1, 1};  // factors that turn J times contravariant curls into rates
  if (shape == Shape::box) {
    for (int c = 0; c < 3; ++c) h[c] = g[4 * c * points];
    for (int c = 0; c < 3; ++c) {
      v.frame[c] = cast(h[c]);
      rate[c] = media[0] * h[c] / (h[0] * h[1] * h[2]);
      rate[3 + c] = -media[1] * h[c] / (h[0] * h[1] * h[2]);
    }
  }
  if (shape == Shape::affine) {
    for (int c = 0; c < 9; ++c) v.frame[c] = cast(g[c * points]);
    const auto x = [&](int c) { return g[c * points]; };
    v.inverse_jacobian = cast(1 / (x(0) * (x(4) * x(8) - x(5) * x(7)) + x(1) * (x(5) * x(6) - x(3) * x(8)) +
                                   x(2) * (x(3) * x(7) - x(4) * x(6))));
  }
  for (int half = 0; half < 2; ++half) {
    const double* r = rate.data() + 3 * half;
    v.d_t[2 * half] = cast(-h[1] * r[0]);
    v.d_t[2 * half + 1] = cast(h[0] * r[1]);
    v.d_s[2 * half] = cast(h[2] * r[0]);
    v.d_s[2 * half + 1] = cast(-h[0] * r[2]);
    v.d_r[2 * half] = cast(-h[2] * r[1]);
    v.d_r[2 * half + 1] = cast(h[1] * r[2]);
  }
  for (int side = 0; side < 6; ++side) {
    const double* f = fluxes + 4 * side;
    // -n x H is rotated by 90 degrees in the face: from b to a, and from a to -b, for faces whose axes are in cyclic
    // order.
    const double turn = (side % 2 == 0 ? -1 : 1) * (side / 2 == 1 ? -1 : 1) / end_weight;
    const double hh = f[0] / media[0] * turn, he = f[1] / media[0] / end_weight;
    const double ee = f[2] / media[1] * turn, eh = f[3] / media[1] / end_weight;
    const int a = axis_a(side), b = axis_b(side);
    std::array<double, 3> metric{1, 0, 1};
    if (shape != Shape::curved) metric = surface_metric(g + side_point(side, 0, 1), points, side);
    const auto& [g_aa, g_ab, g_bb] = metric;
    const double along_a = shape == Shape::box ? g_bb : 1, along_b = shape == Shape::box ? g_aa : 1;
    v.faces[side] = {cast(hh * rate[a]),
                     cast(-he * along_a * rate[a]),
                     cast(-hh * rate[b]),
                     cast(-he * along_b * rate[b]),
                     cast(ee * rate[3 + a]),
                     cast(eh * along_a * rate[3 + a]),
                     cast(-ee * rate[3 + b]),
                     cast(eh * along_b * rate[3 + b]),
                     cast(g_aa),
                     cast(g_ab),
                     cast(g_bb)};
  }
  return v;
}

// How a face with orientation `mine` maps to one with orientation `theirs` (mesh/reference.hpp). index: [n^2], filled
// here.
template <class T>
FaceMatch<T> face_match(int mine, int theirs, int n, std::int32_t* index) {
  std::vector<std::int32_t> at(n * n);  // by position in the canonical frame
  for (int b = 0; b < n; ++b)
    for (int a = 0; a < n; ++a) {
      const auto [p, q] = mesh::to_canonical(theirs, a, b, n - 1);
      at[q * n + p] = b * n + a;
    }
  for (int b = 0; b < n; ++b)
    for (int a = 0; a < n; ++a) {
      const auto [p, q] = mesh::to_canonical(mine, a, b, n - 1);
      index[b * n + a] = at[q * n + p];
    }
  const int swap = (mine >> 2 ^ theirs >> 2) & 1;
  const auto sign = [&](int axis) { return ((mine >> axis ^ theirs >> (axis ^ swap)) & 1) != 0 ? T{-1} : T{1}; };
  return {index, swap, sign(0), sign(1)};
}

}  // namespace

template <class T>
SimdOperator<T>::SimdOperator(const mesh::Mesh& mesh, int order, const Geometry& geometry,
                              const Coefficients& coefficients, const std::set<std::int32_t>& driven,
                              const exchange::Asked& asked, std::shared_ptr<device::Device> device)
    : order_(order),
      elements_(mesh.elements()),
      driven_(driven.begin(), driven.end()),
      threads_(omp_get_max_threads()) {
  const element::Gll& gll = element::gll(order);  // checks the order
  functions_ = device::host_table<SimdFunctions<T>>("maxwell/simd_order", "functions", order, device::type_name<T>());
  weights_ = gll.weights;
  if (!device->is_host()) throw std::invalid_argument("maxwell: kernels = \"simd\" run on the host only");

  const std::int64_t n = order + 1, face = n * n, points = face * n, stride = face_stride<T>(order);
  // Tables.
  std::vector<T> tables;
  element::append_even_odd(gll.derivative, static_cast<int>(n), tables);
  while (tables.size() % (64 / sizeof(T)) != 0) tables.push_back(0);
  const std::size_t rows = tables.size();
  const std::int64_t row_stride = functions_.row_stride;
  tables.resize(rows + (n + 2) * row_stride);
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t i = 0; i < n; ++i) tables[rows + m * row_stride + i] = static_cast<T>(gll.derivative[i * n + m]);
  tables[rows + n * row_stride] = 1;
  tables[rows + (n + 1) * row_stride + n - 1] = 1;
  tables_ = device::Array<T>(device, std::span<const T>(tables));
  for (std::int64_t q = 0; q < stride; ++q) row_starts_.push_back(static_cast<std::int32_t>(std::min(q, face - 1) * n));

  // Elements.
  const auto element_jacobian = [&](std::int64_t e) { return geometry.jacobian.data() + e * 9 * points; };
  for (std::int64_t e = 0; e < elements_; ++e) {
    const Shape shape = treatment(mesh, e);
    shapes_.push_back(shape);
    std::int64_t& count = by_shape_[static_cast<std::size_t>(shape)];
    metric_.push_back(shape == Shape::curved ? count : -1);
    ++count;
    values_.push_back(element_values<T>(shape, coefficients.media.data() + 4 * e, coefficients.fluxes.data() + 24 * e,
                                        element_jacobian(e), points, gll.weights[0]));
  }
  const std::int64_t curved = by_shape_[static_cast<std::size_t>(Shape::curved)];
  jacobians_ = device::Array<T>(device, curved * 9 * points);
  face_metrics_ = device::Array<T>(device, curved * 18 * stride);
  face_metrics_.zero();
  for (std::int64_t e = 0; e < elements_; ++e) {
    if (shapes_[e] != Shape::curved) continue;
    const double* g = element_jacobian(e);
    std::transform(g, g + 9 * points, jacobians_.data() + metric_[e] * 9 * points,
                   [](double x) { return static_cast<T>(x); });
    for (int side = 0; side < 6; ++side)
      for (std::int64_t q = 0; q < face; ++q) {
        const auto metric = surface_metric(g + side_point(side, q, n), points, side);
        for (int c = 0; c < 3; ++c)
          face_metrics_.data()[((metric_[e] * 6 + side) * 3 + c) * stride + q] = static_cast<T>(metric[c]);
      }
  }

  // Finds the faces that meet, by global id, on this rank or on another.
  std::vector<std::int64_t> ids(elements_ * 6);
  for (std::int64_t e = 0; e < elements_; ++e)
    for (int side = 0; side < 6; ++side)
      ids[6 * e + side] = mesh.boundaries[e][side] != 0 ? 0 : 1 + mesh.topology.faces[e][side];
  const exchange::PointsById by_id = exchange::points_by_id(ids);
  const exchange::Sharing sharing = exchange::find_sharing(by_id.ids, mesh.comm);
  std::map<int, std::vector<std::int32_t>> sent;  // by rank, in the order of the ids
  for (std::size_t i = 0; i < sharing.positions.size(); ++i)
    for (std::int64_t h = sharing.begin[i]; h < sharing.begin[i + 1]; ++h)
      if (sharing.holders[h] != mesh.comm.rank())
        sent[sharing.holders[h]].push_back(by_id.points[by_id.begin[sharing.positions[i]]]);
  exchange::Pattern pattern;
  pattern.halo_first = pattern.entries = 6 * elements_;
  const auto trace_at = [&](std::int64_t place) { return place * 4 * stride; };
  std::vector<std::int64_t> meets(6 * elements_, -1);
  for (std::size_t i = 0; i < by_id.ids.size(); ++i)
    if (by_id.begin[i + 1] - by_id.begin[i] == 2) {
      const std::int32_t* pair = by_id.points.data() + by_id.begin[i];
      meets[pair[0]] = pair[1];
      meets[pair[1]] = pair[0];
    }
  std::vector<std::uint8_t> halo(elements_, 0);
  for (const auto& [rank, faces] : sent) {
    const auto count = static_cast<std::int64_t>(faces.size());
    pattern.neighbors.push_back({rank, count, count});
    for (const std::int32_t at : faces) {
      pattern.owned_index.push_back(at);
      meets[at] = pattern.entries++;
      halo[at / 6] = 1;
    }
  }
  std::vector<std::int32_t> orientations(pattern.entries);
  for (std::int64_t at = 0; at < 6 * elements_; ++at)
    orientations[at] = mesh.topology.face_orientations[at / 6][at % 6];
  device::Stream stream(device);
  exchange::Exchange<std::int32_t> know(pattern, device, mesh.comm, exchange::Choice{}, 1);
  know.start_halo(orientations.data(), stream);
  know.finish_halo(orientations.data(), stream);
  stream.synchronize();
  std::map<std::pair<int, int>, std::int16_t> known;
  for (std::int64_t at = 0; at < 6 * elements_; ++at) {
    neighbors_.push_back(trace_at(meets[at] >= 0 ? meets[at] : pattern.entries));
    matches_.push_back(-1);
    if (meets[at] < 0 || orientations[at] == orientations[meets[at]]) continue;
    const std::pair<int, int> pair{orientations[at], orientations[meets[at]]};
    matches_.back() = known.try_emplace(pair, static_cast<std::int16_t>(known.size())).first->second;
  }
  match_index_.resize(known.size() * face);
  match_.resize(known.size());
  for (const auto& [pair, place] : known)
    match_[place] = face_match<T>(pair.first, pair.second, static_cast<int>(n), match_index_.data() + place * face);

  // The values of a face are exchanged as one entry.
  exchange_ = std::make_unique<exchange::Exchange<T>>(pattern, device, mesh.comm, asked, static_cast<int>(4 * stride),
                                                      exchange::Layout::points_major, exchange::Directions::halo);
  for (auto& traces : traces_) {
    traces = device::Array<T>(device, trace_at(pattern.entries + 1));
    traces.zero();
  }

  std::vector<std::int64_t> inner, outer;
  for (std::int64_t e = 0; e < elements_; ++e) (halo[e] != 0 ? outer : inner).push_back(e);
  const auto half = static_cast<std::ptrdiff_t>(outer.empty() ? 0 : inner.size() / 2);
  const auto visit = [&](auto begin, auto end) {
    const std::int64_t at = std::ssize(sequence_);
    const auto plain = [&](std::int64_t e) { return !driven.contains(static_cast<std::int32_t>(e)); };
    sequence_.insert(sequence_.end(), begin, end);
    const auto from = std::stable_partition(sequence_.begin() + at, sequence_.end(), plain);
    return Range{at, from - sequence_.begin(), std::ssize(sequence_)};
  };
  first_half_ = visit(inner.begin(), inner.begin() + half);
  halo_ = visit(outer.begin(), outer.end());
  second_half_ = visit(inner.begin() + half, inner.end());

  for (int t = 0; t < threads_; ++t)
    scratch_.emplace_back(
        static_cast<T*>(::operator new[](functions_.scratch_values * sizeof(T), std::align_val_t{4096})));
  view_ = {tables_.data(),    tables_.data() + rows, row_starts_.data(), shapes_.data(),
           values_.data(),    metric_.data(),        jacobians_.data(),  face_metrics_.data(),
           neighbors_.data(), matches_.data(),       match_.data()};
}

template <class T>
void SimdOperator<T>::run(StageFunction<T> function, const StageArguments<T>& arguments, std::int64_t begin,
                          std::int64_t end) {
  if (threads_ == 1) {
    function(view_, arguments, sequence_.data(), begin, end, scratch_[0].get());
    return;
  }
#pragma omp parallel for num_threads(threads_) schedule(static, 1)
  for (int t = 0; t < threads_; ++t)
    function(view_, arguments, sequence_.data(), begin + (end - begin) * t / threads_,
             begin + (end - begin) * (t + 1) / threads_, scratch_[t].get());
}

template <class T>
void SimdOperator<T>::run(StageFunction<T> function, const StageArguments<T>& arguments, const Range& range) {
  run(function, arguments, range.begin, range.driven);
  StageArguments<T> added = arguments;
  added.a = 1;  // prepare_driven has applied a already
  run(function, added, range.driven, range.end);
}

template <class T>
void SimdOperator<T>::prepare_driven(double a, T* residual) const {
  const std::int64_t n = order_ + 1, each = 6 * n * n * n;
  for (const std::int32_t e : driven_) {
    T* r = residual + e * each;
    if (a == 0)
      std::fill(r, r + each, T{0});
    else
      for (std::int64_t i = 0; i < each; ++i) r[i] *= static_cast<T>(a);
  }
}

template <class T>
void SimdOperator<T>::begin(const T* fields, device::Stream& stream) {
  const trace::Span span("maxwell: traces", trace::Category::cpu);
  const StageArguments<T> arguments{0, 0, 0, const_cast<T*>(fields), nullptr, nullptr, traces_[now_].data(), false};
  if (in_flight_) exchange_->finish_halo(traces_[now_].data(), stream);  // left over from stages that were not run
  run(functions_.traces, arguments, 0, elements_);
  exchange_->start_halo(traces_[now_].data(), stream);
  in_flight_ = true;
}

template <class T>
void SimdOperator<T>::stage(double a, double b, double dt, T* fields, T* residual, bool more, device::Stream& stream) {
  T *traces = traces_[now_].data(), *next = traces_[1 - now_].data();
  const StageArguments<T> arguments{
      static_cast<T>(a), static_cast<T>(b), static_cast<T>(dt), fields, residual, traces, more ? next : nullptr, true};
  {
    const trace::Span span("maxwell: first half", trace::Category::cpu);
    run(functions_.stage, arguments, first_half_);
  }
  exchange_->finish_halo(traces, stream);
  in_flight_ = more;
  {
    const trace::Span span("maxwell: halo", trace::Category::cpu);
    run(functions_.stage, arguments, halo_);
  }
  if (more) exchange_->start_halo(next, stream);
  {
    const trace::Span span("maxwell: second half", trace::Category::cpu);
    run(functions_.stage, arguments, second_half_);
  }
  if (more) now_ = 1 - now_;
}

template <class T>
void SimdOperator<T>::rates(const T* fields, T* rates, device::Stream& stream) {
  begin(fields, stream);
  T* traces = traces_[now_].data();
  const StageArguments<T> arguments{0, 0, 1, const_cast<T*>(fields), rates, traces, nullptr, false};
  run(functions_.stage, arguments, first_half_);
  exchange_->finish_halo(traces, stream);
  in_flight_ = false;
  run(functions_.stage, arguments, halo_);
  run(functions_.stage, arguments, second_half_);
}

template <class T>
std::pair<double, double> SimdOperator<T>::energy(const T* fields) const {
  const std::int64_t n = order_ + 1, points = n * n * n;
  double electric = 0, magnetic = 0;
  for (std::int64_t e = 0; e < elements_; ++e) {
    const ElementValues<T>& v = values_[e];
    const T* u = fields + e * 6 * points;
    double squares[2] = {0, 0};
    for (std::int64_t p = 0; p < points; ++p) {
      const T* g = shapes_[e] == Shape::curved ? jacobians_.data() + metric_[e] * 9 * points + p : nullptr;
      const auto x = [&](int c) { return static_cast<double>(g[c * points]); };
      const double jacobian =
          shapes_[e] == Shape::box
              ? static_cast<double>(v.frame[0]) * static_cast<double>(v.frame[1]) * static_cast<double>(v.frame[2])
          : shapes_[e] == Shape::affine ? 1 / static_cast<double>(v.inverse_jacobian)
                                        : x(0) * (x(4) * x(8) - x(5) * x(7)) + x(1) * (x(5) * x(6) - x(3) * x(8)) +
                                              x(2) * (x(3) * x(7) - x(4) * x(6));
      const double weight = weights_[p % n] * weights_[p / n % n] * weights_[p / (n * n)] * jacobian;
      for (int c = 0; c < 6; ++c) {
        const auto value = static_cast<double>(u[c * points + p]);
        squares[c / 3] += weight * value * value;
      }
    }
    electric += squares[0] / static_cast<double>(v.inverse_eps) / 2;
    magnetic -= squares[1] / static_cast<double>(v.minus_inverse_mu) / 2;
  }
  return {electric, magnetic};
}

template <class T>
std::map<std::string, std::int64_t> SimdOperator<T>::memory_bytes() const {
  const auto bytes = [](const auto& v) { return static_cast<std::int64_t>(v.size() * sizeof(v[0])); };
  return {{"geometry", static_cast<std::int64_t>(jacobians_.bytes() + face_metrics_.bytes()) + bytes(values_) +
                           bytes(shapes_) + bytes(metric_)},
          {"traces", static_cast<std::int64_t>(traces_[0].bytes() + traces_[1].bytes())},
          {"faces", bytes(neighbors_) + bytes(matches_) + bytes(match_index_)},
          {"sequence", bytes(sequence_)},
          {"scratch", static_cast<std::int64_t>(threads_ * functions_.scratch_values * sizeof(T))}};
}

template <class T>
double SimdOperator<T>::flops() const {
  const double n = order_ + 1, half = std::floor(n / 2);
  const double line = static_cast<int>(n) % 2 == 0 ? 4 * half * half + 2 * half : 4 * half * half + 6 * half - 1;
  const auto of = [&](Shape shape) { return static_cast<double>(by_shape_[static_cast<std::size_t>(shape)]); };
  const double boxes = of(Shape::box), curved = of(Shape::curved), frames = curved + of(Shape::affine);
  // Derivatives: 8 by even and odd parts, 4 by rows; 12 factors and 6 sums. Per component: loss 6, residual 3, fields
  // 2.
  const double points = n * n * n;
  const double always = 8 * n * n * line + 4 * points * (2 * n - 1) + points * (18 + 6 + 18 + 12);
  // Per face point: jumps 4 (and scaled 4), lift, sums 4.
  const double box = always + 6 * n * n * (8 + 12 + 4 + 4);
  // Covariant components twice, frames times curls, their scaling, and J for curved elements.
  const double framed = always + points * (30 + 30 + 30 + 8) + 6 * n * n * (4 + 24 + 4);
  return boxes * box + frames * framed + curved * points * 15;
}

template <class T>
double SimdOperator<T>::bytes() const {
  const double n = order_ + 1, points = n * n * n, face = n * n;
  return sizeof(T) *
             (static_cast<double>(elements_) * (24 * points + 2 * 4 * 6 * face) +
              static_cast<double>(by_shape_[static_cast<std::size_t>(Shape::curved)]) * (9 * points + 18 * face)) +
         static_cast<double>(elements_) * static_cast<double>(sizeof(ElementValues<T>));
}

template class SimdOperator<float>;
template class SimdOperator<double>;

}  // namespace weft::maxwell
