#include "weft/poisson/any_operator.hpp"

#include <algorithm>
#include <stdexcept>

#include "weft/device/vector.hpp"
#include "weft/element/gll.hpp"
#include "weft/exchange/hash.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/poisson/scattered_operator.hpp"

namespace weft::poisson {

template <class T>
AnyOperator<T>::AnyOperator(const mesh::Mesh& mesh, const Options& options) : options_(options) {
  element::gll(options.order);  // rejects orders outside 1..15
  if (!(options.lambda >= 0))
    throw std::invalid_argument("poisson: lambda must be at least 0, not " + std::to_string(options.lambda));
  check_geometry(options.geometry, mesh);
  if (options.kernels == Kernels::simd && (!options.device->is_host() || options.storage == Storage::scattered))
    throw std::invalid_argument(
        "poisson: kernels = 'simd' support only the host and assembled storage; use 'portable'");
}

template <class T>
void AnyOperator<T>::apply(T*, T*, double*, device::Stream&, const std::function<void()>&) {
  throw std::logic_error("poisson: this operator does not compute inner products");
}

template <class T>
solver::Summands<T> AnyOperator<T>::summands(T*, double*, device::Stream&) {
  throw std::logic_error("poisson: this operator does not hand out summands");
}

template <class T>
solver::System<T> AnyOperator<T>::system() {
  solver::System<T> system;
  system.apply = [this](T* x, T* y, device::Stream& stream) { apply(x, y, stream); };
  system.product_partials = product_partials();
  if (system.product_partials > 0) {
    system.apply_product = [this](T* x, T* y, double* product, const std::function<void()>& fill,
                                  device::Stream& stream) { apply(x, y, product, stream, fill); };
    system.copies = &space_->exchange();
  }
  system.summands = [this](T* x, double* products, device::Stream& stream) { return summands(x, products, stream); };
  system.summand_partials = summand_partials();
  system.summand_lambda = summand_lambda();
  system.workspace = [this] { return workspace(); };
  system.entries = entries();
  system.unknowns = unknowns();
  system.weights = weights();
  return system;
}

template <class T>
std::array<std::int64_t, 4> AnyOperator<T>::elements_by_shape() const {
  return local_->elements_by_shape();
}

template <class T>
std::map<std::string, std::int64_t> AnyOperator<T>::memory_bytes() const {
  auto bytes = space_->memory_bytes();
  if (screened()) bytes["screening"] = static_cast<std::int64_t>(screening_.bytes());
  if (local_) bytes.merge(local_->memory_bytes());
  return bytes;
}

// The diagonal of S_L^e = D^T G D: sum_m D_mi^2 G_rr(m,j,k), likewise for s and t, plus twice D_ii D_jj G_rs(i,j,k) and
// so on.
template <class T>
std::vector<T> AnyOperator<T>::host_diagonal() {
  const auto& d = element::gll(options_.order).derivative;
  const int n = options_.order + 1;
  const std::size_t each = static_cast<std::size_t>(n) * n * n;
  std::vector<T> values(space_->points());
  mesh::ElementFactors geometry(space_->mesh(), options_.order);
  geometry.each([&](std::int64_t e, const double* factors, const double*) {
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
  });
  geometry.check();
  std::vector<T> diagonal = sum_points(values);
  const std::vector<std::int64_t> ids = unknown_ids();
  for (std::size_t i = 0; i < diagonal.size(); ++i)
    diagonal[i] = ids[i] > 0 ? diagonal[i] + static_cast<T>(options_.lambda) : T(0);
  const std::vector<T> screening = screening_.download();
  for (std::size_t i = 0; i < screening.size(); ++i) diagonal[i] += screening[i];
  return diagonal;
}

template <class T>
void AnyOperator<T>::set_screening(std::span<const T> mass) {
  std::vector<T> values = sum_points(mass);
  const std::vector<std::int64_t> ids = unknown_ids();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (ids[i] <= 0) values[i] = 0;
  screening_ = device::Array<T>(options_.device, values);
  element_screening_.assign(space_->elements(), 0);
  const std::size_t each = mass.size() / std::max<std::size_t>(1, element_screening_.size());
  for (std::size_t p = 0; p < mass.size(); ++p) element_screening_[p / each] += static_cast<double>(mass[p]);
  multiply_add_ = device::vector_kernel<T>(*options_.device, "multiply_add");
}

template <class T>
void AnyOperator<T>::add_screening(const T* x, T* y, device::Stream& stream) {
  if (!screened()) return;
  multiply_add_(stream, device::vector_blocks(unknowns()), device::vector_shape, unknowns(), screening_.data(), x, y);
}

template <class T>
device::Array<T> AnyOperator<T>::diagonal() {
  std::vector<T> values = host_diagonal();
  values.resize(entries());
  return device::Array<T>(options_.device, values);
}

template <class T>
device::Array<T> AnyOperator<T>::inverse_diagonal() {
  std::vector<T> values = host_diagonal();
  for (T& value : values) value = value != T(0) ? T(1) / value : T(0);
  values.resize(entries());
  device::Array<T> inverse(options_.device, values);
  if (weights() == nullptr) {  // assembled storage
    device::Stream stream(options_.device);
    space_->fill_halo(inverse.data(), stream);
    stream.synchronize();
  }
  return inverse;
}

template <class T>
std::vector<T> AnyOperator<T>::random_values(std::int64_t seed) const {
  const std::vector<std::int64_t> ids = unknown_ids();
  const std::uint64_t mixed_seed = exchange::hash(seed);
  std::vector<T> values(ids.size());
#pragma omp parallel for
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t mixed =
        exchange::hash(static_cast<std::int64_t>(static_cast<std::uint64_t>(ids[i]) + mixed_seed));
    values[i] = ids[i] > 0 ? static_cast<T>(static_cast<double>(mixed >> 11) * 0x1p-52 - 1) : T(0);
  }
  return values;
}

template <class T>
std::vector<T> AnyOperator<T>::stiffness_of_points(std::span<const T> values) {
  const auto& device = options_.device;
  Options options = options_;
  options.lambda = 0;
  const std::vector<double> degrees(values.size());
  const LocalOperator<T> stiffness(space_->mesh(), options, {}, degrees);
  device::Array<T> in(device, values), out(device, values.size());
  device::Stream stream(device);
  stiffness.apply(in.data(), out.data(), 0, space_->elements(), stream);
  stream.synchronize();
  return sum_points(out.download());
}

template <class T>
std::unique_ptr<AnyOperator<T>> make_operator(const mesh::Mesh& mesh, const Options& options) {
  if (options.storage == Storage::assembled) return std::make_unique<Operator<T>>(mesh, options);
  return std::make_unique<ScatteredOperator<T>>(mesh, options);
}

template class AnyOperator<float>;
template class AnyOperator<double>;
template std::unique_ptr<AnyOperator<float>> make_operator(const mesh::Mesh&, const Options&);
template std::unique_ptr<AnyOperator<double>> make_operator(const mesh::Mesh&, const Options&);

}  // namespace weft::poisson
