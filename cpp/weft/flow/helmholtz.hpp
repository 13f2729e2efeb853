// The implicit viscous step of velocity components and scalars: (h1 S + h2 B) x = f where the mask is 1; where it is 0,
// x is unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/solver/component_cg.hpp"

namespace weft::flow {

// T: float or double. Jacobi-preconditioned conjugate gradients for all components in lock-step
// (solver/component_cg.hpp).
template <class T>
class Helmholtz {
 public:
  // name: that of the system in errors, such as "velocity". stiffness: S. mask: [components][entries], 0 where x is
  // prescribed and in the zero slot, else 1; null: nothing is prescribed. scratch: [6][entries], used during a solve.
  // All of these must outlive this object. At most 3 components. (collective)
  Helmholtz(std::string name, poisson::Operator<T>& stiffness, int components, const T* mask, T* scratch);

  // Sets h1 and h2; cheap, and free if they have not changed.
  void set(double h1, double h2, device::Stream& stream) { cg_.set(h1, h2, stream); }

  // x [components][entries] holds an initial guess that includes the prescribed values, and receives the solution in
  // its owned entries. rhs is overwritten. tolerance: absolute limit on sqrt(sum of r_i^2 / volume) over the unknowns,
  // which is also the norm in the results, for each component. CollectiveError, the same on all ranks, for NaN or Inf,
  // or a solve that stalls. (collective)
  std::vector<solver::ComponentResult> solve(T* rhs, T* x, double tolerance, device::Stream& stream);

  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(diagonal_.bytes()) + cg_.memory_bytes(); }

 private:
  double norm_scale_;
  device::Array<T> diagonal_;
  solver::ComponentCg<T> cg_;
};

}  // namespace weft::flow
