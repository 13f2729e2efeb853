// Flexible CG or GMRES on a Poisson operator with a p-multigrid V-cycle as preconditioner. The cycle runs in the
// operator's precision or, if that is double, optionally in single precision.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/poisson/multigrid.hpp"
#include "weft/solver/krylov.hpp"

namespace weft::poisson {

enum class Method { cg, gmres };
inline std::string name(Method method) { return method == Method::cg ? "cg" : "gmres"; }

// Boundary conditions in addition to the operator's: rows and columns of points on some boundaries are removed from the
// system. `mask`, [entries] of the operator, is 0 at these points and 1 elsewhere; right-hand sides and guesses must be
// 0 there. The levels of the cycle leave these points out.
template <class T>
struct Masked {
  mesh::BoundarySet boundaries = {};
  const T* mask = nullptr;
};

template <class T>
class MultigridSolver {
 public:
  // op must outlive this object. Call set_coarse before the first solve. (collective)
  MultigridSolver(Operator<T>& op, const mesh::Mesh& mesh, const MultigridOptions& multigrid, bool single,
                  Method method, int restart, const Masked<T>& masked = {});

  bool algebraic() const;
  Triplets coarse_matrix();
  std::int64_t coarse_unknowns() const;  // on this rank
  bool singular() const;
  void set_coarse(solver::Amg hierarchy);
  // y = A x, 0 at masked points. (collective)
  void apply(T* x, T* y, device::Stream& stream);
  // If A is singular (no boundary condition, lambda = 0), the solution is the one with mean 0 over the unknowns. x is
  // complete once the stream is done.
  solver::SolveResult solve(const T* b, T* x, bool zero_guess, const solver::SolveOptions& options,
                            device::Stream& stream);

  Smoothing smoothing() const;  // the smoother chosen
  std::vector<double> largest_eigenvalues() const;
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const;
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  template <class F>
  auto with(F&& f) const {
    return single_ ? f(*single_) : f(*own_);
  }
  template <class S>
  void map_to(const Operator<T>& op, const Operator<S>& finest);

  Operator<T>& op_;
  const T* mask_;
  device::Kernel<long, const T*, const T*, T*> multiply_;
  std::unique_ptr<Multigrid<T>> own_;
  std::unique_ptr<Multigrid<float>> single_;
  device::Array<float> r_single_, z_single_;  // for single_
  device::Array<T> r_own_, z_own_;            // for own_, if it leaves points out
  device::Array<std::int32_t> map_;           // maps unknowns of the cycle to those of the operator
  std::unique_ptr<solver::Krylov<T>> krylov_;
};

}  // namespace weft::poisson
