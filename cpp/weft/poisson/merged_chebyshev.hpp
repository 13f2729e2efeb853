// Chebyshev smoothing with the diagonal as preconditioner, with all vector work inside the SIMD operator's pass over
// the blocks: each step reads and writes each vector once. The polynomial is that of solver::Chebyshev, up to rounding.
#pragma once

#include <cstdint>

#include "weft/device/device.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/poisson/simd_sweep.hpp"
#include "weft/poisson/smoother.hpp"

namespace weft::poisson {

template <class T>
class MergedChebyshev : public Smoother<T> {
 public:
  // op: kernels = simd. std::invalid_argument for a degree outside 1..4. (collective)
  MergedChebyshev(Operator<T>& op, int degree);

  void start(const T* b, T* x, T* work, bool residual, device::Stream& stream) override;
  void improve(const T* b, T* x, T* work, device::Stream& stream) override;
  double largest_eigenvalue() const override { return largest_; }
  std::int64_t memory_bytes() const override;

 private:
  using Sweep = ChebyshevSweep<T>;
  // fresh: start from x = 0; otherwise v holds A x. residual: the last step leaves b - A x in v.
  void steps(const T* b, T* x, T* v, bool fresh, bool residual, device::Stream& stream);
  void pass(const Sweep& sweep, device::Stream& stream);

  Operator<T>& op_;
  int degree_;
  device::Array<T> d_, r_, z_;
  double largest_ = 0;
};

}  // namespace weft::poisson
