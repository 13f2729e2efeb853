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
constexpr double safety = 1.05;  // a power iteration converges from below

}  // namespace

void check_degree(int degree) {
  if (degree < 1 || degree > 4)
    throw std::invalid_argument("chebyshev: degree " + std::to_string(degree) + " is outside 1..4");
}

template <class T>
double largest_eigenvalue(const ChebyshevSetup<T>& setup, const std::shared_ptr<device::Device>& device,
                          const mpi::Comm& comm) {
  check_degree(setup.degree);
  device::Array<T> r(device, setup.entries), ar(device, setup.entries);
  ar.zero();
  device::Stream stream(device);
  const long n = setup.unknowns;
  const std::int64_t blocks = device::vector_blocks(n);
  std::vector<T> start = setup.start;
  start.resize(setup.entries);
  r.upload(start);
  InnerProducts<T> dot(device, comm, n, setup.weights, 1);
  const device::Kernel<long, const T*, const T*, T*> multiply = device::vector_kernel<T>(*device, "multiply");
  const device::Kernel<long, T, T*> scale = device::vector_kernel<T>(*device, "scale");
  double norm = dot.norm(r.data(), stream), largest = 0;
  for (int i = 0; i < power_iterations && norm > 0; ++i) {
    scale(stream, blocks, device::vector_shape, n, 1 / norm, r.data());
    setup.apply(r.data(), ar.data(), stream);
    if (setup.precondition) setup.precondition(ar.data(), r.data(), stream);
    if (setup.diagonal != nullptr)
      multiply(stream, blocks, device::vector_shape, n, setup.diagonal, setup.precondition ? r.data() : ar.data(),
               r.data());
    norm = dot.norm(r.data(), stream);
    largest = safety * norm;
  }
  if (largest == 0)
    throw mpi::CollectiveError(
        "chebyshev: the preconditioned operator is 0, so that only the constant could be solved for, as on a periodic "
        "mesh of one element at order 1; use a higher order or more elements");
  if (!(largest > 0) || !std::isfinite(largest))
    throw mpi::CollectiveError("chebyshev: the estimated largest eigenvalue of the preconditioned operator is " +
                               std::to_string(largest) + ": the operator or its diagonal holds zeros, NaN or Inf");
  return largest;
}

ChebyshevStep chebyshev_step(int degree, int i, double largest) {
  return {i == 1 ? 0.0 : (2.0 * i - 3) / (2.0 * i + 1), (8.0 * i - 4) / ((2.0 * i + 1) * largest),
          weights[degree - 1][i - 1]};
}

template <class T>
Chebyshev<T>::Chebyshev(Setup setup, std::shared_ptr<device::Device> device, const mpi::Comm& comm)
    : setup_(std::move(setup)),
      device_(std::move(device)),
      largest_(solver::largest_eigenvalue<T>(setup_, device_, comm)),
      r_(device_, setup_.entries),
      z_(device_, setup_.entries),
      az_(device_, setup_.entries),
      copy_(device::vector_kernel<T>(*device_, "copy")),
      difference_(device_->kernel<T>("smoother", "difference")),
      axpy_(device::vector_kernel<T>(*device_, "axpy")),
      diagonal_step_(device_->kernel<T>("smoother", "chebyshev_jacobi")),
      step_(device_->kernel<T>("smoother", "chebyshev_step")) {
  setup_.start = {};
  r_.zero();
  z_.zero();
  az_.zero();
}

template <class T>
void Chebyshev<T>::smooth(const T* b, T* x, bool zero, device::Stream& stream) {
  const long n = setup_.unknowns;
  const std::int64_t blocks = device::vector_blocks(n);
  const T *r = r_.data(), *az = az_.data();
  if (zero) {
    copy_(stream, blocks, device::vector_shape, n, b, r_.data());
  } else {
    setup_.apply(x, az_.data(), stream);
    difference_(stream, blocks, device::vector_shape, n, b, az, r_.data());
  }
  for (int i = 1; i <= setup_.degree; ++i) {
    if (i > 1) {
      setup_.apply(z_.data(), az_.data(), stream);
      axpy_(stream, blocks, device::vector_shape, n, -1, az, r_.data());
    }
    const ChebyshevStep step = chebyshev_step(setup_.degree, i, largest_);
    const bool first = i == 1, fresh = zero && first;
    if (setup_.precondition) setup_.precondition(r_.data(), az_.data(), stream);
    const T* p = setup_.precondition ? az : r;
    if (setup_.diagonal != nullptr)
      diagonal_step_(stream, blocks, device::vector_shape, n, first, fresh, step.a, step.c, step.s, setup_.diagonal, p,
                     z_.data(), x);
    else
      step_(stream, blocks, device::vector_shape, n, first, fresh, step.a, step.c, step.s, p, z_.data(), x);
  }
}

template <class T>
std::int64_t Chebyshev<T>::memory_bytes() const {
  return static_cast<std::int64_t>(r_.bytes() + z_.bytes() + az_.bytes());
}

template double largest_eigenvalue(const ChebyshevSetup<float>&, const std::shared_ptr<device::Device>&,
                                   const mpi::Comm&);
template double largest_eigenvalue(const ChebyshevSetup<double>&, const std::shared_ptr<device::Device>&,
                                   const mpi::Comm&);
template class Chebyshev<float>;
template class Chebyshev<double>;

}  // namespace weft::solver
