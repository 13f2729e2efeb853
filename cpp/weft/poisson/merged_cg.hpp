// Conjugate gradients with one pass over the elements per iteration: vector updates are done before, and sums after,
// each block, while its entries are in cache (the idea of Kronbichler, Sashko and Munch, Int. J. High Perform. Comput.
// Appl. 2023).
//
// The recurrence is that of classic CG (solver/cg.hpp); residuals agree up to rounding. For the host only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/poisson/simd_operator.hpp"
#include "weft/poisson/simd_sweep.hpp"
#include "weft/solver/cg.hpp"

namespace weft::poisson {

// T: float or double. Keeps a reference to the operator. Allocates r, p and A p.
template <class T>
class MergedCg {
 public:
  // inverse_diagonal: [owned entries] Jacobi preconditioner, or null; must outlive this object.
  explicit MergedCg(const SimdOperator<T>& op, const T* inverse_diagonal = nullptr);

  // Like ConjugateGradients::solve: same arguments, errors and result. (collective)
  solver::SolveResult solve(const T* b, T* x, bool zero_guess, const solver::SolveOptions& options,
                            device::Stream& stream);

  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(r_.bytes() + p_.bytes() + v_.bytes()); }

 private:
  using Scalars = typename CgSweep<T>::Scalars;

  void start(const T* b, T* x, bool zero_guess, device::Stream& stream);
  CgSums iterate(T* x, const Scalars& scalars, device::Stream& stream);  // updates, v = A p, and all sums on this rank
  void sweep(T* x, const Scalars& scalars, space::Part part, CgSums& sums);
  CgSums update(T* x, const Scalars& scalars);  // only updates, r.r and r.z
  double exact_next(T alpha);                   // r.z after the next update, on this rank; used if its recurrence
                                                // cancels

  const SimdOperator<T>& op_;
  const T* d_;
  std::int64_t owned_;
  device::Array<T> r_, p_, v_;
  std::vector<Range> pieces_;  // of the owned entries
};

}  // namespace weft::poisson
