#include "weft/poisson/local_operator.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/device/fill.hpp"
#include "weft/device/tiles.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/trilinear.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

constexpr int threads_of_point_block_limit = 1024;

// Points take about 12 (N + 1) shared accesses each, columns 16, which limits points where memory is as fast as an
// A100's or later GPU's; on others hipBone's choice stands (docs/backends.md).
Threads threads_for(const device::Device& device, int order) {
  const std::string& architecture = device.info().architecture;
  const bool fast_memory = architecture.starts_with("sm_") && std::stoi(architecture.substr(3)) >= 80;
  // On the host, a block of points is a set of loops over whole elements, which the compiler optimises well.
  return device.is_host() || (order < 9 && !fast_memory) ? Threads::points : Threads::columns;
}

// Whether columns transform all layers of an element at once: as kernels/poisson.hpp.
bool one_chunk(int n, int scalar_bytes) { return n <= (scalar_bytes == 8 ? 9 : 13); }

// At most: columns pad their lines and layers to fit the banks.
int shared_bytes_per_element(int order, Threads threads, int scalar_bytes) {
  const int n = order + 1, layers = one_chunk(n, scalar_bytes) ? n : (n + 1) / 2, padding = 128 / scalar_bytes - 1;
  return scalar_bytes *
         (threads == Threads::points ? 4 * n * n * n : n * (n * layers + padding) + layers * (n * n + padding));
}

template <class T>
std::vector<T> converted(std::span<const double> values) {
  return std::vector<T>(values.begin(), values.end());
}

// [element][7][n^3]: the six factors and W, each contiguous.
template <class T>
device::Array<T> packed_factors(const mesh::Mesh& mesh, std::span<const std::int64_t> elements, const Options& options,
                                std::span<const double> inverse_degree) {
  const std::int64_t points = (options.order + 1) * (options.order + 1) * (options.order + 1);
  mesh::ElementFactors factors(mesh, options.order);
  device::Array<T> packed;
  mesh.comm.together([&] {
    packed = {options.device, static_cast<std::size_t>(std::ssize(elements) * 7 * points)};
    device::fill(packed, *options.device, 7 * points, [&](std::int64_t begin, std::int64_t end, T* values) {
      factors.each(elements.subspan(begin, end - begin), [&](std::int64_t i, const double* g, const double*) {
        T* element = values + i * 7 * points;
        for (std::int64_t p = 0; p < points; ++p) {
          for (int c = 0; c < 6; ++c) element[c * points + p] = static_cast<T>(g[p * 6 + c]);
          element[6 * points + p] = static_cast<T>(inverse_degree[(begin + i) * points + p]);
        }
      });
    });
  });
  factors.check();
  return packed;
}

// [element][24], as mesh::trilinear_map has them.
template <class T>
device::Array<T> trilinear_maps(const mesh::Mesh& mesh, std::span<const std::int64_t> elements,
                                const std::shared_ptr<device::Device>& device) {
  device::Array<T> maps(device, 24 * elements.size());
  device::fill(maps, *device, 24, [&](std::int64_t begin, std::int64_t end, T* values) {
#pragma omp parallel for
    for (std::int64_t i = begin; i < end; ++i) {
      const std::array<double, 24> map = mesh::trilinear_map(&mesh.nodes[24 * elements[i]]);
      std::ranges::transform(map, values + 24 * (i - begin), [](double c) { return static_cast<T>(c); });
    }
  });
  return maps;
}

}  // namespace

std::string name(Storage storage) { return storage == Storage::assembled ? "assembled" : "scattered"; }
std::string name(Geometry geometry) {
  return geometry == Geometry::stored ? "stored" : geometry == Geometry::trilinear ? "trilinear" : "mixed";
}
std::string name(Threads threads) {
  return threads == Threads::automatic ? "auto" : threads == Threads::points ? "points" : "columns";
}

void check_geometry(Geometry geometry, Kernels kernels, const mesh::Mesh& mesh) {
  if (geometry == Geometry::mixed && kernels == Kernels::portable)
    throw std::invalid_argument("poisson: geometry = 'mixed' needs the SIMD kernels of the host; use 'stored'");
  if (geometry == Geometry::trilinear && !mesh.straight())
    throw std::invalid_argument("poisson: geometry = 'trilinear' needs elements with straight edges, but " +
                                mesh.source + " has curved ones; use 'stored' or, with the SIMD kernels, 'mixed'");
  if (geometry != Geometry::stored && mesh.coefficient.size() > 0)
    throw std::invalid_argument("poisson: geometry = '" + name(geometry) + "' cannot hold a coefficient; use 'stored'");
}

int threads_per_element(int order, Threads threads, int scalar_bytes) {
  const int n = order + 1;
  if (threads == Threads::points) return n * n * n;
  return one_chunk(n, scalar_bytes) ? n * n : 2 * n * ((n + 1) / 2);
}

int elements_per_block(int order, Threads threads, int scalar_bytes) {
  const int each = threads_per_element(order, threads, scalar_bytes);
  const int shared = shared_bytes_per_element(order, threads, scalar_bytes);
  if (threads == Threads::points) return device::elements_per_block(each, shared, 320);
  // Warps of a block wait for each other at barriers, so the smallest block that uses its lanes is best.
  int tile = 1;
  while (tile * each < 63 || tile * each < 25 * ((tile * each + 31) / 32)) ++tile;
  return tile;
}

template <class T>
LocalOperator<T>::LocalOperator(const mesh::Mesh& mesh, const Options& options, std::span<const std::int32_t> index,
                                std::span<const double> inverse_degree, std::span<const std::int64_t> elements)
    : geometry_(options.geometry), threads_(options.threads), lambda_(static_cast<T>(options.lambda)) {
  const trace::Span span("element tables", trace::Category::cpu);
  const element::Gll& gll = element::gll(options.order);
  const std::shared_ptr<device::Device>& device = options.device;
  const int n = options.order + 1;
  points_ = static_cast<long>(mesh.elements()) * n * n * n;
  if (threads_ == Threads::automatic) threads_ = threads_for(*device, options.order);
  if (!device->is_host() && threads_ == Threads::points && n * n * n > threads_of_point_block_limit)
    throw std::invalid_argument("poisson: blocks with one thread per point support orders up to 9, not " +
                                std::to_string(options.order) + "; use columns");
  check_geometry(geometry_, Kernels::portable, mesh);
  if (geometry_ == Geometry::stored && inverse_degree.empty() && mesh.elements() > 0)
    throw std::invalid_argument("poisson: stored factors are packed with the inverse degrees, but none were given");

  std::vector<std::int64_t> own_order;
  if (elements.empty()) {
    own_order.resize(mesh.elements());
    std::iota(own_order.begin(), own_order.end(), 0);
    elements = own_order;
  }
  std::vector<double> reference(gll.derivative);
  reference.insert(reference.end(), gll.points.begin(), gll.points.end());
  reference.insert(reference.end(), gll.weights.begin(), gll.weights.end());
  reference_ = device::Array<T>(device, converted<T>(reference));
  std::ranges::transform(gll.points, nodes_.points, [](double z) { return static_cast<T>(z); });
  std::ranges::transform(gll.weights, nodes_.weights, [](double w) { return static_cast<T>(w); });
  const int half = n / 2, rows = (n + 1) / 2;
  for (int i = 0; i < rows; ++i) {
    for (int m = 0; m < rows; ++m) {
      const double left = gll.derivative[i * n + m], right = gll.derivative[i * n + n - 1 - m];
      if (i < half) splitting_.even[i * rows + m] = static_cast<T>(m < half ? (left + right) / 2 : left);
      if (m < half) splitting_.odd[i * half + m] = static_cast<T>((left - right) / 2);
    }
  }

  if (geometry_ == Geometry::stored) {
    factors_ = packed_factors<T>(mesh, elements, options, inverse_degree);
  } else {
    mesh::check_jacobians(mesh, options.order);
    maps_ = trilinear_maps<T>(mesh, elements, device);
    inverse_degree_ = device::Array<T>(device, converted<T>(inverse_degree));
  }
  index_ = device::Array<std::int32_t>(device, index);

  if (!device->is_host()) tile_ = poisson::elements_per_block(options.order, threads_, sizeof(T));
  shape_ = threads_ == Threads::points
               ? device::Shape{static_cast<unsigned>(n), static_cast<unsigned>(n * n * tile_)}
               : device::Shape{static_cast<unsigned>(threads_per_element(options.order, threads_, sizeof(T)) * tile_)};
  const device::LoadedKernel kernel =
      device->kernel<T>("poisson", "poisson_" + name(geometry_) + (threads_ == Threads::points ? "_3d" : "_2d"),
                        {{"WEFT_N", std::to_string(options.order)}, {"WEFT_TILE_ELEMENTS", std::to_string(tile_)}});
  resources_ = kernel.resources();
  const bool stored = geometry_ == Geometry::stored, points = threads_ == Threads::points;
  if (stored && points) stored_points_ = kernel;
  if (stored && !points) stored_columns_ = kernel;
  if (!stored && points) trilinear_points_ = kernel;
  if (!stored && !points) trilinear_columns_ = kernel;
}

template <class T>
void LocalOperator<T>::apply(const T* x, T* y, std::int64_t begin, std::int64_t end, device::Stream& stream, int fields,
                             std::int64_t x_field) const {
  const std::int64_t count = end - begin, blocks = (count + tile_ - 1) / tile_ * fields;
  const T *reference = reference_.data(), *factors = factors_.data(), *maps = maps_.data(),
          *degrees = inverse_degree_.data();
  const auto launch = [&](const auto& kernel, const auto&... elements) {
    kernel(stream, blocks, shape_, begin, count, elements..., lambda_, index_.data(), fields, x_field, points_, x, y);
  };
  if (geometry_ == Geometry::stored) {
    if (threads_ == Threads::points)
      launch(stored_points_, reference, factors);
    else
      launch(stored_columns_, splitting_, factors);
  } else {
    if (threads_ == Threads::points)
      launch(trilinear_points_, reference, maps, degrees);
    else
      launch(trilinear_columns_, splitting_, nodes_, reference, maps, degrees);
  }
}

template <class T>
std::map<std::string, std::int64_t> LocalOperator<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes;
  if (!index_.empty()) bytes["index"] = static_cast<std::int64_t>(index_.bytes());
  if (!factors_.empty()) bytes["geometric factors and inverse degrees"] = static_cast<std::int64_t>(factors_.bytes());
  if (!maps_.empty()) bytes["trilinear maps"] = static_cast<std::int64_t>(maps_.bytes());
  if (!inverse_degree_.empty()) bytes["inverse degrees"] = static_cast<std::int64_t>(inverse_degree_.bytes());
  return bytes;
}

template class LocalOperator<float>;
template class LocalOperator<double>;

}  // namespace weft::poisson
