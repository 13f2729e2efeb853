#include "weft/solver/stall.hpp"

#include <cmath>
#include <sstream>
#include <utility>

namespace weft::solver {

StallGuard::StallGuard(std::string system, std::string advice, double tolerance, int max_iterations, int window)
    : system_(std::move(system)),
      advice_(std::move(advice)),
      tolerance_(tolerance),
      max_iterations_(max_iterations),
      window_(window) {}

void StallGuard::take(double norm) {
  norms_.push_back(norm);
  if (!std::isfinite(norm))
    throw mpi::CollectiveError(
        system_ + (iterations() == 0 ? ": the right-hand side or the first guess holds NaN or Inf"
                                     : ": NaN or Inf in iteration " + std::to_string(iterations()) + " of its solve"));
  if (iterations() == 0 || norm <= 0.9 * best_) {
    best_ = norm;
    best_at_ = iterations();
  }
  if (reached()) return;
  if (iterations() >= max_iterations_) give_up("the largest number of iterations is reached");
  if (iterations() - best_at_ >= window_)
    give_up("no reduction by a tenth in " + std::to_string(window_) + " iterations");
}

void StallGuard::give_up(const std::string& why) const {
  std::ostringstream text;
  text.precision(3);
  text << system_ << ": the solve stalls after " << iterations() << " iterations: " << why << ". The residual is "
       << last() << ", the tolerance " << tolerance_ << "; residuals from the first on:";
  constexpr int most = 12;  // evenly, with the ends
  const int count = iterations();
  for (int i = 0, previous = -1; i < most; ++i) {
    const int at = count < most ? i : static_cast<int>(std::lround(static_cast<double>(i) * count / (most - 1)));
    if (at == previous || at > count) continue;
    text << (previous < 0 ? " " : ", ") << '[' << at << "] " << norms_[at];
    previous = at;
  }
  text << ". " << advice_;
  throw mpi::CollectiveError(text.str());
}

}  // namespace weft::solver
