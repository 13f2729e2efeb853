#include "weft/solver/exponential.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/device/vector.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::solver {
namespace {

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, int n) {
  std::vector<double> c(a.size());
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

// b <- a^-1 b by Gaussian elimination with row exchanges.
void solve(std::vector<double> a, std::vector<double>& b, int n) {
  for (int k = 0; k < n; ++k) {
    int pivot = k;
    for (int i = k + 1; i < n; ++i)
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    for (int j = 0; j < n && pivot != k; ++j) {
      std::swap(a[k * n + j], a[pivot * n + j]);
      std::swap(b[k * n + j], b[pivot * n + j]);
    }
    for (int i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = a[i * n + k] / a[k * n + k];
      for (int j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      for (int j = 0; j < n; ++j) b[i * n + j] -= factor * b[k * n + j];
    }
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) b[i * n + j] /= a[i * n + i];
}

}  // namespace

std::vector<double> matrix_exponential(std::vector<double> a, int n) {
  double norm = 0;
  for (int i = 0; i < n; ++i) {
    double row = 0;
    for (int j = 0; j < n; ++j) row += std::abs(a[i * n + j]);
    norm = std::max(norm, row);
  }
  int squarings = 0;
  for (; norm > 0.5; norm /= 2) ++squarings;
  for (double& value : a) value = std::ldexp(value, -squarings);
  constexpr int degree = 6;
  std::vector<double> power(a.size()), above(a.size()), below(a.size());
  for (int i = 0; i < n; ++i) power[i * n + i] = 1;
  double coefficient = 1;
  for (int k = 0; k <= degree; ++k) {
    for (std::size_t i = 0; i < power.size(); ++i) {
      above[i] += coefficient * power[i];
      below[i] += (k % 2 == 0 ? coefficient : -coefficient) * power[i];
    }
    power = product(power, a, n);
    coefficient *= static_cast<double>(degree - k) / ((2 * degree - k) * (k + 1.0));
  }
  solve(std::move(below), above, n);
  for (int s = 0; s < squarings; ++s) above = product(above, above, n);
  return above;
}

template <class T>
KrylovExponential<T>::KrylovExponential(Apply apply, std::int64_t entries, int dimension, double tolerance,
                                        std::shared_ptr<device::Device> device, const mpi::Comm& comm)
    : apply_(std::move(apply)),
      entries_(entries),
      dimension_(dimension),
      tolerance_(tolerance),
      device_(std::move(device)),
      comm_(comm) {
  comm_.together([&] {
    if (dimension < 2 || dimension > 100)
      throw std::invalid_argument("the dimension of a Krylov space must be in 2..100, not " +
                                  std::to_string(dimension));
    if (!(tolerance > 0)) throw std::invalid_argument("the tolerance of the exponential integrator must be positive");
    for (int v = 0; v <= dimension_; ++v) basis_.emplace_back(device_, static_cast<std::size_t>(entries_));
    partials_ = device::Array<double>(device_, device::vector_blocks(entries_));
    axpby_ = device::vector_kernel<T>(*device_, "axpby");
    axpy_ = device::vector_kernel<T>(*device_, "axpy");
    dot_ = device::vector_kernel<T>(*device_, "dot");
  });
}

template <class T>
double KrylovExponential<T>::dot(const T* x, const T* y, device::Stream& stream) {
  dot_(stream, device::vector_blocks(entries_), device::vector_shape, entries_, x, y, partials_.data());
  stream.synchronize();
  double sum = 0;
  for (const double partial : partials_.download()) sum += partial;
  comm_.sum(&sum, 1);
  return sum;
}

// Builds an orthonormal basis of u, A u, …; returns its dimension, which is smaller than requested if the space is
// invariant.
template <class T>
int KrylovExponential<T>::arnoldi(const T* u, double norm, device::Stream& stream) {
  const int n = dimension_ + 1;
  const std::int64_t blocks = device::vector_blocks(entries_);
  hessenberg_.assign(static_cast<std::size_t>(n) * n, 0);
  device_->fill_zero(basis_[0].data(), basis_[0].bytes(), stream);
  axpy_(stream, blocks, device::vector_shape, entries_, 1 / norm, u, basis_[0].data());
  for (int j = 0; j < dimension_; ++j) {
    T* next = basis_[j + 1].data();
    apply_(basis_[j].data(), next, stream);
    const double before = std::sqrt(dot(next, next, stream));
    for (int i = 0; i <= j; ++i) {
      const double h = dot(basis_[i].data(), next, stream);
      hessenberg_[i * n + j] = h;
      axpy_(stream, blocks, device::vector_shape, entries_, -h, basis_[i].data(), next);
    }
    const double left = std::sqrt(dot(next, next, stream));
    if (!std::isfinite(left))
      comm_.together([] { throw std::runtime_error("the exponential integrator found values that are not finite"); });
    if (left <= 10 * std::numeric_limits<T>::epsilon() * before) return j + 1;
    hessenberg_[(j + 1) * n + j] = left;
    axpby_(stream, blocks, device::vector_shape, entries_, 0, basis_[j].data(), 1 / left, next);
  }
  return dimension_;
}

template <class T>
int KrylovExponential<T>::step(T* u, double dt, device::Stream& stream) {
  const trace::Span span("exponential step", trace::Category::cpu);
  const std::int64_t blocks = device::vector_blocks(entries_);
  int parts = 0;
  for (double left = dt; left > 1e-14 * dt; ++parts) {
    const double norm = std::sqrt(dot(u, u, stream));
    if (norm == 0) return parts;
    const int found = arnoldi(u, norm, stream), n = found + 1;
    double size = left;
    std::vector<double> column(n);
    for (;; size /= 2) {
      // The matrix with one more row: the last entry of its exponential is the correction, which also estimates the
      // error.
      std::vector<double> h(static_cast<std::size_t>(n) * n);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < found; ++j) h[i * n + j] = size * hessenberg_[i * (dimension_ + 1) + j];
      const std::vector<double> exponential = matrix_exponential(std::move(h), n);
      for (int i = 0; i < n; ++i) column[i] = exponential[i * n];
      if (found < dimension_ || std::abs(column[found]) <= tolerance_ * size / dt) break;
      if (size < 1e-6 * dt)
        comm_.together([] {
          throw std::runtime_error(
              "the exponential integrator cannot reach its tolerance: use a smaller time step or a larger Krylov "
              "space");
        });
    }
    device_->fill_zero(u, static_cast<std::size_t>(entries_) * sizeof(T), stream);
    for (int i = 0; i < (found < dimension_ ? found : n); ++i)
      axpy_(stream, blocks, device::vector_shape, entries_, norm * column[i], basis_[i].data(), u);
    left -= size;
  }
  return parts;
}

template <class T>
std::int64_t KrylovExponential<T>::memory_bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(partials_.bytes());
  for (const auto& vector : basis_) bytes += static_cast<std::int64_t>(vector.bytes());
  return bytes;
}

template class KrylovExponential<float>;
template class KrylovExponential<double>;

}  // namespace weft::solver
