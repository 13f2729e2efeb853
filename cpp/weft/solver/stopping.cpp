#include "weft/solver/stopping.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace weft::solver {

StoppingRule::StoppingRule(SolveOptions options) : options_(std::move(options)) {
  if (options_.max_iterations < 0)
    throw std::invalid_argument(options_.name + ": the number of iterations is negative");
  if (!(options_.tolerance >= 0 && options_.tolerance < 1))
    throw std::invalid_argument(options_.name +
                                ": the tolerance is relative to the first residual: at least 0, below 1, not " +
                                std::to_string(options_.tolerance));
}

bool StoppingRule::take(double norm) {
  norms_.push_back(options_.norm_scale * norm);
  if (!std::isfinite(last()))
    throw mpi::CollectiveError(options_.name +
                               (iterations() == 0
                                    ? ": the right-hand side (or the operator, or the first guess) holds NaN or Inf"
                                    : ": NaN or Inf in iteration " + std::to_string(iterations()) +
                                          ": the operator, the preconditioner or the vectors hold it"));
  if (options_.progress && iterations() > 0) options_.progress(iterations(), last());
  if (options_.stall_window > 0) require_progress();
  return ended();
}

void StoppingRule::require_positive(double product, const char* what, const char* otherwise) const {
  if (product > 0 && std::isfinite(product)) return;
  const std::string where = " in iteration " + std::to_string(iterations() + 1);
  if (!std::isfinite(product))
    throw mpi::CollectiveError(options_.name + ": NaN or Inf" + where +
                               ": the operator, the preconditioner or the vectors hold it");
  throw mpi::CollectiveError(options_.name + ": " + what + " = " + std::to_string(product) + where + ": " + otherwise);
}

SolveResult StoppingRule::result() const {
  const bool all_done = options_.tolerance == 0 && options_.absolute == 0 && iterations() >= options_.max_iterations;
  return {.residuals = norms_, .iterations = iterations(), .converged = reached() || all_done};
}

double StoppingRule::target() const { return std::max(options_.tolerance * first(), options_.absolute); }

// Squares of norms below `zero` are no normal numbers: the steps made of them would be 0 / 0.
bool StoppingRule::reached() const {
  static const double zero = std::sqrt(std::numeric_limits<double>::min());
  return last() <= std::max(target(), zero);
}

void StoppingRule::require_progress() {
  if (iterations() == 0 || last() <= 0.9 * best_) {
    best_ = last();
    best_at_ = iterations();
  }
  if (reached()) return;
  if (iterations() >= options_.max_iterations) give_up("the largest number of iterations is reached");
  if (iterations() - best_at_ >= options_.stall_window)
    give_up("no reduction by a tenth in " + std::to_string(options_.stall_window) + " iterations");
}

void StoppingRule::give_up(const std::string& why) const {
  std::ostringstream text;
  text.precision(3);
  text << options_.name << ": the solve stalls after " << iterations() << " iterations: " << why << ". The residual is "
       << last() << ", the tolerance " << target() << "; residuals from the first on:";
  constexpr int most = 12;  // evenly spaced, including both ends
  const int count = iterations();
  for (int i = 0, previous = -1; i < most; ++i) {
    const int at = count < most ? i : static_cast<int>(std::lround(static_cast<double>(i) * count / (most - 1)));
    if (at == previous || at > count) continue;
    text << (previous < 0 ? " " : ", ") << '[' << at << "] " << norms_[at];
    previous = at;
  }
  text << ". " << options_.advice;
  throw mpi::CollectiveError(text.str());
}

}  // namespace weft::solver
