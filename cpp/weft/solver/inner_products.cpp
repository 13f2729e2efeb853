#include "weft/solver/inner_products.hpp"

#include <algorithm>
#include <cmath>

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
      partials_(device_, std::max<std::int64_t>(1, blocks_)),
      sums_(device_, most),
      host_(device_, device::Memory::host, most * sizeof(double)),
      dot_(device::vector_kernel<T>(*device_, "dot")),
      weighted_dot_(device::vector_kernel<T>(*device_, "weighted_dot")),
      sum_(device::vector_kernel<double>(*device_, "sum")),
      total_(device::vector_kernel<T>(*device_, "total")),
      subtract_(device::vector_kernel<T>(*device_, "update_residual")),
      axpy_(device::vector_kernel<T>(*device_, "axpy")) {
  partials_.zero();
}

template <class T>
void InnerProducts<T>::sum_blocks(std::size_t k, device::Stream& stream) {
  sum_(stream, 1, device::vector_shape, blocks_, partials_.data(), sums_.data() + k);
}

template <class T>
std::vector<double> InnerProducts<T>::all_sums(std::size_t count, device::Stream& stream) {
  auto* const sums = host_.as<double>();
  device_->copy(sums, sums_.data(), count * sizeof(double), device::CopyKind::device_to_host, stream);
  stream.synchronize();
  std::vector<double> values(sums, sums + count);
  comm_.sum(values.data(), static_cast<int>(count));
  return values;
}

template <class T>
std::vector<double> InnerProducts<T>::operator()(std::span<const std::pair<const T*, const T*>> pairs,
                                                 device::Stream& stream) {
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto [x, y] = pairs[k];
    if (weights_ == nullptr)
      dot_(stream, blocks_, device::vector_shape, unknowns_, x, y, partials_.data());
    else
      weighted_dot_(stream, blocks_, device::vector_shape, unknowns_, weights_, x, y, partials_.data());
    sum_blocks(k, stream);
  }
  return all_sums(pairs.size(), stream);
}

template <class T>
double InnerProducts<T>::total(const T* x, device::Stream& stream) {
  if (weights_ == nullptr)
    total_(stream, blocks_, device::vector_shape, unknowns_, x, partials_.data());
  else
    dot_(stream, blocks_, device::vector_shape, unknowns_, weights_, x, partials_.data());
  sum_blocks(0, stream);
  return all_sums(1, stream)[0];
}

template <class T>
double InnerProducts<T>::subtract(double a, const T* y, T* r, device::Stream& stream) {
  if (weights_ != nullptr) {
    axpy_(stream, blocks_, device::vector_shape, unknowns_, -a, y, r);
    return norm(r, stream);
  }
  subtract_(stream, blocks_, device::vector_shape, unknowns_, a, y, r, partials_.data());
  sum_blocks(0, stream);
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
