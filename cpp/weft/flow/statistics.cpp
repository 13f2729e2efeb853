#include "weft/flow/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/element/gll.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/trilinear.hpp"

namespace weft::flow {
namespace {

constexpr device::Shape shape{256};  // one block per element, as in kernels/flow_measures.hpp
constexpr int measures = 6;
constexpr int extrema = 4;            // per block
constexpr std::int64_t chunk = 4096;  // entries per block

template <class T>
device::Array<T> converted(const std::shared_ptr<device::Device>& device, const std::vector<double>& values) {
  return device::Array<T>(device, std::vector<T>(values.begin(), values.end()));
}

std::vector<double> inverse_spacing(const std::vector<double>& points) {
  const std::size_t n = points.size();
  std::vector<double> inverse(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t left = i == 0 ? 0 : i - 1, right = std::min(i + 1, n - 1);
    inverse[i] = static_cast<double>(right - left) / (points[right] - points[left]);
  }
  return inverse;
}

}  // namespace

template <class T>
Statistics<T>::Statistics(space::Space<T>& space) : space_(space) {
  const std::vector<std::int32_t>& index = space.numbering().index;
  const auto& device = space.device();
  const mesh::Mesh mesh = space.numbering().executed_mesh();
  const int order = space.order(), n = order + 1;
  const element::Gll& gll = element::gll(order);
  const std::vector<double> spacing = inverse_spacing(gll.points);
  space.comm().together([&] {
    std::vector<double> tables;
    for (int q = 0; q < n; ++q)
      for (int i = 0; i < n; ++i) tables.push_back(gll.derivative[i * n + q]);
    for (const auto* values : {&gll.points, &gll.weights, &spacing})
      tables.insert(tables.end(), values->begin(), values->end());
    tables_ = converted<T>(device, tables);
    const T *transposed = tables_.data(), *nodes = transposed + n * n;
    inverse_spacing_ = nodes + 2 * n;
    if (mesh.straight()) {
      std::vector<double> maps;
      for (std::int64_t e = 0; e < mesh.elements(); ++e)
        for (const double value : mesh::trilinear_map(mesh.nodes.data() + 24 * e)) maps.push_back(value);
      maps_ = converted<T>(device, maps);
    } else {
      const std::size_t points = static_cast<std::size_t>(n) * n * n;
      const std::vector<double> x = mesh::point_coordinates(mesh, order);  // [E][n^3][3]
      std::vector<T> places(x.size());
      for (std::size_t p = 0; p < x.size() / 3; ++p)
        for (int d = 0; d < 3; ++d) places[(p / points * 3 + d) * points + p % points] = static_cast<T>(x[3 * p + d]);
      places_ = device::Array<T>(device, places);
    }
    metric_ = {maps_.data(), nodes, places_.data(), transposed};
    if (!device->is_host()) index_ = device::Array<std::int32_t>(device, index);
    points_ = device->is_host() ? index.data() : index_.data();
    measures_ = device->template kernel<T>("flow_measures", "flow_measures");
    courant_ = device->template kernel<T>("flow_measures", "flow_courant");
    extrema_ = device->template kernel<T>("flow_measures", "flow_extrema");
  });
}

template <class T>
void Statistics<T>::fill_halo(T* fields, int count, device::Stream& stream) {
  for (int f = 0; f < count; ++f) space_.fill_halo(fields + f * space_.entries(), stream);
}

template <class T>
std::vector<double> Statistics<T>::reduce(int each, int sums, device::Stream& stream) {
  stream.synchronize();
  const std::vector<double> values = out_.download();
  std::vector<double> result(each, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& total = result[i % each];
    const double value = values[i];
    total = static_cast<int>(i % each) < sums ? total + value : value > total || std::isnan(value) ? value : total;
  }
  space_.comm().sum(result.data(), sums);
  for (int m = sums; m < each; ++m) result[m] = space_.comm().max(result[m]);
  return result;
}

template <class T>
VelocityStatistics Statistics<T>::velocity(T* u, device::Stream& stream) {
  fill_halo(u, 3, stream);
  const std::int64_t elements = space_.mesh().elements();
  if (out_.size() != static_cast<std::size_t>(elements) * measures)
    out_ = device::Array<double>(space_.device(), static_cast<std::size_t>(elements) * measures);
  measures_(stream, elements, shape, space_.order() + 1, metric_, points_, u, space_.entries(), out_.data());
  const std::vector<double> found = reduce(measures, measures - 1, stream);
  const double volume = space_.volume();
  return {found[4] / volume / 2,        found[0] / volume,  found[1] / volume, found[3] / volume,
          std::sqrt(found[2] / volume), std::sqrt(found[5])};
}

template <class T>
double Statistics<T>::courant_rate(T* u, device::Stream& stream) {
  fill_halo(u, 3, stream);
  const std::int64_t elements = space_.mesh().elements();
  if (out_.size() != static_cast<std::size_t>(elements))
    out_ = device::Array<double>(space_.device(), static_cast<std::size_t>(elements));
  courant_(stream, elements, shape, space_.order() + 1, metric_, inverse_spacing_, points_, u, space_.entries(),
           out_.data());
  return reduce(1, 0, stream)[0];
}

template <class T>
std::vector<FieldStatistics> Statistics<T>::fields(const T* fields, int count, device::Stream& stream) {
  const std::int64_t unknowns = space_.unknowns(), blocks = (unknowns + chunk - 1) / chunk;
  const auto size = static_cast<std::size_t>(count * blocks * extrema);
  if (out_.size() != size) out_ = device::Array<double>(space_.device(), size);
  extrema_(stream, blocks, shape, unknowns, space_.entries(), count, chunk, space_.mass(), fields, out_.data(), blocks);
  stream.synchronize();
  const std::vector<double> values = out_.download();
  std::vector<double> sums(2 * static_cast<std::size_t>(count));
  std::vector<FieldStatistics> result;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (int f = 0; f < count; ++f) {
    double low = infinity, high = -infinity;
    for (long block = 0; block < blocks; ++block) {
      const double* found = values.data() + (f * blocks + block) * extrema;
      sums[2 * f] += found[0];
      sums[2 * f + 1] += found[1];
      low = found[2] < low || std::isnan(found[2]) ? found[2] : low;
      high = found[3] > high || std::isnan(found[3]) ? found[3] : high;
    }
    result.push_back({0, 0, -space_.comm().max(-low), space_.comm().max(high)});
  }
  space_.comm().sum(sums.data(), static_cast<int>(sums.size()));
  for (int f = 0; f < count; ++f) {
    result[f].mean = sums[2 * f] / space_.volume();
    result[f].mean_square = sums[2 * f + 1] / space_.volume();
  }
  return result;
}

template <class T>
std::int64_t Statistics<T>::bytes() const {
  return static_cast<std::int64_t>(tables_.bytes() + maps_.bytes() + places_.bytes() + index_.bytes() + out_.bytes());
}

template class Statistics<float>;
template class Statistics<double>;

}  // namespace weft::flow
