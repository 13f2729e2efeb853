// When an iterative solve has to give up, and what it says then.
#pragma once

#include <string>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::solver {

// Takes the residual norm of every iteration; norms are the same on all ranks, so the errors are too.
class StallGuard {
 public:
  // system: what the messages call it, "pressure". tolerance: of the norms taken. window: iterations in which the
  // smallest norm so far must fall by a tenth.
  StallGuard(std::string system, std::string advice, double tolerance, int max_iterations, int window);

  // The norm before the first iteration, then after each. CollectiveError for one that is not finite, for the last
  // allowed iteration and for a window without progress, unless it is within the tolerance.
  void take(double norm);
  bool reached() const { return norms_.back() <= tolerance_; }
  int iterations() const { return static_cast<int>(norms_.size()) - 1; }
  double first() const { return norms_.front(); }
  double last() const { return norms_.back(); }

 private:
  [[noreturn]] void give_up(const std::string& why) const;

  std::string system_, advice_;
  double tolerance_;
  int max_iterations_, window_;
  std::vector<double> norms_;
  double best_ = 0;  // the smallest norm when it last fell by a tenth
  int best_at_ = 0;
};

}  // namespace weft::solver
