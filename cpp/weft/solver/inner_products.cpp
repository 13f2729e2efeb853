#include "weft/solver/inner_products.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "weft/device/vector.hpp"

namespace weft::solver {

template <class T>
InnerProducts<T>::InnerProducts(std::shared_ptr<device::Device> device, const mpi::Comm& comm, std::int64_t unknowns,
                                const T* weights, int most)
    : device_(std::move(device)),
      comm_(comm),
      unknowns_(unknowns),
      weights_(weights),
      blocks_(device::vector_blocks(unknowns)),
      partials_(device_, most * std::max<std::int64_t>(1, blocks_)),
      sums_(device_, most),
      host_(device_, device::Memory::host, most * sizeof(double)),
      dots_(device::vector_kernel<T>(*device_, "dots")),
      sum_(device::vector_kernel<double>(*device_, "sum")),
      total_(device::vector_kernel<T>(*device_, "total")),
      subtract_(device::vector_kernel<T>(*device_, "update_residual")),
      axpy_(device::vector_kernel<T>(*device_, "axpy")) {
  partials_.zero();
}

template <class T>
std::vector<double> InnerProducts<T>::all_sums(std::size_t count, device::Stream& stream) {
  auto* const sums = host_.as<double>();
  sum_(stream, static_cast<std::int64_t>(count), device::vector_shape, blocks_, partials_.data(), sums_.data());
  device_->copy(sums, sums_.data(), count * sizeof(double), device::CopyKind::device_to_host, stream);
  stream.synchronize();
  std::vector<double> values(sums, sums + count);
  comm_.sum(values.data(), static_cast<int>(count));
  return values;
}

template <class T>
std::vector<double> InnerProducts<T>::operator()(std::span<const std::pair<const T*, const T*>> pairs,
                                                 device::Stream& stream) {
  for (std::size_t begin = 0; begin < pairs.size(); begin += device::most_vectors) {
    const std::size_t count = std::min<std::size_t>(device::most_vectors, pairs.size() - begin);
    Pairs some{};
    for (std::size_t k = 0; k < count; ++k) std::tie(some.x[k], some.y[k]) = pairs[begin + k];
    dots_(stream, blocks_ * static_cast<std::int64_t>(count), device::vector_shape, unknowns_, count, some, weights_,
          partials_.data() + static_cast<std::int64_t>(begin) * blocks_);
  }
  return all_sums(pairs.size(), stream);
}

template <class T>
double InnerProducts<T>::total(const T* x, device::Stream& stream) {
  if (weights_ == nullptr)
    total_(stream, blocks_, device::vector_shape, unknowns_, x, partials_.data());
  else
    dots_(stream, blocks_, device::vector_shape, unknowns_, 1, Pairs{{weights_}, {x}}, nullptr, partials_.data());
  return all_sums(1, stream)[0];
}

template <class T>
double InnerProducts<T>::subtract(double a, const T* y, T* r, device::Stream& stream) {
  if (weights_ != nullptr) {
    axpy_(stream, blocks_, device::vector_shape, unknowns_, -a, y, r);
    return norm(r, stream);
  }
  subtract_(stream, blocks_, device::vector_shape, unknowns_, a, y, r, partials_.data());
  return std::sqrt(all_sums(1, stream)[0]);
}

template <class T>
double InnerProducts<T>::operator()(const T* x, const T* y, device::Stream& stream) {
  const std::pair<const T*, const T*> pair{x, y};
  return (*this)(std::span(&pair, 1), stream)[0];
}

template <class T>
double InnerProducts<T>::norm(const T* x, device::Stream& stream) {
  return std::sqrt((*this)(x, x, stream));
}

template class InnerProducts<float>;
template class InnerProducts<double>;

}  // namespace weft::solver
