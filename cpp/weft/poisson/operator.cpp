#include "weft/poisson/operator.hpp"

#include <algorithm>
#include <stdexcept>

#include "weft/device/vector.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/points.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::poisson {
namespace {

constexpr device::Shape gather_shape{256};
constexpr std::int64_t gather_chunk = 1024;  // as in kernels/gather.hpp
std::int64_t gather_blocks(std::int64_t dofs) { return (dofs + gather_chunk - 1) / gather_chunk; }

std::size_t cube(int order) { return static_cast<std::size_t>(order + 1) * (order + 1) * (order + 1); }

// Point ids with those on a boundary set to 0, whichever rank holds the boundary face.
std::vector<std::int64_t> masked_ids(const mesh::Mesh& mesh, const Options& options) {
  std::vector<std::int64_t> ids = mesh::point_ids(mesh, options.order);
  if (options.dirichlet == mesh::BoundarySet{}) return ids;
  const std::vector<std::uint8_t> boundary = mesh::points_on_boundary(mesh, options.order, options.dirichlet);
  std::vector<std::int32_t> flags(boundary.begin(), boundary.end());
  const auto host = device::open("host");
  exchange::GatherScatter<std::int32_t> combine(ids, mesh.comm, host, exchange::Choice{});
  device::Stream stream(host);
  combine.gather_scatter(flags.data(), exchange::Op::max, stream);
  stream.synchronize();
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (flags[p] != 0) ids[p] = 0;
  return ids;
}

}  // namespace

template <class T>
Operator<T>::Operator(const mesh::Mesh& mesh, const Options& options) : options_(options) {
  element::gll(options.order);  // refuses orders outside 1..15
  if (!(options.lambda >= 0))
    throw std::invalid_argument("poisson: lambda must be at least 0, not " + std::to_string(options.lambda));
  if (options.geometry == Geometry::trilinear && !mesh.straight())
    throw std::invalid_argument("poisson: geometry = 'trilinear' needs elements with straight edges, and " +
                                mesh.source + " has curved ones; use 'stored'");
  if (options.kernels == Kernels::simd && (!options.device->is_host() || options.storage == Storage::scattered))
    throw std::invalid_argument("poisson: kernels = 'simd' are for the host and assembled storage; use 'portable'");
  const std::vector<std::int64_t> ids = number(mesh);
  const auto& device = options_.device;
  exchange::Asked asked = options_.exchange;
  if (options_.storage == Storage::scattered) {
    gather_scatter_ = std::make_unique<exchange::GatherScatter<T>>(ids, mesh_.comm, device, asked);
    asked = gather_scatter_->tuning().chosen;  // the other one is for set-up and output only: not worth timing
  }
  exchange_ = std::make_unique<exchange::Exchange<T>>(assembly_.pattern, device, mesh_.comm, asked);
  if (options_.kernels == Kernels::simd) {
    simd_ = std::make_unique<SimdOperator<T>>(mesh_, options_.order, options_.geometry, options_.lambda, assembly_,
                                              split_, device);
    assembly_.index = {};
    return;
  }
  assembly_.index = {};
  const bool assembled = options_.storage == Storage::assembled;
  lambda_in_gather_ = assembled && options_.geometry == Geometry::trilinear;
  const std::vector<double> degrees = inverse_degrees();
  mesh_.comm.together([&] {
    local_ = std::make_unique<LocalOperator<T>>(
        mesh_, options_, assembled ? std::span<const std::int32_t>(index_) : std::span<const std::int32_t>{},
        lambda_in_gather_ ? std::span<const double>{} : degrees);
    if (assembled) set_up_gather();
  });
  if (assembled) return;
  mesh_.comm.together([&] {
    weights_ = device::Array<T>(device, std::vector<T>(degrees.begin(), degrees.end()));
    if (std::ranges::none_of(ids, [](std::int64_t id) { return id <= 0; })) return;
    std::vector<T> mask(ids.size());
    std::ranges::transform(ids, mask.begin(), [](std::int64_t id) { return T(id > 0 ? 1 : 0); });
    mask_ = device::Array<T>(device, mask);
    multiply_ = device::vector_kernel<T>(*device, "multiply");
  });
}

// Order of execution, ids and assembly.
template <class T>
std::vector<std::int64_t> Operator<T>::number(const mesh::Mesh& mesh) {
  const std::size_t points = cube(options_.order);
  std::vector<std::int64_t> ids = masked_ids(mesh, options_);
  const std::vector<std::uint8_t> shared = exchange::shared_with_others(ids, mesh.comm);
  std::vector<std::uint8_t> halo(mesh.elements());
  for (std::size_t e = 0; e < halo.size(); ++e)
    halo[e] = std::ranges::any_of(std::span(shared).subspan(e * points, points), [](auto flag) { return flag != 0; });
  halo_elements_ = std::ranges::count(halo, 1);

  // In the order of the three launches: half of the interior elements, those with shared points, the rest.
  const bool simd = options_.kernels == Kernels::simd;
  split_ = split_blocks(halo, simd ? SimdOperator<T>::lanes : 1);
  order_ = split_.order;
  mesh_ = mesh.permuted(order_);
  ids = reordered<std::int64_t>(ids, 1, true);

  if (simd) {
    const std::vector<std::int64_t> execution = SimdOperator<T>::execution_order(elements(), options_.order);
    std::vector<std::int64_t> executed(execution.size());
    for (std::size_t q = 0; q < execution.size(); ++q) executed[q] = execution[q] < 0 ? 0 : ids[execution[q]];
    assembly_ = exchange::Assembly(executed, SimdOperator<T>::points_per_block(options_.order), mesh_.comm);
    index_.resize(ids.size());
    for (std::size_t q = 0; q < execution.size(); ++q)
      if (execution[q] >= 0) index_[execution[q]] = assembly_.index[q];
  } else {
    assembly_ = exchange::Assembly(ids, static_cast<std::int64_t>(points), mesh_.comm);
    index_ = assembly_.index;
  }
  const bool assembled = options_.storage == Storage::assembled;
  unknowns_ = assembled ? assembly_.owned : static_cast<std::int64_t>(ids.size());
  entries_ = assembled ? assembly_.local + 1 : unknowns_;
  assembly_.dof_ids = {};
  return ids;
}

// Z^T as the points of each degree of freedom, in their order.
template <class T>
void Operator<T>::set_up_gather() {
  const auto& device = options_.device;
  std::vector<std::int32_t> offsets(assembly_.local + 1);
  for (const std::int32_t dof : index_)
    if (dof < assembly_.local) ++offsets[dof + 1];
  for (std::int64_t g = 0; g < assembly_.local; ++g) offsets[g + 1] += offsets[g];
  std::vector<std::int32_t> columns(offsets.back()), next(offsets.begin(), offsets.end() - 1);
  for (std::size_t p = 0; p < index_.size(); ++p)
    if (index_[p] < assembly_.local) columns[next[index_[p]]++] = static_cast<std::int32_t>(p);
  offsets_ = device::Array<std::int32_t>(device, offsets);
  columns_ = device::Array<std::int32_t>(device, columns);
  points_ = device::Array<T>(device, index_.size());
  gather_ = device->kernel<T>("gather", "gather_points");
  gather_product_ = device->kernel<T>("gather", "gather_product");
  gather_fields_ = device->kernel<T>("gather", "gather_fields");
}

// Values of `each` numbers a point, from the caller's order of elements to the operator's or back.
template <class T>
template <class V>
std::vector<V> Operator<T>::reordered(std::span<const V> values, int each, bool to_own) const {
  const std::size_t length = cube(options_.order) * each;
  if (values.size() != order_.size() * length)
    throw std::invalid_argument("poisson: " + std::to_string(values.size()) + " values given for " +
                                std::to_string(order_.size() * length / each) + " points of " + std::to_string(each));
  std::vector<V> result(values.size());
  for (std::size_t e = 0; e < order_.size(); ++e) {
    const std::size_t own = e * length, other = static_cast<std::size_t>(order_[e]) * length;
    std::copy_n(values.begin() + (to_own ? other : own), length, result.begin() + (to_own ? own : other));
  }
  return result;
}

// The vector after a gather (the owners' values complete) or a halo exchange. (collective)
template <class T>
std::vector<T> Operator<T>::exchanged(std::vector<T> dofs, bool gather) {
  if (exchange_->trivial()) return dofs;
  device::Array<T> values(options_.device, dofs);
  device::Stream stream(options_.device);
  if (gather) {
    exchange_->start_gather(values.data(), stream);
    exchange_->finish_gather(values.data(), exchange::Op::add, stream);
  } else {
    exchange_->start_halo(values.data(), stream);
    exchange_->finish_halo(values.data(), stream);
  }
  stream.synchronize();
  return values.download();
}

// W of hipBone: Z^T W = I. By points, 0 where masked. (collective)
template <class T>
std::vector<double> Operator<T>::inverse_degrees() {
  std::vector<T> count(assembly_.local + 1);
  for (const std::int32_t dof : index_)
    if (dof < assembly_.local) count[dof] += 1;
  count = exchanged(exchanged(std::move(count), true), false);
  std::vector<double> inverse(index_.size());
  std::ranges::transform(index_, inverse.begin(), [&](std::int32_t dof) {
    return dof < assembly_.local ? 1.0 / static_cast<double>(count[dof]) : 0.0;
  });
  return inverse;
}

// y = Z^T y_L + lambda x on [begin, end); x is read only where lambda or the product need it.
template <class T>
void Operator<T>::gather(const T* x, T lambda, T* y, double* product, std::int64_t begin, std::int64_t end,
                         device::Stream& stream) {
  const auto blocks = static_cast<unsigned>(gather_blocks(end - begin));
  const long first = begin, last = end;
  const std::int32_t *offsets = offsets_.data(), *columns = columns_.data();
  const T* points = points_.data();
  if (product != nullptr)
    gather_product_(stream, blocks, gather_shape, first, last, offsets, columns, points, lambda, x, y, product);
  else
    gather_(stream, blocks, gather_shape, first, last, offsets, columns, points, lambda, lambda == T(0) ? nullptr : x,
            y);
}

// The same of several fields, without the product.
template <class T>
void Operator<T>::gather_fields(const T* x, T lambda, T* y, int fields, std::int64_t begin, std::int64_t end,
                                device::Stream& stream) {
  gather_fields_(stream, static_cast<unsigned>(gather_blocks(end - begin)), gather_shape, static_cast<long>(begin),
                 static_cast<long>(end), fields, static_cast<long>(points()), static_cast<long>(entries_),
                 static_cast<const std::int32_t*>(offsets_.data()), static_cast<const std::int32_t*>(columns_.data()),
                 static_cast<const T*>(points_.data()), lambda, lambda == T(0) ? nullptr : x, y);
}

template <class T>
void Operator<T>::apply(T* x, T* y, double* product, device::Stream& stream) {
  const trace::Span span("operator", trace::Category::cpu);
  if (options_.storage == Storage::scattered)
    apply_scattered(x, y, stream);
  else if (simd_)
    apply_simd(x, y, 1, stream);
  else
    apply_portable(x, y, product, stream);
}

template <class T>
void Operator<T>::apply(T* x, T* y, int fields, device::Stream& stream) {
  if (fields < 1) throw std::invalid_argument("poisson: " + std::to_string(fields) + " fields; at least 1");
  if (options_.storage == Storage::scattered)
    throw std::invalid_argument("poisson: several fields at a time are for assembled storage");
  if (fields == 1) {
    apply(x, y, stream);
    return;
  }
  const trace::Span span("operator", trace::Category::cpu);
  if (simd_)
    apply_simd(x, y, fields, stream);
  else
    apply_portable(x, y, fields, stream);
}

template <class T>
exchange::Exchange<T>& Operator<T>::exchange(int fields) {
  if (fields == 1) return *exchange_;
  const auto found = field_exchanges_.find(fields);
  if (found != field_exchanges_.end()) return found->second;
  return field_exchanges_
      .try_emplace(fields, assembly_.pattern, options_.device, mesh_.comm, options_.exchange, fields,
                   exchange::Layout::fields_major)
      .first->second;
}

template <class T>
std::int64_t Operator<T>::product_partials() const {
  if (simd_ || options_.storage == Storage::scattered) return 0;
  return gather_blocks(assembly_.owned) + gather_blocks(assembly_.local - assembly_.owned);
}

template <class T>
void Operator<T>::apply_portable(T* x, T* y, double* product, device::Stream& stream) {
  const T lambda = lambda_in_gather_ ? static_cast<T>(options_.lambda) : T(0);
  T* points = points_.data();
  if (exchange_->trivial()) {
    local_->apply(x, points, 0, elements(), stream);
    gather(x, lambda, y, product, 0, assembly_.owned, stream);
    return;
  }
  double* halo_product = product == nullptr ? nullptr : product + gather_blocks(assembly_.owned);
  exchange_->start_halo(x, stream);
  local_->apply(x, points, 0, split_.half, stream);
  exchange_->finish_halo(x, stream);
  local_->apply(x, points, split_.half, split_.halo_end, stream);
  // The owner adds lambda x once: not with the halo's part.
  gather(x, T(0), y, halo_product, assembly_.owned, assembly_.local, stream);
  exchange_->start_gather(y, stream);
  local_->apply(x, points, split_.halo_end, elements(), stream);
  gather(x, lambda, y, product, 0, assembly_.owned, stream);
  exchange_->finish_gather(y, exchange::Op::add, stream);
}

template <class T>
void Operator<T>::apply_portable(T* x, T* y, int fields, device::Stream& stream) {
  const T lambda = lambda_in_gather_ ? static_cast<T>(options_.lambda) : T(0);
  if (points_.size() < static_cast<std::size_t>(points() * fields)) {
    stream.synchronize();
    points_ = device::Array<T>(options_.device, points() * fields);
  }
  T* points = points_.data();
  const auto elements_of = [&](std::int64_t begin, std::int64_t end) {
    local_->apply(x, points, begin, end, stream, fields, entries_);
  };
  auto& exchange = this->exchange(fields);
  if (exchange.trivial()) {
    elements_of(0, elements());
    gather_fields(x, lambda, y, fields, 0, assembly_.owned, stream);
    return;
  }
  exchange.start_halo(x, stream);
  elements_of(0, split_.half);
  exchange.finish_halo(x, stream);
  elements_of(split_.half, split_.halo_end);
  gather_fields(x, T(0), y, fields, assembly_.owned, assembly_.local, stream);
  exchange.start_gather(y, stream);
  elements_of(split_.halo_end, elements());
  gather_fields(x, lambda, y, fields, 0, assembly_.owned, stream);
  exchange.finish_gather(y, exchange::Op::add, stream);
}

template <class T>
void Operator<T>::apply_simd(T* x, T* y, int fields, device::Stream& stream) {
  auto& exchange = this->exchange(fields);
  simd_->begin(x, y, fields);
  exchange.start_halo(x, stream);
  simd_->apply(x, y, 0, fields);
  exchange.finish_halo(x, stream);
  simd_->apply(x, y, 1, fields);
  exchange.start_gather(y, stream);
  simd_->apply(x, y, 2, fields);
  exchange.finish_gather(y, exchange::Op::add, stream);
}

// b_L = (Z Z^T S_L + lambda I) x_L, with lambda I = lambda Z Z^T W as in the kernel.
template <class T>
void Operator<T>::apply_scattered(const T* x, T* y, device::Stream& stream) {
  local_->apply(x, y, 0, elements(), stream);
  gather_scatter_->gather_scatter(y, exchange::Op::add, stream);
  if (!mask_.empty())
    multiply_(stream, device::vector_blocks(unknowns_), device::vector_shape, static_cast<long>(unknowns_),
              static_cast<const T*>(mask_.data()), static_cast<const T*>(y), y);
}

template <class T>
void Operator<T>::apply_local(T* x, T* y, device::Stream& stream) {
  if (local_) {
    local_->apply(x, options_.storage == Storage::assembled ? points_.data() : y, 0, elements(), stream);
    return;
  }
  simd_->begin(x, y);
  for (const int part : {0, 1, 2}) simd_->apply(x, y, part);
}

template <class T>
std::vector<std::pair<std::string, exchange::Tuning>> Operator<T>::tunings() const {
  if (gather_scatter_) return {{"gather_scatter", gather_scatter_->tuning()}};
  std::vector<std::pair<std::string, exchange::Tuning>> all{{"halo", exchange_->halo_tuning()},
                                                            {"gather", exchange_->gather_tuning()}};
  for (const auto& [fields, exchange] : field_exchanges_) {
    all.emplace_back("halo of " + std::to_string(fields) + " fields", exchange.halo_tuning());
    all.emplace_back("gather of " + std::to_string(fields) + " fields", exchange.gather_tuning());
  }
  return all;
}

template <class T>
std::int64_t Operator<T>::bytes_sent() const {
  return gather_scatter_ ? gather_scatter_->bytes_sent() : 2 * exchange_->bytes_sent();
}

template <class T>
std::int64_t Operator<T>::messages() const {
  return gather_scatter_ ? gather_scatter_->messages() : 2 * exchange_->messages();
}

template <class T>
std::map<std::string, std::int64_t> Operator<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes = simd_ ? simd_->memory_bytes() : local_->memory_bytes();
  const auto add = [&](const char* name, const auto& array) {
    if (!array.empty()) bytes[name] = static_cast<std::int64_t>(array.bytes());
  };
  bytes["points to unknowns, on the host"] = static_cast<std::int64_t>(index_.size() * sizeof(std::int32_t));
  add("gather offsets", offsets_);
  add("gather columns", columns_);
  add("y_L", points_);
  add("weights of inner products", weights_);
  add("mask", mask_);
  return bytes;
}

// The diagonal of S_L^e = D^T G D: sum_m D_mi^2 G_rr(m,j,k) and so for s and t, and twice D_ii D_jj G_rs(i,j,k) and so
// on. [unknowns]
template <class T>
std::vector<T> Operator<T>::host_diagonal() {
  const std::vector<double> g = mesh::geometric_factors(mesh_, options_.order).g;
  const auto& d = element::gll(options_.order).derivative;
  const int n = options_.order + 1;
  const std::size_t each = cube(options_.order);
  std::vector<T> values(index_.size());
  for (std::size_t e = 0; e < values.size() / each; ++e) {
    const double* factors = g.data() + e * each * 6;
    const auto factor = [&](int i, int j, int k, int c) { return factors[((k * n + j) * n + i) * 6 + c]; };
    for (int k = 0; k < n; ++k) {
      for (int j = 0; j < n; ++j) {
        for (int i = 0; i < n; ++i) {
          const double di = d[i * n + i], dj = d[j * n + j], dk = d[k * n + k];
          double sum = 2 * (di * dj * factor(i, j, k, 1) + di * dk * factor(i, j, k, 2) + dj * dk * factor(i, j, k, 4));
          for (int m = 0; m < n; ++m) {
            sum += d[m * n + i] * d[m * n + i] * factor(m, j, k, 0) + d[m * n + j] * d[m * n + j] * factor(i, m, k, 3) +
                   d[m * n + k] * d[m * n + k] * factor(i, j, m, 5);
          }
          values[e * each + (k * n + j) * n + i] = static_cast<T>(sum);
        }
      }
    }
  }
  std::vector<T> diagonal = sum_points(reordered<T>(values, 1, false));
  const std::vector<std::int64_t> ids = unknown_ids();
  for (std::size_t i = 0; i < diagonal.size(); ++i)
    diagonal[i] = ids[i] > 0 ? diagonal[i] + static_cast<T>(options_.lambda) : T(0);
  return diagonal;
}

template <class T>
device::Array<T> Operator<T>::diagonal() {
  std::vector<T> values = host_diagonal();
  values.resize(entries_);
  return device::Array<T>(options_.device, values);
}

template <class T>
device::Array<T> Operator<T>::inverse_diagonal() {
  std::vector<T> values = host_diagonal();
  for (T& value : values) value = value != T(0) ? T(1) / value : T(0);
  return device::Array<T>(options_.device, values);
}

template <class T>
std::vector<std::int64_t> Operator<T>::unknown_ids() const {
  std::vector<std::int64_t> ids = mesh::point_ids(mesh_, options_.order);
  if (options_.storage == Storage::scattered) {
    for (std::size_t p = 0; p < ids.size(); ++p)
      if (index_[p] == assembly_.local) ids[p] = 0;
    return ids;
  }
  std::vector<std::int64_t> result(unknowns_);
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (index_[p] < unknowns_) result[index_[p]] = ids[p];
  return result;
}

template <class T>
std::vector<std::int32_t> Operator<T>::point_index() const {
  return reordered<std::int32_t>(index_, 1, false);
}

template <class T>
std::vector<double> Operator<T>::coordinates() const {
  std::vector<double> points = mesh::point_coordinates(mesh_, options_.order);
  if (options_.storage == Storage::scattered) return points;
  std::vector<double> result(3 * unknowns_);
  for (std::size_t p = 0; p < index_.size(); ++p)
    if (index_[p] < unknowns_) std::copy_n(&points[3 * p], 3, &result[3 * static_cast<std::size_t>(index_[p])]);
  return result;
}

template <class T>
std::vector<double> Operator<T>::mass() const {
  return reordered<double>(mesh::mass_matrix(mesh_, options_.order), 1, false);
}

template <class T>
std::vector<double> Operator<T>::point_coordinates() const {
  return reordered<double>(mesh::point_coordinates(mesh_, options_.order), 3, false);
}

template <class T>
std::vector<std::uint8_t> Operator<T>::masked() const {
  std::vector<std::uint8_t> flags(index_.size());
  std::ranges::transform(index_, flags.begin(), [&](std::int32_t dof) { return dof == assembly_.local ? 1 : 0; });
  return reordered<std::uint8_t>(flags, 1, false);
}

template <class T>
std::vector<T> Operator<T>::sum_points(std::span<const T> values) {
  const std::vector<T> own = reordered<T>(values, 1, true);
  std::vector<T> dofs(assembly_.local + 1);
  for (std::size_t p = 0; p < own.size(); ++p) dofs[index_[p]] += own[p];
  dofs = exchanged(std::move(dofs), true);
  if (options_.storage == Storage::assembled) {
    dofs.resize(unknowns_);
    return dofs;
  }
  dofs = exchanged(std::move(dofs), false);
  dofs[assembly_.local] = 0;
  std::vector<T> sums(index_.size());
  std::ranges::transform(index_, sums.begin(), [&](std::int32_t dof) { return dofs[dof]; });
  return sums;
}

template <class T>
std::vector<T> Operator<T>::at_points(std::span<const T> x) {
  if (static_cast<std::int64_t>(x.size()) != unknowns_)
    throw std::invalid_argument("poisson: a vector has " + std::to_string(unknowns_) + " values on this rank, not " +
                                std::to_string(x.size()));
  if (options_.storage == Storage::scattered) return reordered<T>(x, 1, false);
  std::vector<T> dofs(x.begin(), x.end());
  dofs.resize(entries_);
  dofs = exchanged(std::move(dofs), false);
  std::vector<T> points(index_.size());
  std::ranges::transform(index_, points.begin(), [&](std::int32_t dof) { return dofs[dof]; });
  return reordered<T>(points, 1, false);
}

template <class T>
std::vector<T> Operator<T>::stiffness_of_points(std::span<const T> values) {
  const auto& device = options_.device;
  Options options = options_;
  options.lambda = 0;
  const std::vector<double> degrees(index_.size());
  const LocalOperator<T> stiffness(mesh_, options, {}, degrees);
  device::Array<T> in(device, reordered<T>(values, 1, true)), out(device, index_.size());
  device::Stream stream(device);
  stiffness.apply(in.data(), out.data(), 0, elements(), stream);
  stream.synchronize();
  return sum_points(reordered<T>(out.download(), 1, false));
}

template class Operator<float>;
template class Operator<double>;

}  // namespace weft::poisson
