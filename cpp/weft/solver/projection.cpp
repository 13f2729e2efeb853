#include "weft/solver/projection.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "weft/device/vector.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::solver {
template <class T>
Projection<T>::Projection(Map<T> apply, T* image, std::int64_t entries, std::int64_t unknowns, int most,
                          std::shared_ptr<device::Device> device, const mpi::Comm& comm)
    : apply_(std::move(apply)),
      image_(image),
      device_(std::move(device)),
      comm_(comm),
      entries_(entries),
      unknowns_(unknowns),
      most_(most),
      basis_(device_, std::max(most, 1) * entries),
      partials_(device_, (max_vectors + 1) * std::max<std::int64_t>(1, device::vector_blocks(unknowns))),
      sums_(device_, max_vectors + 1),
      matrix_(device_, max_vectors * max_vectors),
      host_(device_, device::Memory::host, (max_vectors + 1 + max_vectors * max_vectors) * sizeof(double)),
      sum_(device_->kernel<T>("component_cg", "component_sums")),
      copy_(device::vector_kernel<T>(*device_, "copy")) {
  if (most < 0 || most > max_vectors)
    throw std::invalid_argument("projection onto " + std::to_string(most) + " solutions; 0 to " +
                                std::to_string(max_vectors));
  const auto kernel = [this](const char* name) { return device_->kernel<T>("projection", name); };
  products_ = kernel("projection_products");
  combine_ = kernel("projection_combine");
  rotate_ = kernel("projection_rotate");
  basis_.zero();
  partials_.zero();
}

template <class T>
std::vector<double> Projection<T>::products(int count, const T* y, device::Stream& stream) {
  const std::int64_t blocks = device::vector_blocks(unknowns_);
  products_(stream, blocks * (count + 1), device::vector_shape, unknowns_, entries_, count, basis_.data(), y,
            partials_.data());
  sum_(stream, count + 1, device::vector_shape, blocks, partials_.data(), sums_.data());
  device_->copy(host_.as<double>(), sums_.data(), (count + 1) * sizeof(double), device::CopyKind::device_to_host,
                stream);
  stream.synchronize();
  std::vector<double> values(host_.as<double>(), host_.as<double>() + count + 1);
  comm_.sum(values.data(), count + 1);
  return values;
}

// y = scale y + sum of a_k basis_k
template <class T>
void Projection<T>::combine(const std::vector<double>& a, double scale, T* y, device::Stream& stream) {
  Coefficients coefficients{};
  std::ranges::copy(a, coefficients.a.begin());
  combine_(stream, device::vector_blocks(unknowns_), device::vector_shape, unknowns_, entries_, a.size(), coefficients,
           scale, basis_.data(), y);
}

template <class T>
double Projection<T>::project(T* r, T* x, device::Stream& stream) {
  const trace::Span span("projection", trace::Category::cpu);
  std::vector<double> a = products(count_, r, stream);
  const double norm = std::sqrt(a.back());
  if (!std::isfinite(norm)) return a.back();
  a.pop_back();
  if (count_ > 0) combine(a, 0, x, stream);
  apply_(x, image_, stream);
  Coefficients minus_one{{-1}};
  combine_(stream, device::vector_blocks(unknowns_), device::vector_shape, unknowns_, 0, 1, minus_one, 1, image_, r);
  guess_ = std::move(a);
  if (count_ == most_) make_room(stream);
  slot_ = count_;
  return norm;
}

// Replaces the basis by a basis of the span of the newest solutions and the current guess. An orthonormal basis of
// their coordinates is A-orthonormal in the full space.
template <class T>
void Projection<T>::make_room(device::Stream& stream) {
  const std::size_t wanted = static_cast<std::size_t>(most_) / 2;  // number of vectors, including that for the guess
  if (wanted == 0) {
    reset();
    return;
  }
  solutions_.erase(solutions_.begin(),
                   solutions_.end() - static_cast<std::ptrdiff_t>(std::min(wanted - 1, solutions_.size())));
  solutions_.push_back(guess_);
  const auto dot = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  std::vector<std::vector<double>> q;
  for (std::vector<double>& x : solutions_) {
    x.resize(count_);
    std::vector<double> rest = x;
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::vector<double>& direction : q) {
        const double along = dot(direction, rest);
        for (int k = 0; k < count_; ++k) rest[k] -= along * direction[k];
      }
    }
    const double length = std::sqrt(dot(rest, rest));
    if (!(length > 1e-10 * std::sqrt(dot(x, x)))) continue;
    for (double& value : rest) value /= length;
    q.push_back(std::move(rest));
  }
  const int kept = static_cast<int>(q.size());
  double* const matrix = host_.as<double>() + max_vectors + 1;  // after the part that products() overwrites
  for (int k = 0; k < count_; ++k)
    for (int m = 0; m < kept; ++m) matrix[k * kept + m] = q[m][k];
  device_->copy(matrix_.data(), matrix, count_ * kept * sizeof(double), device::CopyKind::host_to_device, stream);
  rotate_(stream, device::vector_blocks(unknowns_), device::vector_shape, unknowns_, entries_, count_, kept,
          matrix_.data(), basis_.data());
  for (std::vector<double>& x : solutions_) {
    std::vector<double> coordinates;
    for (const std::vector<double>& direction : q) coordinates.push_back(dot(direction, x));
    x = std::move(coordinates);
  }
  guess_ = std::move(solutions_.back());
  solutions_.pop_back();
  count_ = kept;
}

template <class T>
void Projection<T>::keep(T* x, device::Stream& stream) {
  const trace::Span span("projection", trace::Category::cpu);
  T* const newest = correction();
  Coefficients one{{1}};
  combine_(stream, device::vector_blocks(unknowns_), device::vector_shape, unknowns_, 0, 1, one, 1, newest, x);
  if (most_ == 0) return;
  // The first vector of a new basis is a full solution, not a correction.
  if (slot_ == 0) {
    guess_.clear();
    copy_(stream, device::vector_blocks(unknowns_), device::vector_shape, unknowns_, x, newest);
  }
  apply_(newest, image_, stream);
  std::vector<double> a = products(slot_ + 1, image_, stream);
  a.pop_back();
  const double energy = a.back();
  a.pop_back();
  double rest = energy;
  for (const double value : a) rest -= value * value;
  // A vector that lies, up to rounding, in the span of the others is not a new direction.
  if (!(rest > 64 * static_cast<double>(std::numeric_limits<T>::epsilon()) * energy)) return;
  std::vector<double> solution = guess_;
  solution.resize(slot_ + 1);
  for (int k = 0; k < slot_; ++k) solution[k] += a[k];
  solution[slot_] = std::sqrt(rest);
  solutions_.push_back(std::move(solution));
  const double scale = 1 / std::sqrt(rest);
  for (double& value : a) value *= -scale;
  combine(a, scale, newest, stream);
  count_ = slot_ + 1;
}

template class Projection<float>;
template class Projection<double>;

}  // namespace weft::solver
