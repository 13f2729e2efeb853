// Flexible CG or GMRES on a Poisson operator with a p-multigrid V-cycle as preconditioner, in its own precision or, in
// double, with the whole cycle in single.
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

template <class T>
class MultigridSolver {
 public:
  // op is used by all that follows. A solve needs set_coarse first. (collective)
  MultigridSolver(Operator<T>& op, const mesh::Mesh& mesh, const MultigridOptions& multigrid, bool single,
                  Method method, int restart);

  Triplets coarse_matrix();
  std::int64_t coarse_unknowns() const;  // of this rank
  bool singular() const;
  void set_coarse(solver::Amg hierarchy);
  // Where A is singular (no boundary condition, lambda = 0) the solution is the one whose unknowns have mean 0.
  solver::CgResult solve(const T* b, T* x, bool zero_guess, const solver::CgOptions& options, device::Stream& stream);

  std::vector<double> largest_eigenvalues() const;
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const;
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  template <class F>
  auto with(F&& f) const {
    return single_ ? f(*single_) : f(*own_);
  }

  std::unique_ptr<Multigrid<T>> own_;
  std::unique_ptr<Multigrid<float>> single_;
  device::Array<float> r_, z_;       // of single_
  device::Array<std::int32_t> map_;  // its unknowns to those of the fine operator
  std::unique_ptr<solver::Krylov<T>> krylov_;
};

}  // namespace weft::poisson
