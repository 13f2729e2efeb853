#include "weft/flow/helmholtz.hpp"

#include <cmath>
#include <utility>

#include "weft/poisson/component_passes.hpp"

namespace weft::flow {
namespace {

template <class T>
solver::ComponentSystem<T> system_of(std::string name, Space<T>& space, int components, const T* mask,
                                     const T* diagonal) {
  solver::ComponentSystem<T> system;
  system.name = std::move(name);
  system.stiffness = [&s = space.stiffness()](T* x, T* y, int fields, device::Stream& stream) {
    s.apply(x, y, fields, stream);
  };
  system.diagonal = diagonal;
  system.mass = space.mass();
  system.mask = mask;
  system.components = components;
  system.entries = space.entries();
  system.unknowns = space.unknowns();
  system.p = space.scratch(0);
  system.v = space.scratch(3);
  auto& exchange = space.stiffness().exchange(components);  // its tuning is set-up, not the first step's
  if (const auto* simd = space.stiffness().simd()) {
    system.fused = [passes = poisson::ComponentPasses<T>(*simd, exchange, space.mass(), mask, components)](
                       const solver::ComponentPass<T>& pass, double* sums, device::Stream& stream) {
      passes(pass, sums, stream);
    };
  }
  return system;
}

}  // namespace

template <class T>
Helmholtz<T>::Helmholtz(std::string name, Space<T>& space, int components, const T* mask)
    : norm_scale_(1 / std::sqrt(space.volume())),
      diagonal_(space.stiffness().diagonal()),
      cg_(system_of(std::move(name), space, components, mask, static_cast<const T*>(diagonal_.data())), space.device(),
          space.comm()) {}

template <class T>
std::vector<solver::ComponentResult> Helmholtz<T>::solve(T* rhs, T* x, double tolerance, device::Stream& stream) {
  return cg_.solve(rhs, x, false, {.tolerance = tolerance, .norm_scale = norm_scale_}, stream);
}

template class Helmholtz<float>;
template class Helmholtz<double>;

}  // namespace weft::flow
