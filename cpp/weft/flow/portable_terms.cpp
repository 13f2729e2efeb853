#include "weft/flow/portable_terms.hpp"

#include <algorithm>
#include <vector>

#include "weft/device/tiles.hpp"
#include "weft/element/even_odd.hpp"
#include "weft/element/gauss.hpp"
#include "weft/element/gll.hpp"
#include "weft/flow/cofactors.hpp"
#include "weft/mesh/trilinear.hpp"

namespace weft::flow {
namespace {

template <class T>
std::vector<T> converted(std::span<const double> values) {
  return std::vector<T>(values.begin(), values.end());
}

}  // namespace

// The same as for the column kernels of the Poisson operator, which process lines in the same way.
int flow_elements_per_block(int order, int scalar_bytes) {
  return device::column_elements_per_block(order, scalar_bytes);
}

int ConvectBlocks::threads(int order) const {
  const int m = element::dealiasing_points(order);
  return elements * m * std::min(m, 2 * pairs);
}

// Found by trying the values for which kernels/flow_convect.hpp has code, with the model of docs/model-kernels.md. At
// high orders there are few pairs, because the velocity at the fine points of all layers does not fit into registers.
ConvectBlocks convect_blocks(int order, int scalar_bytes) {
  static constexpr ConvectBlocks of_double[]{{7, 2}, {5, 3}, {3, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 6}, {1, 4},
                                             {1, 4}, {1, 3}, {1, 3}, {1, 3}, {1, 3}, {1, 2}, {1, 2}};
  static constexpr ConvectBlocks of_float[]{{7, 2}, {5, 3}, {3, 3}, {2, 4}, {3, 5}, {1, 6}, {1, 6}, {1, 7},
                                            {1, 8}, {1, 5}, {1, 5}, {1, 5}, {1, 4}, {1, 3}, {1, 2}};
  return scalar_bytes == 8 ? of_double[order - 1] : of_float[order - 1];
}

std::vector<device::Define> convect_constants(int order, const ConvectBlocks& blocks) {
  std::vector<device::Define> constants{{"WEFT_N", std::to_string(order)}};
  if (blocks.elements > 1) constants.push_back({"WEFT_TILE_ELEMENTS", std::to_string(blocks.elements)});
  if (blocks.pairs > 1) constants.push_back({"WEFT_TILE_PAIRS", std::to_string(blocks.pairs)});
  return constants;
}

template <class T>
PortableTerms<T>::PortableTerms(const mesh::Mesh& mesh, int order, std::span<const std::int32_t> index,
                                std::int64_t stride, const std::shared_ptr<device::Device>& device)
    : points_(static_cast<std::int64_t>(index.size())), stride_(stride) {
  const element::Gll& gll = element::gll(order);
  const element::Dealiasing fine = element::dealiasing(order);
  const int n = order + 1;
  std::vector<double> all_nodes;
  for (const auto* values : {&gll.points, &gll.weights, &fine.nodes, &fine.weights})
    all_nodes.insert(all_nodes.end(), values->begin(), values->end());
  nodes_ = device::Array<T>(device, converted<T>(all_nodes));
  const T* nodes = nodes_.data();
  const T* fine_nodes = nodes + 2 * n;
  make_lines(order);

  if (mesh.straight()) {
    std::vector<T> maps;
    maps.reserve(mesh.nodes.size());
    for (std::int64_t e = 0; e < mesh.elements(); ++e)
      for (const double value : mesh::trilinear_map(mesh.nodes.data() + 24 * e)) maps.push_back(static_cast<T>(value));
    maps_ = device::Array<T>(device, maps);
    metric_ = {maps_.data(), nodes, nullptr};
    fine_metric_ = {maps_.data(), fine_nodes, nullptr};
  } else {
    std::vector<double> identity(n * n, 0.0);
    for (int i = 0; i < n; ++i) identity[i * n + i] = 1;
    cofactors_ =
        device::Array<T>(device, converted<T>(weighted_cofactors(mesh, order, identity, gll.derivative, gll.weights)));
    fine_cofactors_ = device::Array<T>(
        device, converted<T>(weighted_cofactors(mesh, order, fine.interpolation, fine.derivative, fine.weights)));
    metric_ = {nullptr, nodes, cofactors_.data()};
    fine_metric_ = {nullptr, fine_nodes, fine_cofactors_.data()};
  }
  index_ = device::Array<std::int32_t>(device, index);

  if (!device->is_host()) tile_ = flow_elements_per_block(order, sizeof(T));
  column_shape_ = {static_cast<unsigned>(tile_ * device::column_threads_per_element(order, sizeof(T)))};
  if (!device->is_host()) convect_blocks_ = convect_blocks(order, sizeof(T));
  convect_shape_ = {static_cast<unsigned>(convect_blocks_.threads(order))};
  const auto kernel = [&](const char* name) {
    std::vector<device::Define> defines{{"WEFT_N", std::to_string(order)}};
    if (tile_ > 1) defines.push_back({"WEFT_TILE_ELEMENTS", std::to_string(tile_)});
    return device->kernel<T>("flow_terms", name, std::move(defines));
  };
  convect_ = device->kernel<T>("flow_convect", "flow_convect", convect_constants(order, convect_blocks_));
  convect_skew_ = kernel("flow_convect_skew");
  gradient_ = kernel("flow_gradient");
  weak_divergence_ = kernel("flow_weak_divergence");
  divergence_ = kernel("flow_divergence");
  curl_ = kernel("flow_curl");
}

template <class T>
void PortableTerms<T>::make_lines(int order) {
  const element::Gll& gll = element::gll(order);
  const element::Dealiasing fine = element::dealiasing(order);
  const int n = order + 1, m = fine.points;
  const auto convert = [](const std::vector<double>& values, T* out) {
    std::ranges::transform(values, out, [](double value) { return static_cast<T>(value); });
  };
  element::split_even_odd(gll.derivative, n, n, lines_.derivative.even, lines_.derivative.odd);
  convert(gll.points, lines_.points);
  convert(gll.weights, lines_.weights);
  std::vector<double> advective(gll.derivative), conservative(gll.derivative);
  for (double& value : advective) value /= 2;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) conservative[i * n + j] *= gll.weights[i] / gll.weights[j] / 2;
  skew_lines_ = lines_;
  element::split_even_odd(advective, n, n, skew_lines_.derivative.even, skew_lines_.derivative.odd);
  element::split_even_odd(conservative, n, n, conservative_.even, conservative_.odd);
  element::split_even_odd(fine.interpolation, m, n, fine_lines_.value_even, fine_lines_.value_odd);
  element::split_even_odd(fine.derivative, m, n, fine_lines_.slope_even, fine_lines_.slope_odd);
  convert(fine.nodes, fine_lines_.points);
  convert(fine.weights, fine_lines_.weights);
}

template <class T>
void PortableTerms<T>::work(Term term, const T* u, const T* f, int count, T* out, space::Range elements,
                            device::Stream& stream) const {
  const std::int64_t begin = elements.begin, size = elements.end - elements.begin;
  const auto blocks = [&](int each) { return (size + each - 1) / each; };
  const auto columns = [&]<class... Rest>(const Columns<Rest...>& kernel, std::type_identity_t<Rest>... rest) {
    kernel(stream, blocks(tile_), column_shape_, begin, size, metric_, lines_, index_.data(), f, rest...);
  };
  switch (term) {
    case Term::convect:
      return convect_(stream, blocks(convect_blocks_.elements), convect_shape_, begin, size, fine_metric_, fine_lines_,
                      index_.data(), u, f, count, stride_, out, points_);
    case Term::convect_skew:
      return convect_skew_(stream, blocks(tile_), column_shape_, begin, size, metric_, skew_lines_, conservative_,
                           index_.data(), u, f, count, stride_, out, points_);
    case Term::gradient:
      return columns(gradient_, out, points_);
    case Term::weak_divergence:
      return columns(weak_divergence_, stride_, out);
    case Term::divergence:
      return columns(divergence_, stride_, out);
    case Term::curl:
      return columns(curl_, stride_, out, points_);
  }
}

template <class T>
std::map<std::string, std::int64_t> PortableTerms<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes;
  const auto add = [&](const char* name, const auto& array) {
    if (!array.empty()) bytes[name] = static_cast<std::int64_t>(array.bytes());
  };
  add("index", index_);
  add("trilinear maps", maps_);
  add("cofactors", cofactors_);
  add("cofactors at dealiasing points", fine_cofactors_);
  return bytes;
}

template class PortableTerms<float>;
template class PortableTerms<double>;

}  // namespace weft::flow
