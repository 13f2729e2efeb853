// u(t + dt) = exp(dt A) u(t) by Arnoldi's method, for linear systems du/dt = A u that do not depend on time.
//
// Source: Min and Fischer, "An efficient high-order time integration method for spectral-element discontinuous Galerkin
// simulations in electromagnetics", ANL/MCS-P1802-1010 (2011). The corrected scheme and its error estimate: Saad, SIAM
// J. Numer. Anal. 29 (1992).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::solver {

// exp of a dense matrix [n][n], by scaling, the Padé approximant of degree 6, and squaring.
std::vector<double> matrix_exponential(std::vector<double> a, int n);

template <class T>
class KrylovExponential {
 public:
  // y = A x on device vectors with `entries` values on this rank.
  using Apply = std::function<void(const T* x, T* y, device::Stream&)>;
  // dimension: that of the Krylov space, which needs memory for dimension + 1 vectors. tolerance: limit on the error
  // per step, relative to |u|. std::invalid_argument unless dimension is in 2..100 and tolerance is positive.
  // (collective)
  KrylovExponential(Apply apply, std::int64_t entries, int dimension, double tolerance,
                    std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // u <- exp(dt A) u, in as many substeps as the tolerance requires; returns the number of substeps. CollectiveError if
  // values of u or A u are not finite. (collective)
  int step(T* u, double dt, device::Stream& stream);

  std::int64_t memory_bytes() const;

 private:
  double dot(const T* x, const T* y, device::Stream& stream);
  int arnoldi(const T* u, double norm, device::Stream& stream);

  Apply apply_;
  std::int64_t entries_;
  int dimension_;
  double tolerance_;
  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  std::vector<device::Array<T>> basis_;
  std::vector<double> hessenberg_;  // [dimension + 1][dimension + 1], the last column zero
  device::Array<double> partials_;
  device::Kernel<long, T, const T*, T, T*> axpby_;
  device::Kernel<long, T, const T*, T*> axpy_;
  device::Kernel<long, const T*, const T*, double*> dot_;
};

}  // namespace weft::solver
