#include "weft/poisson/local_operator.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/device/fill.hpp"
#include "weft/device/tiles.hpp"
#include "weft/element/even_odd.hpp"
#include "weft/element/gll.hpp"
#include "weft/kernels/cross.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/trilinear.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

constexpr int threads_of_point_block_limit = 1024;

// `points` takes about 12 (N + 1) shared-memory accesses per point, `columns` 16. This limits `points` if memory is as
// fast as that of an A100 or later GPU; on other GPUs, hipBone's choice is used (docs/backends.md).
Threads threads_for(const device::Device& device, int order, int scalar_bytes) {
  const std::string& architecture = device.info().architecture;
  const bool fast_memory = architecture.starts_with("sm_") && std::stoi(architecture.substr(3)) >= 80;
  // The architectures whose tensor cores multiply doubles at twice the rate of other instructions.
  const bool matrix_rate = architecture == "sm_80" || architecture == "sm_90";
  if (matrix_rate && matrices_fit(order, scalar_bytes)) return Threads::matrices;
  // On the host, a block of points is a set of loops over whole elements, which the compiler optimises well.
  return device.is_host() || (order < 9 && !fast_memory) ? Threads::points : Threads::columns;
}

// For these, kernels/CMakeLists.txt has units of poisson_matrix.
constexpr std::array matrix_orders{3, 7, 15};
std::string matrix_orders_text() {
  std::string text;
  for (const int order : matrix_orders) text += (text.empty() ? "" : ", ") + std::to_string(order);
  return text;
}

template <class T>
std::vector<T> converted(std::span<const double> values) {
  return std::vector<T>(values.begin(), values.end());
}

// Elements of one shape: their numbers in the mesh, and their positions in the order of the operator.
struct Elements {
  std::vector<std::int64_t> numbers, places;
};

// [element][6 or 7][n^3]: the six factors and, if there are inverse degrees, W; each is contiguous.
template <class T>
device::Array<T> packed_factors(const mesh::Mesh& mesh, const Elements& elements, const Options& options,
                                std::span<const double> inverse_degree) {
  const int each = inverse_degree.empty() ? 6 : 7;
  const std::int64_t points = (options.order + 1) * (options.order + 1) * (options.order + 1);
  mesh::ElementFactors factors(mesh, options.order);
  device::Array<T> packed;
  mesh.comm.together([&] {
    packed = {options.device, static_cast<std::size_t>(std::ssize(elements.numbers) * each * points)};
    device::fill(packed, *options.device, each * points, [&](std::int64_t begin, std::int64_t end, T* values) {
      const std::span<const std::int64_t> numbers = std::span(elements.numbers).subspan(begin, end - begin);
      factors.each(numbers, [&](std::int64_t i, const double* g, const double*) {
        const std::int64_t place = elements.places[begin + i];
        T* element = values + i * each * points;
        for (std::int64_t p = 0; p < points; ++p) {
          for (int c = 0; c < 6; ++c) element[c * points + p] = static_cast<T>(g[p * 6 + c]);
          if (each == 7) element[6 * points + p] = static_cast<T>(inverse_degree[place * points + p]);
        }
      });
    });
  });
  factors.check();
  return packed;
}

// [element][each]: `of` applied to the trilinear map of the element's corners, in the form of mesh::trilinear_map.
template <class T, std::size_t each>
device::Array<T> by_maps(const mesh::Mesh& mesh, std::span<const std::int64_t> elements,
                         const std::shared_ptr<device::Device>& device,
                         std::array<double, each> (*of)(const std::array<double, 24>& map)) {
  constexpr auto values_each = static_cast<std::int64_t>(each);
  device::Array<T> table(device, each * elements.size());
  device::fill(table, *device, values_each, [&](std::int64_t begin, std::int64_t end, T* values) {
#pragma omp parallel for
    for (std::int64_t i = begin; i < end; ++i) {
      const std::array<double, each> own = of(mesh::trilinear_map(mesh::corners_of(mesh, elements[i]).data()));
      std::ranges::transform(own, values + values_each * (i - begin), [](double c) { return static_cast<T>(c); });
    }
  });
  return table;
}

// G of a parallelepiped without the weights: rr, rs, rt, ss, st, tt.
std::array<double, 6> constant_metric(const std::array<double, 24>& map) {
  struct Vector {
    double x, y, z;
  };
  const auto edge = [&](int m) { return Vector{map[3 * m], map[3 * m + 1], map[3 * m + 2]}; };
  const auto dot = [](const Vector& u, const Vector& v) { return u.x * v.x + u.y * v.y + u.z * v.z; };
  const Vector r = edge(1), s = edge(2), t = edge(3);
  const Vector a = cross(s, t), b = cross(t, r), c = cross(r, s);  // cofactors of the Jacobian matrix
  const double j = dot(r, a);
  return {dot(a, a) / j, dot(a, b) / j, dot(a, c) / j, dot(b, b) / j, dot(b, c) / j, dot(c, c) / j};
}

}  // namespace

std::string name(Storage storage) { return storage == Storage::assembled ? "assembled" : "scattered"; }
std::string name(Geometry geometry) {
  if (geometry == Geometry::automatic) return "auto";
  return geometry == Geometry::stored ? "stored" : geometry == Geometry::trilinear ? "trilinear" : "mixed";
}
std::string name(Threads threads) {
  if (threads == Threads::automatic) return "auto";
  return threads == Threads::points ? "points" : threads == Threads::columns ? "columns" : "matrices";
}

void check_geometry(Geometry geometry, const mesh::Mesh& mesh) {
  if (geometry == Geometry::trilinear && !mesh.straight())
    throw std::invalid_argument("poisson: geometry = 'trilinear' needs elements with straight edges, but " +
                                mesh.source + " has curved ones; use 'stored' or 'mixed'");
  if (geometry != Geometry::stored && mesh.coefficient.size() > 0)
    throw std::invalid_argument("poisson: geometry = '" + name(geometry) + "' cannot hold a coefficient; use 'stored'");
}

bool matrices_fit(int order, int scalar_bytes) {
  return scalar_bytes == 8 && std::ranges::count(matrix_orders, order) > 0;
}

int threads_per_element(int order, Threads threads, int scalar_bytes) {
  const int n = order + 1;
  if (threads == Threads::points) return n * n * n;
  if (threads == Threads::matrices) return n * n / 2;  // two columns each
  return device::column_threads_per_element(order, scalar_bytes);
}

int elements_per_block(int order, Threads threads, int scalar_bytes) {
  if (threads == Threads::columns) return device::column_elements_per_block(order, scalar_bytes);
  const int each = threads_per_element(order, threads, scalar_bytes);
  if (threads == Threads::matrices) return std::max(1, 32 / each);  // a warp at least
  return device::elements_per_block(each, 4 * each * scalar_bytes, 320);
}

template <class T>
LocalOperator<T>::LocalOperator(const mesh::Mesh& mesh, const Options& options, std::span<const std::int32_t> index,
                                std::span<const double> inverse_degree, std::span<const std::int64_t> elements)
    : device_(options.device),
      threads_(options.threads),
      lambda_(inverse_degree.empty() ? T(0) : static_cast<T>(options.lambda)),
      order_(options.order),
      elements_(mesh.elements()) {
  const trace::Span span("element tables", trace::Category::cpu);
  make_reference(options.order);
  const int n = options.order + 1;
  each_ = n * n * n;
  if (threads_ == Threads::automatic) threads_ = threads_for(*device_, options.order, sizeof(T));
  if (!device_->is_host() && threads_ == Threads::points && each_ > threads_of_point_block_limit)
    throw std::invalid_argument("poisson: blocks with one thread per point support orders up to 9, not " +
                                std::to_string(options.order) + "; use columns");
  if (threads_ == Threads::matrices && !matrices_fit(options.order, sizeof(T)))
    throw std::invalid_argument("poisson: threads = 'matrices' exist for orders " + matrix_orders_text() +
                                " in double precision; use 'columns'");
  // The matrix kernels move two values at once, and vectors stored by points, which may be a user's, need not be
  // aligned for that.
  if (threads_ == Threads::matrices && index.empty()) threads_ = Threads::columns;
  check_geometry(options.geometry, mesh);
  const bool stored = options.geometry == Geometry::stored;
  if (stored && inverse_degree.empty() && elements_ > 0)
    throw std::invalid_argument("poisson: stored factors are packed with the inverse degrees, but none were given");

  std::vector<mesh::Shape> shapes(elements_, mesh::Shape::curved);
  if (!stored) {
    mesh::check_jacobians(mesh, options.order);
#pragma omp parallel for
    for (std::int64_t e = 0; e < elements_; ++e) shapes[e] = mesh::shape_of(mesh, elements.empty() ? e : elements[e]);
  }
  std::vector<std::int64_t> own_order;
  if (elements.empty() && elements_ > 0) {
    own_order.resize(elements_);
    std::iota(own_order.begin(), own_order.end(), 0);
    elements = own_order;
    std::ranges::fill(shapes, *std::ranges::max_element(shapes));
  }
  // With one thread per point, a box is treated like any other parallelepiped.
  if (threads_ == Threads::points)
    for (mesh::Shape& shape : shapes) shape = std::max(shape, mesh::Shape::affine);
  Elements constant, trilinear, curved;
  for (std::int64_t e = 0; e < elements_; ++e) {
    const bool stores = shapes[e] == mesh::Shape::curved;
    Elements& of = stores ? curved : shapes[e] == mesh::Shape::trilinear ? trilinear : constant;
    if (e == 0 || shapes[e] != shapes[e - 1]) runs_.push_back({e, e, shapes[e], std::ssize(of.numbers)});
    runs_.back().end = e + 1;
    of.numbers.push_back(elements[e]);
    of.places.push_back(e);
  }

  metrics_ = by_maps<T>(mesh, constant.numbers, device_, constant_metric);
  maps_ = by_maps<T, 24>(mesh, trilinear.numbers, device_, [](const std::array<double, 24>& map) { return map; });
  if (!inverse_degree.empty()) factors_each_ = 7;
  factors_ = packed_factors<T>(mesh, curved, options, inverse_degree);
  if (std::ssize(curved.numbers) < elements_) inverse_degree_ = device::Array<T>(device_, converted<T>(inverse_degree));
  index_ = device::Array<std::int32_t>(device_, index);
  load_kernels(false);
}

// The tables of the reference element that the kernels use.
template <class T>
void LocalOperator<T>::make_reference(int order) {
  const element::Gll& gll = element::gll(order);
  const int n = order + 1;
  std::vector<double> reference(gll.derivative);
  reference.insert(reference.end(), gll.points.begin(), gll.points.end());
  reference.insert(reference.end(), gll.weights.begin(), gll.weights.end());
  reference_ = device::Array<T>(device_, converted<T>(reference));
  std::ranges::transform(gll.points, nodes_.points, [](double z) { return static_cast<T>(z); });
  std::ranges::transform(gll.weights, nodes_.weights, [](double w) { return static_cast<T>(w); });
  const std::vector<double>& d = gll.derivative;
  std::vector<double> stiffness(n * n, 0.0);
  for (int i = 0; i < n; ++i)
    for (int m = 0; m < n; ++m)
      for (int q = 0; q < n; ++q) stiffness[i * n + m] += d[q * n + i] * gll.weights[q] * d[q * n + m];
  element::split_even_odd(d, n, n, splitting_.even, splitting_.odd);
  element::split_even_odd(stiffness, n, n, stiffness_.even, stiffness_.odd);
}

// The launch configuration for the elements of one shape.
template <class T>
Threads LocalOperator<T>::threads_of(mesh::Shape shape) const {
  const bool has_matrices = shape == mesh::Shape::affine || shape == mesh::Shape::trilinear;
  return threads_ == Threads::matrices && !has_matrices ? Threads::columns : threads_;
}

// All kernels, or those that also compute products.
template <class T>
void LocalOperator<T>::load_kernels(bool products) {
  const unsigned n = static_cast<unsigned>(order_) + 1;
  const std::array<std::int64_t, 4> counts = elements_by_shape();
  most_general_.kind = threads_;
  for (const mesh::Shape shape : mesh::all_shapes) {
    if (counts[static_cast<std::size_t>(shape)] == 0) continue;
    const Threads threads = threads_of(shape);
    Blocks& blocks = blocks_[static_cast<std::size_t>(shape)];
    blocks.kind = threads;
    if (!device_->is_host()) blocks.tile = poisson::elements_per_block(order_, threads, sizeof(T));
    const auto tile = static_cast<unsigned>(blocks.tile);
    blocks.threads = threads == Threads::points
                         ? device::Shape{n, n * n * tile}
                         : device::Shape{static_cast<unsigned>(threads_per_element(order_, threads, sizeof(T))) * tile};
    const auto load = [&](auto& kernel, const std::string& of) {
      const bool matrices = threads == Threads::matrices;
      std::vector<device::Define> defines{{"WEFT_N", std::to_string(order_)},
                                          {"WEFT_TILE_ELEMENTS", std::to_string(blocks.tile)}};
      if (products) defines.push_back({"WEFT_WITH_PRODUCT", "1"});
      const device::LoadedKernel loaded = device_->kernel<T>(matrices ? "poisson_matrix" : "poisson",
                                                             "poisson_" + of +
                                                                 (matrices                     ? "_matrix"
                                                                  : threads == Threads::points ? "_3d"
                                                                                               : "_2d"),
                                                             std::move(defines));
      kernel = loaded;
      if (products) return;
      resources_ = loaded.resources();
      most_general_ = blocks;
    };
    const auto load_columns = [&](auto& columns, const char* of) {
      load(products ? columns.with_product : columns.plain, of);
    };
    const auto load_as = [&](auto& by_points, auto& by_columns, const char* of) {
      if (threads == Threads::points)
        load(by_points, of);
      else
        load_columns(by_columns, of);
    };
    switch (shape) {
      case mesh::Shape::box:
        load_columns(box_columns_, "box");
        break;
      case mesh::Shape::affine:
        load_as(affine_points_, affine_columns_, "affine");
        break;
      case mesh::Shape::trilinear:
        load_as(trilinear_points_, trilinear_columns_, "trilinear");
        break;
      case mesh::Shape::curved:
        load_as(stored_points_, stored_columns_, factors_each_ == 7 ? "stored" : "curved");
        break;
    }
  }
}

template <class T>
void LocalOperator<T>::apply(const T* x, T* y, std::int64_t begin, std::int64_t end, device::Stream& stream, int fields,
                             std::int64_t x_field) const {
  for (const Run& run : runs_) {
    const std::int64_t from = std::max(begin, run.begin), to = std::min(end, run.end);
    if (from < to) launch({from, to, run.shape, run.first + from - run.begin}, x, y, stream, fields, x_field);
  }
}

template <class T>
void LocalOperator<T>::apply(const T* x, T* y, double* products, device::Stream& stream) const {
  for (const Run& run : runs_) {
    launch(run, x, y, stream, 1, 0, products);
    products += blocks_of(run);
  }
}

template <class T>
std::int64_t LocalOperator<T>::product_partials() {
  if (threads_ == Threads::points) return 0;
  if (!std::exchange(has_products_, true)) load_kernels(true);
  std::int64_t sum = 0;
  for (const Run& run : runs_) sum += blocks_of(run);
  return sum;
}

template <class T>
std::int64_t LocalOperator<T>::blocks_of(const Run& run) const {
  const int tile = blocks_[static_cast<std::size_t>(run.shape)].tile;
  return (run.end - run.begin + tile - 1) / tile;
}

template <class T>
void LocalOperator<T>::launch(const Run& run, const T* x, T* y, device::Stream& stream, int fields,
                              std::int64_t x_field, double* products) const {
  const std::int64_t count = run.end - run.begin, first_point = run.begin * each_;
  const Blocks& blocks = blocks_[static_cast<std::size_t>(run.shape)];
  const std::int32_t* index = index_.empty() ? nullptr : index_.data() + first_point;
  if (index == nullptr) x += first_point;
  const T* const reference = reference_.data();
  const T* const degrees = inverse_degree_.empty() ? nullptr : inverse_degree_.data() + first_point;
  const auto by_points = [&](const auto& kernel, const auto&... elements) {
    kernel(stream, blocks_of(run) * fields, blocks.threads, count, elements..., lambda_, index, fields, x_field,
           elements_ * each_, x, y + first_point);
  };
  const auto by_columns = [&](const auto& kernels, const auto&... elements) {
    (products == nullptr ? kernels.plain : kernels.with_product)(stream, blocks_of(run) * fields, blocks.threads, count,
                                                                 elements..., lambda_, index, fields, x_field,
                                                                 elements_ * each_, x, y + first_point, products);
  };
  const bool points = threads_ == Threads::points;
  const T *metrics = metrics_.data() + run.first * 6, *maps = maps_.data() + run.first * 24;
  switch (run.shape) {
    case mesh::Shape::box:
      return by_columns(box_columns_, stiffness_, nodes_, reference, metrics, degrees);
    case mesh::Shape::affine:
      return points ? by_points(affine_points_, reference, metrics, degrees)
                    : by_columns(affine_columns_, splitting_, nodes_, reference, metrics, degrees);
    case mesh::Shape::trilinear:
      return points ? by_points(trilinear_points_, reference, maps, degrees)
                    : by_columns(trilinear_columns_, splitting_, nodes_, reference, maps, degrees);
    case mesh::Shape::curved:
      const T* const factors = factors_.data() + run.first * factors_each_ * each_;
      return points ? by_points(stored_points_, reference, factors) : by_columns(stored_columns_, splitting_, factors);
  }
}

template <class T>
std::array<std::int64_t, 4> LocalOperator<T>::elements_by_shape() const {
  std::array<std::int64_t, 4> counts{};
  for (const Run& run : runs_) counts[static_cast<std::size_t>(run.shape)] += run.end - run.begin;
  return counts;
}

template <class T>
std::map<std::string, std::int64_t> LocalOperator<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes;
  const auto add = [&](const char* name, const auto& array) {
    if (!array.empty()) bytes[name] = static_cast<std::int64_t>(array.bytes());
  };
  add("index", index_);
  add(factors_each_ == 7 ? "geometric factors and inverse degrees" : "geometric factors", factors_);
  add("trilinear maps", maps_);
  add("metrics of parallelepipeds", metrics_);
  add("inverse degrees", inverse_degree_);
  return bytes;
}

template class LocalOperator<float>;
template class LocalOperator<double>;

}  // namespace weft::poisson
