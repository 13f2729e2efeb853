#include "weft/flow/space.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "weft/flow/faces.hpp"

namespace weft::flow {
namespace {

template <class V>
void combine_copies(const exchange::Pattern& pattern, const mpi::Comm& comm, std::vector<V>& values, exchange::Op op) {
  const auto host = device::open("host");
  exchange::Exchange<V> exchange(pattern, host, comm, exchange::Choice{});
  if (exchange.trivial()) return;
  device::Stream stream(host);
  exchange.start_gather(values.data(), stream);
  exchange.finish_gather(values.data(), op, stream);
  exchange.start_halo(values.data(), stream);
  exchange.finish_halo(values.data(), stream);
  stream.synchronize();
}

}  // namespace

template <class T>
Space<T>::Space(const mesh::Mesh& mesh, poisson::Options options) : mesh_(mesh) {
  options.lambda = 0;
  options.storage = poisson::Storage::assembled;
  options.dirichlet = {};
  stiffness_ = std::make_unique<poisson::Operator<T>>(mesh_, options);
  const auto size = static_cast<std::size_t>(entries());
  const std::vector<std::int32_t> index = stiffness_->point_index();

  std::vector<double> mass(size);
  {
    const std::vector<double> at_points = stiffness_->mass();
    for (std::size_t p = 0; p < index.size(); ++p) mass[index[p]] += at_points[p];
  }
  const auto host = device::open("host");
  combine_copies(stiffness_->assembly().pattern, comm(), mass, exchange::Op::add);
  volume_ = std::accumulate(mass.begin(), mass.begin() + unknowns(), 0.0);
  comm().sum(&volume_, 1);
  mass.back() = 0;
  std::vector<T> values(mass.begin(), mass.end());
  mass_ = device::Array<T>(device(), values);
  std::ranges::transform(mass, values.begin(), [](double m) { return m > 0 ? static_cast<T>(1 / m) : T(0); });
  inverse_mass_ = device::Array<T>(device(), values);

  scratch_ = device::Array<T>(device(), 6 * size);
  scratch_.zero();

  const int n = order() + 1;
  for (std::int64_t e = 0; e < mesh_.elements(); ++e) {
    for (int side = 0; side < 6; ++side) {
      const std::int32_t tag = mesh_.boundaries[e][side];
      if (tag == 0) continue;
      faces_.push_back({e, side, tag - 1});
      for (int b = 0; b < n; ++b)
        for (int a = 0; a < n; ++a)
          face_entries_.push_back(index[static_cast<std::size_t>(e) * n * n * n + point_of_side(side, a, b, n)]);
    }
  }
}

template <class T>
std::vector<T> Space<T>::coordinates() const {
  const auto size = static_cast<std::size_t>(entries());
  const std::vector<std::int32_t> index = stiffness_->point_index();
  const std::vector<double> x = stiffness_->point_coordinates();
  std::vector<T> places(3 * size);
  for (std::size_t p = index.size(); p-- > 0;)  // of several images, the first
    for (int c = 0; c < 3; ++c) places[c * size + index[p]] = static_cast<T>(x[3 * p + c]);
  for (int c = 0; c < 3 && size > 1; ++c) places[(c + 1) * size - 1] = places[c * size];
  return places;
}

template <class T>
std::span<const std::int32_t> Space<T>::face_entries(std::size_t face) const {
  const auto each = static_cast<std::size_t>((order() + 1) * (order() + 1));
  return std::span(face_entries_).subspan(face * each, each);
}

template <class T>
void Space<T>::to_vectors(std::span<const T> points, int fields, T* vectors) {
  const std::vector<std::int32_t> index = stiffness_->point_index();
  if (points.size() != index.size() * fields)
    throw std::invalid_argument("flow: " + std::to_string(points.size()) + " values given for " +
                                std::to_string(fields) + " fields of " + std::to_string(index.size()) + " points");
  device::Stream stream(device());
  std::vector<T> values(entries());
  for (int f = 0; f < fields; ++f) {
    std::ranges::fill(values, T(0));
    for (std::size_t p = index.size(); p-- > 0;) values[index[p]] = points[f * index.size() + p];
    T* vector = vectors + f * entries();
    device()->copy(vector, values.data(), values.size() * sizeof(T), device::CopyKind::host_to_device, stream);
    auto& exchange = stiffness_->exchange();
    exchange.start_halo(vector, stream);
    exchange.finish_halo(vector, stream);
    stream.synchronize();
  }
}

template <class T>
std::vector<T> Space<T>::to_points(const T* vectors, int fields) {
  std::vector<T> points;
  std::vector<T> values(unknowns());
  for (int f = 0; f < fields; ++f) {
    device::Stream stream(device());
    device()->copy(values.data(), vectors + f * entries(), values.size() * sizeof(T), device::CopyKind::device_to_host,
                   stream);
    stream.synchronize();
    const std::vector<T> field = stiffness_->at_points(values);
    points.insert(points.end(), field.begin(), field.end());
  }
  return points;
}

template <class T>
void Space<T>::combine(std::vector<std::int32_t>& values, exchange::Op op) const {
  combine_copies(stiffness_->assembly().pattern, comm(), values, op);
}

template <class T>
void Space<T>::combine(std::vector<T>& values, exchange::Op op) const {
  combine_copies(stiffness_->assembly().pattern, comm(), values, op);
}

template <class T>
std::map<std::string, std::int64_t> Space<T>::memory_bytes() const {
  auto bytes = stiffness_->memory_bytes();
  bytes["mass matrix and its inverse"] = static_cast<std::int64_t>(mass_.bytes() + inverse_mass_.bytes());
  bytes["work of a step and its solves"] = static_cast<std::int64_t>(scratch_.bytes());
  return bytes;
}

template class Space<float>;
template class Space<double>;

}  // namespace weft::flow
