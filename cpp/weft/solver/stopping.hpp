// When an iterative solve ends: one rule for all Krylov methods.
//
// A solve ends when its residual reaches the tolerance, when its iterations are used up, or with an error: a number
// that is not finite, an operator that is not positive definite, or a residual that no longer falls. The norms and
// products passed to the rule are sums over all ranks, so all ranks end in the same iteration and with the same error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::solver {

struct SolveOptions {
  std::string name = "cg";  // the name of the solve in errors
  int max_iterations = 100;
  double tolerance = 0;   // for |r| / |r_0|; if this and `absolute` are 0: exactly max_iterations, as in the benchmark
  double absolute = 0;    // for |r|; the solve ends at whichever tolerance is reached first
  double norm_scale = 1;  // the factor from the Euclidean norm to |r|, in `absolute`, results and errors
  // If positive, the tolerance has to be reached: it is an error if the iterations are used up, or if the smallest |r|
  // so far does not fall by a tenth within this many iterations. If 0, such a solve returns converged = false.
  int stall_window = 0;
  std::string advice = "";  // what the user can do about it: the end of that error
  // Called with the iteration and |r| for every iteration (on a GPU for several iterations at once). May throw, on all
  // ranks, to stop the solve.
  std::function<void(int, double)> progress = nullptr;
};

struct SolveResult {
  std::vector<double> residuals;  // |r| before the first iteration and after each
  int iterations = 0;
  bool converged = false;  // tolerance reached; without a tolerance: all iterations done, or |r| = 0
  double seconds = 0;      // if measured (timed.hpp)
};

class StoppingRule {
 public:
  // std::invalid_argument, beginning with the solve's name, for options that make no sense.
  explicit StoppingRule(SolveOptions options);

  // Takes the Euclidean norm of the residual, before the first iteration and then after each; returns ended().
  // CollectiveError for a norm that is not finite, and for a solve that stalls.
  bool take(double norm);
  // Takes a product of the current iteration that is positive if A (or a preconditioner) is positive definite.
  // CollectiveError, which ends with `otherwise`, if it is not positive, NaN or Inf.
  void require_positive(double product, const char* what = "p . A p",
                        const char* otherwise = "the operator is not positive definite") const;

  bool ended() const { return reached() || iterations() >= options_.max_iterations; }
  int iterations() const { return static_cast<int>(norms_.size()) - 1; }
  double first() const { return norms_.front(); }
  double last() const { return norms_.back(); }
  // The value of |r| to be reached, known once the first norm is.
  double target() const;
  SolveResult result() const;

 private:
  bool reached() const;
  void require_progress();
  [[noreturn]] void give_up(const std::string& why) const;

  SolveOptions options_;
  std::vector<double> norms_;
  double best_ = 0;  // the smallest norm at its last fall by a tenth
  int best_at_ = 0;
};

}  // namespace weft::solver
