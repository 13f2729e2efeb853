#include "weft/solver/chebyshev.hpp"

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/device/vector.hpp"
#include "weft/solver/inner_products.hpp"

namespace weft::solver {
namespace {

// Weights of the optimised fourth kind, Table 1 of Lottes (2023): degree k, step i.
constexpr std::array<std::array<double, 4>, 4> weights{
    {{1.12500000000000},
     {1.02387287570313, 1.26408905371085},
     {1.00842544782028, 1.08867839208730, 1.33753125909618},
     {1.00391310427285, 1.04035811188593, 1.14863498546254, 1.38268869241000}}};
constexpr int power_iterations = 20;
constexpr double safety = 1.05;  // a power iteration comes from below

}  // namespace

template <class T>
Chebyshev<T>::Chebyshev(Setup setup, std::shared_ptr<device::Device> device, const mpi::Comm& comm)
    : setup_(std::move(setup)),
      device_(std::move(device)),
      r_(device_, setup_.entries),
      z_(device_, setup_.entries),
      az_(device_, setup_.entries),
      copy_(device::vector_kernel<T>(*device_, "copy")),
      difference_(device_->kernel({"smoother", "difference", {{"WEFT_REAL", device::type_name<T>()}}})),
      axpy_(device::vector_kernel<T>(*device_, "axpy")),
      diagonal_step_(device_->kernel({"smoother", "chebyshev_jacobi", {{"WEFT_REAL", device::type_name<T>()}}})),
      step_(device_->kernel({"smoother", "chebyshev_step", {{"WEFT_REAL", device::type_name<T>()}}})) {
  if (setup_.degree < 1 || setup_.degree > 4)
    throw std::invalid_argument("chebyshev: degree " + std::to_string(setup_.degree) + " is outside 1..4");
  z_.zero();
  az_.zero();
  device::Stream stream(device_);
  const long n = setup_.unknowns;
  const unsigned blocks = device::vector_blocks(n);
  // Rough values excite the upper end of the spectrum from the start.
  std::vector<T> start(setup_.entries);
  std::uint64_t state = 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(comm.rank());
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    start[i] = static_cast<T>(static_cast<double>(state >> 11) * 0x1p-52 - 1);
  }
  r_.upload(start);
  InnerProducts<T> dot(device_, comm, n, setup_.weights, 1);
  const device::Kernel multiply = device::vector_kernel<T>(*device_, "multiply");
  const device::Kernel scale = device::vector_kernel<T>(*device_, "scale");
  double norm = dot.norm(r_.data(), stream);
  for (int i = 0; i < power_iterations && norm > 0; ++i) {
    scale(stream, blocks, device::vector_shape, n, static_cast<T>(1 / norm), r_.data());
    setup_.apply(r_.data(), az_.data(), stream);
    if (setup_.precondition)
      setup_.precondition(az_.data(), r_.data(), stream);
    else
      multiply(stream, blocks, device::vector_shape, n, setup_.inverse_diagonal, static_cast<const T*>(az_.data()),
               r_.data());
    norm = dot.norm(r_.data(), stream);
    largest_ = safety * norm;
  }
  if (!(largest_ > 0) || !std::isfinite(largest_))
    throw mpi::CollectiveError("chebyshev: the largest eigenvalue of the preconditioned operator came out as " +
                               std::to_string(largest_) + ": the operator or its diagonal holds zeros, NaN or Inf");
}

template <class T>
void Chebyshev<T>::smooth(const T* b, T* x, bool zero, device::Stream& stream) {
  const long n = setup_.unknowns;
  const unsigned blocks = device::vector_blocks(n);
  const T *r = r_.data(), *az = az_.data();
  if (zero) {
    copy_(stream, blocks, device::vector_shape, n, b, r_.data());
  } else {
    setup_.apply(x, az_.data(), stream);
    difference_(stream, blocks, device::vector_shape, n, b, az, r_.data());
  }
  const auto& beta = weights[setup_.degree - 1];
  for (int i = 1; i <= setup_.degree; ++i) {
    if (i > 1) {
      setup_.apply(z_.data(), az_.data(), stream);
      axpy_(stream, blocks, device::vector_shape, n, T(-1), az, r_.data());
    }
    const T a = static_cast<T>((2.0 * i - 3) / (2.0 * i + 1));
    const T c = static_cast<T>((8.0 * i - 4) / ((2.0 * i + 1) * largest_));
    const T s = static_cast<T>(beta[i - 1]);
    const int first = i == 1 ? 1 : 0, fresh = zero && i == 1 ? 1 : 0;
    if (setup_.precondition) {
      setup_.precondition(r_.data(), az_.data(), stream);
      step_(stream, blocks, device::vector_shape, n, first, fresh, a, c, s, az, z_.data(), x);
    } else {
      diagonal_step_(stream, blocks, device::vector_shape, n, first, fresh, a, c, s, setup_.inverse_diagonal, r,
                     z_.data(), x);
    }
  }
}

template <class T>
std::int64_t Chebyshev<T>::memory_bytes() const {
  return static_cast<std::int64_t>(r_.bytes() + z_.bytes() + az_.bytes());
}

template class Chebyshev<float>;
template class Chebyshev<double>;

}  // namespace weft::solver
