#include "weft/space/space.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/trilinear.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/simd_access.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::space {
namespace {

template <class T>
Numbering made_numbering(const mesh::Mesh& mesh, const Options& options) {
  element::gll(options.order);  // rejects orders outside 1..15
  return Numbering(mesh, options.order, options.dirichlet, options.kernels == Kernels::simd ? simd::lanes<T> : 1);
}

}  // namespace

std::string name(Kernels kernels) { return kernels == Kernels::portable ? "portable" : "simd"; }

std::vector<BoundaryFace> boundary_faces(const mesh::Mesh& mesh) {
  std::vector<BoundaryFace> faces;
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    for (int side = 0; side < 6; ++side)
      if (const std::int32_t tag = mesh.boundaries[e][side]; tag != 0) faces.push_back({e, side, tag - 1});
  return faces;
}

template <class T>
Space<T>::Space(const mesh::Mesh& mesh, const Options& options) : Space(made_numbering<T>(mesh, options), options) {}

template <class T>
Space<T>::Space(Numbering numbering, const Options& options) : options_(options), numbering_(std::move(numbering)) {
  if (options.kernels == Kernels::simd && !device()->is_host())
    throw std::invalid_argument("kernels = 'simd' run on the host only; use 'portable' on a GPU");
  exchange();
  if (options.kernels == Kernels::portable) return;
  comm().together([&] { blocks_ = std::make_unique<Blocks>(numbering_, device()); });
  choose_access<T>(*blocks_, numbering_, options.exchange.cache);
  numbering_.assembly.index = {};
}

template <class T>
Space<T>::~Space() = default;

template <class T>
Range Space<T>::elements(Part part) const {
  const BlockSplit& split = numbering_.split;
  const std::array<std::int64_t, 4> blocks{0, split.half, split.halo_end, split.blocks};
  const auto begin_of = [&](int p) { return std::min(blocks[p] * numbering_.lanes, elements()); };
  return {begin_of(part.first), begin_of(part.last + 1)};
}

template <class T>
Range Space<T>::rows(Part part) const {
  return {part.last == 2 ? 0 : unknowns(), part.first <= 1 && part.last >= 1 ? entries() : unknowns()};
}

template <class T>
exchange::Exchange<T>& Space<T>::exchange(int fields) {
  const auto found = exchanges_.find(fields);
  if (found != exchanges_.end()) return found->second;
  const trace::Span span("set up exchange", trace::Category::cpu);
  return exchanges_
      .try_emplace(fields, numbering_.assembly.pattern, device(), comm(), options_.exchange, fields,
                   fields == 1 ? exchange::Layout::points_major : exchange::Layout::fields_major)
      .first->second;
}

template <class T>
void Space<T>::fill_halo(T* x, device::Stream& stream, int fields) {
  auto& own = exchange(fields);
  own.start_halo(x, stream);
  own.finish_halo(x, stream);
}

template <class T>
void Space<T>::add_halo(T* y, device::Stream& stream, int fields) {
  auto& own = exchange(fields);
  own.start_gather(y, stream);
  own.finish_gather(y, exchange::Op::add, stream);
}

template <class T>
std::vector<std::pair<std::string, exchange::Tuning>> Space<T>::tunings() const {
  std::vector<std::pair<std::string, exchange::Tuning>> all;
  for (const auto& [fields, exchange] : exchanges_) {
    const std::string of = fields == 1 ? "" : " of " + std::to_string(fields) + " fields";
    all.emplace_back("halo" + of, exchange.halo_tuning());
    all.emplace_back("gather" + of, exchange.gather_tuning());
  }
  return all;
}

template <class T>
std::int64_t Space<T>::bytes_sent() const {
  return 2 * exchanges_.at(1).bytes_sent();
}

template <class T>
std::int64_t Space<T>::messages() const {
  return 2 * exchanges_.at(1).messages();
}

template <class T>
Gather<T>& Space<T>::gather() {
  if (!gather_) gather_ = std::make_unique<Gather<T>>(numbering_.index, entries(), device());
  return *gather_;
}

template <class T>
T* Space<T>::values_to_gather(int fields, device::Stream& stream) {
  if (fields > gathered_fields_) {
    comm().together([&] { gather().values(fields, stream); });
    gathered_fields_ = fields;  // only once all ranks have succeeded, so that they stay in step
  }
  return gather().values(fields, stream);
}

template <class T>
const device::Array<T>& Space<T>::trilinear_blocks() {
  if (!trilinear_blocks_.empty()) return trilinear_blocks_;
  const std::int64_t lanes = numbering_.lanes, elements = numbering_.split.blocks * lanes;
  std::vector<T> values(elements * 24);
  for (std::int64_t e = 0; e < elements; ++e) {
    std::array<double, 24> map{};
    map[3] = map[7] = map[11] = 1;
    if (e < mesh().elements()) map = mesh::trilinear_map(mesh::corners_of(mesh(), numbering_.split.order[e]).data());
    for (int c = 0; c < 24; ++c) values[(e / lanes * 24 + c) * lanes + e % lanes] = static_cast<T>(map[c]);
  }
  trilinear_blocks_ = device::Array<T>(device(), values);
  return trilinear_blocks_;
}

template <class T>
const typename Space<T>::Mass& Space<T>::made_mass() {
  if (mass_) return *mass_;
  const trace::Span span("mass matrix", trace::Category::cpu);
  const std::vector<std::int32_t> index = point_index();
  const std::vector<double> at_points = point_mass();
  std::vector<double> mass(entries());
  for (std::size_t p = 0; p < index.size(); ++p) mass[index[p]] += at_points[p];
  combine(mass, exchange::Op::add);
  double volume = std::accumulate(mass.begin(), mass.begin() + unknowns(), 0.0);
  comm().sum(&volume, 1);
  mass.back() = 0;
  std::vector<T> values(mass.begin(), mass.end()), inverse(mass.size());
  std::ranges::transform(mass, inverse.begin(), [](double m) { return m > 0 ? static_cast<T>(1 / m) : T(0); });
  mass_ = std::make_unique<Mass>(Mass{{device(), values}, {device(), inverse}, volume});
  return *mass_;
}

template <class T>
const T* Space<T>::mass() {
  return made_mass().values.data();
}

template <class T>
const T* Space<T>::inverse_mass() {
  return made_mass().inverse.data();
}

template <class T>
double Space<T>::volume() {
  return made_mass().volume;
}

template <class T>
std::vector<std::int32_t> Space<T>::point_index() const {
  return numbering_.from_execution<std::int32_t>(numbering_.index);
}

template <class T>
std::vector<std::int64_t> Space<T>::unknown_ids() const {
  std::vector<std::int64_t> result(unknowns());
  const std::int64_t each = numbering_.points_per_element(), owned = unknowns();
#pragma omp parallel
  {
    std::vector<std::int64_t> ids(each);
#pragma omp for
    for (std::int64_t e = 0; e < elements(); ++e) {
      mesh::point_ids(mesh(), order(), numbering_.split.order[e], ids.data());
      const std::int32_t* index = numbering_.index.data() + e * each;
      for (std::int64_t p = 0; p < each; ++p)  // elements that share a point write the same id
        if (index[p] < owned) std::atomic_ref(result[index[p]]).store(ids[p], std::memory_order_relaxed);
    }
  }
  return result;
}

template <class T>
std::vector<double> Space<T>::unknown_coordinates() const {
  const std::vector<double> points = numbering_.to_execution<double>(mesh::point_coordinates(mesh(), order()));
  std::vector<double> result(3 * unknowns());
  for (std::size_t p = 0; p < numbering_.index.size(); ++p)  // of several periodic images, the one processed last
    if (const std::int64_t entry = numbering_.index[p]; entry < unknowns())
      std::copy_n(&points[3 * p], 3, &result[3 * entry]);
  return result;
}

template <class T>
std::vector<double> Space<T>::point_coordinates() const {
  return mesh::point_coordinates(mesh(), order());
}

template <class T>
std::vector<double> Space<T>::point_mass() const {
  return mesh::mass_matrix(mesh(), order());
}

template <class T>
std::vector<std::uint8_t> Space<T>::masked() const {
  const std::vector<std::int32_t> index = point_index();
  std::vector<std::uint8_t> flags(index.size());
  std::ranges::transform(index, flags.begin(), [&](std::int32_t entry) { return entry == entries() - 1 ? 1 : 0; });
  return flags;
}

template <class T>
std::vector<double> Space<T>::inverse_degrees() {
  const std::int64_t zero = entries() - 1;
  const std::vector<std::int32_t>& index = numbering_.index;
  std::vector<std::int32_t> count(entries());
#pragma omp parallel for
  for (std::size_t p = 0; p < index.size(); ++p)
    if (index[p] < zero) std::atomic_ref(count[index[p]]).fetch_add(1, std::memory_order_relaxed);
  combine(count, exchange::Op::add);
  std::vector<double> inverse(index.size());
#pragma omp parallel for
  for (std::size_t p = 0; p < index.size(); ++p) inverse[p] = index[p] < zero ? 1.0 / count[index[p]] : 0.0;
  return inverse;
}

template <class T>
void Space<T>::exchange_once(std::vector<T>& vector, void (Space::*halo)(T*, device::Stream&, int)) {
  if (exchange().trivial()) return;
  device::Array<T> values(device(), vector);
  device::Stream stream(device());
  (this->*halo)(values.data(), stream, 1);
  stream.synchronize();
  vector = values.download();
}

template <class T>
std::vector<T> Space<T>::sum_points(std::span<const T> values) {
  const std::vector<T> own = numbering_.to_execution(values);
  std::vector<T> sums(entries());
  for (std::size_t p = 0; p < own.size(); ++p) sums[numbering_.index[p]] += own[p];
  exchange_once(sums, &Space::add_halo);
  sums.resize(unknowns());
  return sums;
}

template <class T>
std::vector<T> Space<T>::at_points(std::span<const T> x) {
  if (static_cast<std::int64_t>(x.size()) != unknowns())
    throw std::invalid_argument("a vector has " + std::to_string(unknowns()) + " values on this rank, not " +
                                std::to_string(x.size()));
  std::vector<T> vector(x.begin(), x.end());
  vector.resize(entries());
  exchange_once(vector, &Space::fill_halo);
  const std::vector<std::int32_t> index = point_index();
  std::vector<T> points(index.size());
  std::ranges::transform(index, points.begin(), [&](std::int32_t entry) { return vector[entry]; });
  return points;
}

template <class T>
std::vector<T> Space<T>::coordinates() const {
  const auto size = static_cast<std::size_t>(entries());
  const std::vector<std::int32_t> index = point_index();
  const std::vector<double> x = point_coordinates();
  std::vector<T> places(3 * size);
  for (std::size_t p = index.size(); p-- > 0;)  // of several periodic images, the first
    for (int c = 0; c < 3; ++c) places[c * size + index[p]] = static_cast<T>(x[3 * p + c]);
  for (int c = 0; c < 3 && size > 1; ++c) places[(c + 1) * size - 1] = places[c * size];
  return places;
}

template <class T>
void Space<T>::to_vectors(std::span<const T> points, int fields, T* vectors) {
  const std::vector<std::int32_t> index = point_index();
  if (points.size() != index.size() * fields)
    throw std::invalid_argument(std::to_string(points.size()) + " values are given for " + std::to_string(fields) +
                                " fields of " + std::to_string(index.size()) + " points");
  device::Stream stream(device());
  std::vector<T> values(entries());
  for (int f = 0; f < fields; ++f) {
    std::ranges::fill(values, T(0));
    for (std::size_t p = index.size(); p-- > 0;) values[index[p]] = points[f * index.size() + p];
    T* vector = vectors + f * entries();
    device()->copy(vector, values.data(), values.size() * sizeof(T), device::CopyKind::host_to_device, stream);
    fill_halo(vector, stream);
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
    const std::vector<T> field = at_points(values);
    points.insert(points.end(), field.begin(), field.end());
  }
  return points;
}

template <class T>
template <class V>
void Space<T>::combine(std::vector<V>& values, exchange::Op op) const {
  const auto host = device::open("host");
  exchange::Exchange<V> exchange(numbering_.assembly.pattern, host, comm(), exchange::Choice{});
  if (exchange.trivial()) return;
  device::Stream stream(host);
  exchange.start_gather(values.data(), stream);
  exchange.finish_gather(values.data(), op, stream);
  exchange.start_halo(values.data(), stream);
  exchange.finish_halo(values.data(), stream);
  stream.synchronize();
}

template <class T>
std::vector<std::int32_t> Space<T>::face_entries() const {
  const int n = order() + 1;
  const std::vector<std::int32_t> index = point_index();
  std::vector<std::int32_t> entries;
  for (const BoundaryFace& face : faces())
    for (int b = 0; b < n; ++b)
      for (int a = 0; a < n; ++a)
        entries.push_back(index[face.element * n * n * n + point_of_side(face.side, a, b, n)]);
  return entries;
}

template <class T>
std::map<std::string, std::int64_t> Space<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes;
  if (blocks_) bytes.merge(blocks_->memory_bytes());
  if (gather_) bytes.merge(gather_->memory_bytes());
  bytes["points to unknowns, on the host"] = static_cast<std::int64_t>(numbering_.index.size() * sizeof(std::int32_t));
  if (mass_)
    bytes["mass matrix and its inverse"] = static_cast<std::int64_t>(mass_->values.bytes() + mass_->inverse.bytes());
  if (!trilinear_blocks_.empty()) bytes["trilinear maps"] = static_cast<std::int64_t>(trilinear_blocks_.bytes());
  return bytes;
}

template class Space<float>;
template class Space<double>;
#define WEFT_COMBINE(T, V) template void Space<T>::combine(std::vector<V>&, exchange::Op) const;
WEFT_COMBINE(float, std::int32_t)
WEFT_COMBINE(float, float)
WEFT_COMBINE(double, std::int32_t)
WEFT_COMBINE(double, double)
#undef WEFT_COMBINE

}  // namespace weft::space
