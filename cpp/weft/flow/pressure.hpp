// The pressure's Poisson problem: S p = r with p = 0 on outflow; without an outflow, p is determined up to a constant.
//
// It is solved by a flexible Krylov method, preconditioned by a p-multigrid cycle (poisson/multigrid_solver.hpp), with
// an initial guess from earlier solutions (solver/projection.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/poisson/multigrid_solver.hpp"
#include "weft/solver/projection.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

struct PressureOptions {
  std::vector<int> orders = {};  // orders of the multigrid levels, decreasing to 1; empty: N, N / 2, …, 1
  int degree = 2;                // degree of the Chebyshev smoother (poisson/smoother.hpp; for `schwarz`: one step)
  bool single = true;            // run the cycle in single precision even if the flow is in double
  poisson::Method method = poisson::Method::cg;
  int restart = 30;     // for gmres
  int projection = 16;  // number of earlier solutions for the initial guess, 0..16; 0: the guess is the given x
  int max_iterations = 200;
};

struct PressureResult {
  int iterations = 0;
  double unprojected = 0;  // residual norms: of the right-hand side,
  double first = 0;        // after the first guess,
  double last = 0;         // after the last iteration
};

// T: float or double.
template <class T>
class Pressure {
 public:
  // outflow: names of the boundaries where p = 0. mask: [entries], 0 there and in the zero slot, else 1; null if
  // outflow is empty. scratch: [entries], used during a solve. These and S must outlive this object. Call set_coarse
  // before the first solve. (collective)
  Pressure(poisson::Operator<T>& stiffness, std::vector<std::string> outflow, const T* mask,
           const PressureOptions& options, T* scratch);
  Pressure(const Pressure&) = delete;
  Pressure& operator=(const Pressure&) = delete;

  // The coarse level, as in poisson::MultigridSolver: a Python library coarsens it (weft/multigrid.py).
  bool algebraic() const { return multigrid_.algebraic(); }
  poisson::Triplets coarse_matrix() { return multigrid_.coarse_matrix(); }
  std::int64_t coarse_unknowns() const { return multigrid_.coarse_unknowns(); }
  void set_coarse(solver::Amg hierarchy) { multigrid_.set_coarse(std::move(hierarchy)); }
  // Whether there is no outflow: p is then determined only up to a constant, and the mean of its unknowns is set to 0.
  bool singular() const { return multigrid_.singular(); }

  // x receives the solution in its owned entries, with 0 on outflow; it is the initial guess if there are no earlier
  // solutions. rhs is overwritten; its values on outflow are ignored. tolerance: absolute limit on sqrt(sum of r_i^2 /
  // volume) over the unknowns. CollectiveError, the same on all ranks, for NaN or Inf and for a solve that stalls.
  // (collective)
  PressureResult solve(T* rhs, T* x, double tolerance, device::Stream& stream);
  // Drops earlier solutions, so that a continued run and a restart from a checkpoint written now are bit-identical.
  void reset() { projection_.reset(); }

  std::vector<int> orders() const { return orders_; }
  poisson::Smoothing smoothing() const { return multigrid_.smoothing(); }  // the smoother chosen for the mesh
  std::vector<double> largest_eigenvalues() const { return multigrid_.largest_eigenvalues(); }
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const { return multigrid_.tunings(); }
  std::map<std::string, std::int64_t> memory_bytes() const;  // on this rank

 private:
  space::Space<T>& space_;
  const T* mask_;
  PressureOptions options_;
  std::vector<int> orders_;
  poisson::MultigridSolver<T> multigrid_;
  solver::Projection<T> projection_;
  device::Kernel<long, const T*, const T*, T*> multiply_;
};

}  // namespace weft::flow
