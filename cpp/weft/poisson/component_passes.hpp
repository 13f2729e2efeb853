// An iteration of component CG (solver/component_cg.hpp) on h1 S + h2 B in one pass over memory, with the SIMD kernels:
// the counterpart of poisson::MergedCg for several components.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/poisson/simd_fields.hpp"
#include "weft/poisson/simd_operator.hpp"
#include "weft/solver/component_cg.hpp"

namespace weft::poisson {

// T: float or double. Works on A / h1 = S + (h2 / h1) B, which is what v holds, so step lengths differ by the factor
// h1.
template <class T>
class ComponentPasses {
 public:
  // op: S, without screening term. b, mask: as in solver::ComponentSystem, but [entries] each. All must outlive this
  // object. Sets up the exchange of `components` fields. (collective)
  ComponentPasses(const SimdOperator<T>& op, const T* b, const T* mask, int components);

  // As solver::ComponentSystem::fused. (collective)
  void operator()(const solver::ComponentPass<T>& pass, double* sums, device::Stream& stream) const;

 private:
  std::vector<ComponentSweep<T>> sweeps(const solver::ComponentPass<T>& pass) const;
  template <class Work>
  void for_ranges(const solver::ComponentPass<T>& pass, const std::vector<Range>& ranges, double* sums,
                  Work&& work) const;
  void sweep(const solver::ComponentPass<T>& pass, space::Part part, double* sums) const;

  const SimdOperator<T>& op_;
  const T *b_, *mask_;
  int components_;
  std::int64_t entries_;
  std::vector<Range> pieces_;  // of the owned entries
};

}  // namespace weft::poisson
