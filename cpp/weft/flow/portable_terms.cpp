#include "weft/flow/portable_terms.hpp"

#include <vector>

#include "weft/device/tiles.hpp"
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

int flow_elements_per_block(int order, int scalar_bytes) {
  const int n = order + 1;
  return device::elements_per_block(n * n, scalar_bytes * (n * n * n + 6 * n * n), 256);
}

template <class T>
PortableTerms<T>::PortableTerms(const mesh::Mesh& mesh, int order, std::span<const std::int32_t> index,
                                std::int64_t stride, const std::shared_ptr<device::Device>& device)
    : points_(static_cast<std::int64_t>(index.size())), stride_(stride) {
  const element::Gll& gll = element::gll(order);
  const element::Dealiasing fine = element::dealiasing(order);
  const int n = order + 1;
  std::vector<double> tables(gll.derivative);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) tables.push_back(gll.weights[i] * gll.derivative[i * n + j] / gll.weights[j]);
  const std::size_t conservative = gll.derivative.size(), to_fine = tables.size();
  for (const auto* values :
       {&fine.interpolation, &fine.derivative, &gll.points, &gll.weights, &fine.nodes, &fine.weights})
    tables.insert(tables.end(), values->begin(), values->end());
  tables_ = device::Array<T>(device, converted<T>(tables));
  derivative_ = tables_.data();
  conservative_ = derivative_ + conservative;
  to_fine_ = derivative_ + to_fine;
  const T* nodes = to_fine_ + 2 * fine.interpolation.size();
  const T* fine_nodes = nodes + 2 * n;

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
  column_shape_ = {static_cast<unsigned>(tile_ * n * n)};
  const int fine_face = fine.points * fine.points;
  convect_shape_ = {static_cast<unsigned>(fine_face >= 256 ? 256 : (fine_face + 31) / 32 * 32)};
  const auto kernel = [&](const char* name, int tile) {
    std::vector<device::Define> defines{{"WEFT_N", std::to_string(order)}};
    if (tile > 1) defines.push_back({"WEFT_TILE_ELEMENTS", std::to_string(tile)});
    return device->kernel<T>("flow_terms", name, std::move(defines));
  };
  convect_ = kernel("flow_convect", 1);
  convect_skew_ = kernel("flow_convect_skew", tile_);
  gradient_ = kernel("flow_gradient", tile_);
  weak_divergence_ = kernel("flow_weak_divergence", tile_);
  divergence_ = kernel("flow_divergence", tile_);
  curl_ = kernel("flow_curl", tile_);
}

template <class T>
void PortableTerms<T>::convect(const T* u, const T* fields, int count, T* out, std::int64_t begin, std::int64_t end,
                               device::Stream& stream) const {
  convect_(stream, end - begin, convect_shape_, begin, fine_metric_, to_fine_, index_.data(), u, fields, count, stride_,
           out, points_);
}

template <class T>
template <class... Rest>
void PortableTerms<T>::columns(const Columns<Rest...>& kernel, const T* x, std::int64_t begin, std::int64_t end,
                               device::Stream& stream, std::type_identity_t<Rest>... rest) const {
  const std::int64_t count = end - begin;
  kernel(stream, (count + tile_ - 1) / tile_, column_shape_, begin, count, metric_, derivative_, index_.data(), x,
         rest...);
}

template <class T>
void PortableTerms<T>::convect_skew(const T* u, const T* fields, int count, T* out, std::int64_t begin,
                                    std::int64_t end, device::Stream& stream) const {
  const std::int64_t elements = end - begin;
  convect_skew_(stream, (elements + tile_ - 1) / tile_, column_shape_, begin, elements, metric_, derivative_,
                conservative_, index_.data(), u, fields, count, stride_, out, points_);
}

template <class T>
void PortableTerms<T>::gradient(const T* p, T* out, std::int64_t begin, std::int64_t end,
                                device::Stream& stream) const {
  columns(gradient_, p, begin, end, stream, out, points_);
}

template <class T>
void PortableTerms<T>::weak_divergence(const T* f, T* out, std::int64_t begin, std::int64_t end,
                                       device::Stream& stream) const {
  columns(weak_divergence_, f, begin, end, stream, stride_, out);
}

template <class T>
void PortableTerms<T>::divergence(const T* u, T* out, std::int64_t begin, std::int64_t end,
                                  device::Stream& stream) const {
  columns(divergence_, u, begin, end, stream, stride_, out);
}

template <class T>
void PortableTerms<T>::curl(const T* u, T* out, std::int64_t begin, std::int64_t end, device::Stream& stream) const {
  columns(curl_, u, begin, end, stream, stride_, out, points_);
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
