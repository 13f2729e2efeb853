// When an iterative solve ends: the one rule of all Krylov methods.
//
// A solve ends when its residual reaches the tolerance, when its iterations are used up, or with an error: a number
// that is not finite, an operator that is not positive definite, a residual that no longer falls. The norms and
// products that the rule sees are sums over all ranks, so that all ranks end in the same iteration and with the same
// error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::solver {

struct SolveOptions {
  std::string name = "cg";  // what errors call the solve
  int max_iterations = 100;
  double tolerance = 0;   // of |r| / |r_0|; 0, and absolute too: exactly max_iterations, as the benchmark does
  double absolute = 0;    // of |r|; whichever tolerance is reached first
  double norm_scale = 1;  // |r| is the Euclidean norm times this: in `absolute`, results and errors
  // Above 0, the tolerance has to be reached: it is an error if the iterations are used up, or if the smallest |r| so
  // far does not fall by a tenth within this many iterations. 0: such a solve returns converged = false.
  int stall_window = 0;
  std::string advice = "";  // what to do about it, the end of that error
  // Called with the iteration and |r| for every iteration (on a GPU for several at a time); may throw to stop, on all
  // ranks alike.
  std::function<void(int, double)> progress = nullptr;
};

struct SolveResult {
  std::vector<double> residuals;  // |r| before the first iteration and after each
  int iterations = 0;
  bool converged = false;  // tolerance reached; without one: all iterations done
  double seconds = 0;      // if it was timed (timed.hpp)
};

class StoppingRule {
 public:
  // std::invalid_argument, which begins with the solve's name, for options that make no sense.
  explicit StoppingRule(SolveOptions options);

  // The Euclidean norm of the residual before the first iteration, then after each; returns ended(). CollectiveError
  // for a norm that is not finite and for a solve that stalls.
  bool take(double norm);
  // A product of the iteration under way that is positive if A (or a preconditioner) is positive definite.
  // CollectiveError, which ends with `otherwise`, if it is not; also if it is NaN or Inf.
  void require_positive(double product, const char* what = "p . A p",
                        const char* otherwise = "the operator is not positive definite") const;

  bool ended() const { return reached() || iterations() >= options_.max_iterations; }
  int iterations() const { return static_cast<int>(norms_.size()) - 1; }
  double first() const { return norms_.front(); }
  double last() const { return norms_.back(); }
  // The |r| that has to be reached, known from the first norm on.
  double target() const;
  SolveResult result() const;

 private:
  bool reached() const;
  void require_progress();
  [[noreturn]] void give_up(const std::string& why) const;

  SolveOptions options_;
  std::vector<double> norms_;
  double best_ = 0;  // the smallest norm when it last fell by a tenth
  int best_at_ = 0;
};

}  // namespace weft::solver
