// Jacobi-preconditioned conjugate gradients for the components of a vector field in lock-step: one application of the
// operator and one all-reduce per iteration for all components, each with its own step lengths and its own stopping
// test.
//
//   A_c = M_c (h1 S + h2 B) M_c,   B diagonal, M_c a mask of 0 and 1
//
// One all-reduce suffices: with v = A p, the next r . r and r . d r follow from products of r and v that are available
// already (as in MergedCg), and they give beta and the stopping test. Both are recomputed in the next iteration, so
// that errors do not accumulate.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::solver {

inline constexpr int max_components = 4;

// The scalars of one iteration for all components; see ComponentSystem::fused.
template <class T>
struct ComponentPass {
  double h1, h2;
  std::array<double, max_components> alpha{}, beta{};
  T *r, *p, *v, *x;  // [components][entries]
  const T* d;        // [unknowns] the preconditioner
  bool last;         // only x is needed, without sums
};

template <class T>
struct ComponentSystem {
  std::string name;                                                        // used in errors
  std::function<void(T* x, T* y, int fields, device::Stream&)> stiffness;  // y = S x, [fields][entries]
  const T* diagonal = nullptr;                                             // [unknowns] diagonal of S
  const T* mass = nullptr;                                                 // [unknowns] diagonal of B
  const T* mask = nullptr;                                                 // [components][entries]; null: ones
  int components = 3;                                                      // 1..4
  std::int64_t entries = 0;
  std::int64_t unknowns = 0;  // the number of leading entries that sums and updates use
  // Work space borrowed for the duration of a solve: finite values, [components][entries] each; null: allocate own
  // memory.
  T *p = nullptr, *v = nullptr;
  // Set if the operator can perform an iteration in one pass over memory, for h1 > 0: x += alpha p, r -= alpha A p, p =
  // d r + beta p, and A p of the new p, which it may store in v in any form. p and v are finite before the first pass.
  // sums: [7][components] of this rank, as in kernels/component_cg.hpp. (collective)
  std::function<void(const ComponentPass<T>&, double* sums, device::Stream&)> fused = nullptr;
};

struct ComponentResult {
  int iterations = 0;
  double first = 0, last = 0;  // |r| before the first iteration and after the last
};

struct ComponentCgOptions {
  double tolerance = 0;   // for |r| of each component, absolute
  double norm_scale = 1;  // the factor from the Euclidean norm to |r|, in tolerance, results and errors
  int max_iterations = 1000;
};

// Allocates d and, unless they are lent, p and A p, [components][entries].
template <class T>
class ComponentCg {
 public:
  ComponentCg(ComponentSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // Sets the operator and its diagonal preconditioner, in one pass over three vectors.
  void set(double h1, double h2, device::Stream& stream);

  // Solves A_c x_c = M_c (b_c - (h1 S + h2 B) x_c) for a correction to the given x (zero_guess: 0). Where a mask is 0,
  // x keeps its value, which contributes to the other rows. rhs [components][entries] holds b and is overwritten.
  // CollectiveError, with the name of the system, for NaN or Inf, for an operator that is not positive definite, or for
  // a component that stalls. (collective)
  std::vector<ComponentResult> solve(T* rhs, T* x, bool zero_guess, const ComponentCgOptions& options,
                                     device::Stream& stream);

  std::int64_t memory_bytes() const;

 private:
  void sum_up(int count, double* sums, device::Stream& stream);  // [count][components], on this rank

  ComponentSystem<T> system_;
  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  std::int64_t blocks_;  // per component
  double h1_ = 0, h2_ = 0;
  device::Array<T> d_, p_, v_;
  device::Array<double> partials_, sums_;
  device::Buffer host_;
  // Passed to kernels by value: must match Scalars of kernels/component_cg.hpp.
  struct Scalars {
    std::array<double, max_components> alpha, beta;
  };
  device::Kernel<long, T, T, const T*, const T*, T*> diagonal_;
  device::Kernel<long, long, int, T, T, const T*, const T*, const T*, const T*, const T*, T*, T*, double*> start_;
  device::Kernel<long, long, int, T, T, const T*, const T*, const T*, const T*, const T*, T*, double*> products_;
  device::Kernel<long, long, int, Scalars, const T*, const T*, T*, T*, T*, double*> update_;
  device::Kernel<long, long, int, Scalars, const T*, T*> solution_;
  device::Kernel<long, const double*, double*> sum_;
};

}  // namespace weft::solver
