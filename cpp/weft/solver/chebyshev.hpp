// Smoothing by Chebyshev polynomials of the fourth kind, with optimised weights, of a preconditioned operator M A.
//
// J. Lottes, "Optimal polynomial smoothers for multigrid V-cycles", Numerical Linear Algebra with Applications 30
// (2023) e2518: it asks for the largest eigenvalue of M A only, and there is no lower bound to guess.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::solver {

template <class T>
using Map = std::function<void(T* x, T* y, device::Stream&)>;  // y = f(x); may write halo entries of x

template <class T>
class Chebyshev {
 public:
  struct Setup {
    Map<T> apply;                         // A
    Map<T> precondition = nullptr;        // M, or
    const T* inverse_diagonal = nullptr;  // [unknowns] M as a diagonal
    std::int64_t entries = 0, unknowns = 0;
    const T* weights = nullptr;  // of inner products
    int degree = 2;              // 1..4: applications of A in a sweep from zero, counting that of the residual after it
  };
  // Estimates the largest eigenvalue by power iteration. CollectiveError if that is no positive number. (collective)
  Chebyshev(Setup setup, std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // x becomes nearer to A^-1 b; zero: it starts from 0, whatever it holds.
  void smooth(const T* b, T* x, bool zero, device::Stream& stream);
  double largest_eigenvalue() const { return largest_; }
  std::int64_t memory_bytes() const;

 private:
  Setup setup_;
  std::shared_ptr<device::Device> device_;
  double largest_ = 0;
  device::Array<T> r_, z_, az_;  // az: A z, then M r where M is no diagonal
  device::Kernel copy_, difference_, axpy_, diagonal_step_, step_;
};

}  // namespace weft::solver
