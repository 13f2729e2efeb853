#include "weft/flow/helmholtz.hpp"

#include <cmath>
#include <utility>

#include "weft/poisson/component_passes.hpp"

namespace weft::flow {
namespace {

template <class T>
solver::ComponentSystem<T> system_of(std::string name, poisson::Operator<T>& stiffness, int components, const T* mask,
                                     const T* diagonal, T* scratch) {
  space::Space<T>& space = stiffness.space();
  solver::ComponentSystem<T> system;
  system.name = std::move(name);
  system.stiffness = [&stiffness](T* x, T* y, int fields, device::Stream& stream) {
    stiffness.apply(x, y, fields, stream);
  };
  system.diagonal = diagonal;
  system.mass = space.mass();
  system.mask = mask;
  system.components = components;
  system.entries = space.entries();
  system.unknowns = space.unknowns();
  system.p = scratch;
  system.v = scratch + 3 * space.entries();
  space.exchange(components);  // tunes the exchange during set-up, not in the first step
  if (const auto* simd = stiffness.simd()) {
    system.fused = [passes = poisson::ComponentPasses<T>(*simd, space.mass(), mask, components)](
                       const solver::ComponentPass<T>& pass, double* sums, device::Stream& stream) {
      passes(pass, sums, stream);
    };
  }
  return system;
}

}  // namespace

template <class T>
Helmholtz<T>::Helmholtz(std::string name, poisson::Operator<T>& stiffness, int components, const T* mask, T* scratch)
    : norm_scale_(1 / std::sqrt(stiffness.space().volume())),
      diagonal_(stiffness.diagonal()),
      cg_(system_of(std::move(name), stiffness, components, mask, static_cast<const T*>(diagonal_.data()), scratch),
          stiffness.space().device(), stiffness.comm()) {}

template <class T>
std::vector<solver::ComponentResult> Helmholtz<T>::solve(T* rhs, T* x, double tolerance, device::Stream& stream) {
  return cg_.solve(rhs, x, false, {.tolerance = tolerance, .norm_scale = norm_scale_}, stream);
}

template class Helmholtz<float>;
template class Helmholtz<double>;

}  // namespace weft::flow
