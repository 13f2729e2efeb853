// Smoothing by Chebyshev polynomials of the fourth kind, with optimised weights, in the preconditioned operator M A.
//
// J. Lottes, "Optimal polynomial smoothers for multigrid V-cycles", Numerical Linear Algebra with Applications 30
// (2023) e2518. They need only the largest eigenvalue of M A, and no estimate of a lower bound.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::solver {

template <class T>
using Map = std::function<void(T* x, T* y, device::Stream&)>;  // y = f(x); may write halo entries of x

template <class T>
struct ChebyshevSetup {
  Map<T> apply;                   // A
  Map<T> precondition = nullptr;  // M, if it is not diagonal
  const T* diagonal = nullptr;    // [unknowns] M itself, or a factor applied to the result of `precondition`
  std::int64_t entries = 0, unknowns = 0;
  const T* weights = nullptr;  // for inner products
  std::vector<T> start;        // [unknowns] rough values: the start vector of the power iteration
  int degree = 2;              // 1..4: applications of A per sweep from zero, with that for the residual
};

void check_degree(int degree);  // std::invalid_argument outside 1..4

// The largest eigenvalue of M A by power iteration. std::invalid_argument for a degree outside 1..4, CollectiveError if
// the estimate is not a positive number. (collective)
template <class T>
double largest_eigenvalue(const ChebyshevSetup<T>& setup, const std::shared_ptr<device::Device>& device,
                          const mpi::Comm& comm);

// Step i = 1..degree: z = a z + c M r, x += s z, r -= A z; the first step does not read z.
struct ChebyshevStep {
  double a, c, s;
};
ChebyshevStep chebyshev_step(int degree, int i, double largest);

template <class T>
class Chebyshev {
 public:
  using Setup = ChebyshevSetup<T>;
  // Estimates the largest eigenvalue; throws the errors of largest_eigenvalue. (collective)
  Chebyshev(Setup setup, std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // One sweep that brings x closer to A^-1 b. zero: starts from 0, whatever x holds.
  void smooth(const T* b, T* x, bool zero, device::Stream& stream);
  double largest_eigenvalue() const { return largest_; }
  std::int64_t memory_bytes() const;

 private:
  Setup setup_;
  std::shared_ptr<device::Device> device_;
  double largest_ = 0;
  device::Array<T> r_, z_, az_;  // az holds A z, then M r if M is not diagonal
  device::Kernel<long, const T*, T*> copy_;
  device::Kernel<long, const T*, const T*, T*> difference_;
  device::Kernel<long, T, const T*, T*> axpy_;
  device::Kernel<long, int, int, T, T, T, const T*, const T*, T*, T*> diagonal_step_;
  device::Kernel<long, int, int, T, T, T, const T*, T*, T*> step_;
};

}  // namespace weft::solver
