#include <gtest/gtest.h>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "simd_checks.hpp"
#include "weft/poisson/merged_cg.hpp"

using namespace weft;
using namespace weft::poisson;

namespace {

constexpr double lambda = 0.1;

mesh::Mesh box(std::array<std::int64_t, 3> counts, const char* deformation) {
  mesh::BoxOptions options;
  options.counts = counts;
  options.deformation = deformation;
  return mesh::make_box(options, mpi::Comm());
}

// Everything a solve needs, kept alive together.
template <class T>
struct Solver {
  const SimdProblem<T>& problem;
  std::unique_ptr<space::Space<T>> space;
  device::Stream stream;
  SimdOperator<T> op;
  std::vector<T> diagonal;
  std::unique_ptr<MergedCg<T>> cg;

  Solver(const SimdProblem<T>& p, Geometry geometry, bool preconditioned = false)
      : problem(p), space(p.make_space()), stream(space->device()), op(*space, geometry, lambda) {
    if (preconditioned)
      for (std::int64_t i = 0; i < p.owned; ++i) diagonal.push_back(static_cast<T>(weight(p.dof_ids[i])));
    cg = std::make_unique<MergedCg<T>>(op, preconditioned ? diagonal.data() : nullptr);
  }
  // For the preconditioner: any positive numbers show whether it is applied where it should be.
  static double weight(std::int64_t id) { return 1.5 + value_of(3 * id); }

  std::vector<T> local(const std::vector<double>& by_id) const {
    std::vector<T> values(problem.local + 1, 0);
    for (std::int64_t i = 0; i < problem.local; ++i) values[i] = static_cast<T>(by_id[problem.dof_ids[i]]);
    return values;
  }
  std::vector<double> by_id(const std::vector<T>& values) const {
    std::vector<double> all(problem.ids_end(), 0);
    for (std::int64_t i = 0; i < problem.owned; ++i) all[problem.dof_ids[i]] = values[i];
    return summed(all, problem.mesh.comm);
  }
};

struct History {
  std::vector<double> residuals, x;
};

// Preconditioned CG as in a textbook, on dense vectors.
template <class T>
History plain_cg(const SimdProblem<T>& problem, const std::vector<double>& b, std::vector<double> x, int iterations,
                 bool preconditioned) {
  const auto dot = [](const auto& u, const auto& v) {
    double sum = 0;
    for (std::size_t i = 1; i < u.size(); ++i) sum += u[i] * v[i];
    return sum;
  };
  std::vector<double> d(x.size(), 1), r = b, z(x.size()), p(x.size(), 0);
  if (preconditioned)
    for (std::size_t i = 1; i < d.size(); ++i) d[i] = Solver<T>::weight(static_cast<std::int64_t>(i));
  const std::vector<double> ax = problem.reference(x, lambda);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] -= ax[i];
  History history;
  double rz = 0;
  for (int j = 0;; ++j) {
    history.residuals.push_back(std::sqrt(dot(r, r)));
    if (j == iterations) break;
    for (std::size_t i = 0; i < r.size(); ++i) z[i] = d[i] * r[i];
    const double next = dot(r, z);
    for (std::size_t i = 0; i < r.size(); ++i) p[i] = z[i] + (j == 0 ? 0 : next / rz) * p[i];
    rz = next;
    const std::vector<double> ap = problem.reference(p, lambda);
    const double alpha = rz / dot(p, ap);
    for (std::size_t i = 0; i < r.size(); ++i) {
      x[i] += alpha * p[i];
      r[i] -= alpha * ap[i];
    }
  }
  history.x = x;
  return history;
}

// A right-hand side for the free points.
template <class T>
std::vector<double> rhs(const SimdProblem<T>& problem) {
  std::vector<double> free(problem.ids_end(), 0);
  for (const std::int64_t id : problem.dof_ids) free[id] = 1;
  free = summed(free, problem.mesh.comm);
  for (std::size_t id = 1; id < free.size(); ++id)
    free[id] = free[id] > 0 ? value_of(static_cast<std::int64_t>(id)) : 0;
  free[0] = 0;
  return free;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

// Solves with both methods, and compares residuals one by one, and the solutions.
template <class T>
void compare(const mesh::Mesh& mesh, int order, bool dirichlet, Geometry geometry, int iterations, bool preconditioned,
             bool zero_guess, double tolerance, int threads = 1) {
  const SimdProblem<T> problem(mesh, order, dirichlet, threads);
  Solver<T> solver(problem, geometry, preconditioned);
  const std::vector<double> b = rhs(problem);
  std::vector<double> guess(b.size(), 0);
  if (!zero_guess)
    for (std::size_t i = 0; i < b.size(); ++i) guess[i] = b[b.size() - 1 - i] * (b[i] != 0);
  std::vector<T> x = zero_guess ? std::vector<T>(problem.local + 1, T(7)) : solver.local(guess);
  solver::SolveOptions options;
  options.max_iterations = iterations;
  const solver::SolveResult result =
      solver.cg->solve(solver.local(b).data(), x.data(), zero_guess, options, solver.stream);
  const History plain = plain_cg(problem, b, guess, iterations, preconditioned);
  ASSERT_EQ(result.residuals.size(), plain.residuals.size());
  EXPECT_EQ(result.iterations, iterations);
  EXPECT_TRUE(result.converged);
  for (std::size_t j = 0; j < plain.residuals.size(); ++j)
    ASSERT_NEAR(result.residuals[j] / plain.residuals[j], 1, tolerance) << "residual " << j;
  EXPECT_LT(difference(solver.by_id(x), plain.x), tolerance) << iterations << " iterations";
}

}  // namespace

TEST(MergedCg, ResidualsAreThoseOfPlainCg) {
  compare<double>(box({3, 3, 3}, "kershaw"), 4, true, Geometry::trilinear, 20, false, true, 1e-9);
  compare<double>(box({4, 3, 2}, "smooth"), 3, false, Geometry::stored, 25, false, true, 1e-9);
  compare<float>(box({3, 3, 3}, "smooth"), 3, true, Geometry::stored, 8, false, true, 1e-3);
}
TEST(MergedCg, TheSolutionIsCompleteAfterEvenOddAndNoIterations) {
  for (const int iterations : {1, 2, 3, 4})
    compare<double>(box({3, 2, 2}, "none"), 3, false, Geometry::trilinear, iterations, false, true, 1e-11);
}
TEST(MergedCg, APreconditionerIsAppliedLikeInPlainCg) {
  compare<double>(box({3, 3, 2}, "none"), 4, true, Geometry::trilinear, 21, true, true, 1e-9);
  compare<double>(box({3, 3, 2}, "none"), 4, false, Geometry::stored, 20, true, false, 1e-9);
}
TEST(MergedCg, AFirstGuessIsUsed) {
  compare<double>(box({3, 3, 2}, "kershaw"), 3, true, Geometry::stored, 10, false, false, 1e-9);
}
TEST(MergedCg, ThreadsChangeNothingButRounding) {
  for (const int threads : {2, 3})
    compare<double>(box({5, 4, 4}, "kershaw"), 2, true, Geometry::trilinear, 15, true, true, 1e-9, threads);
}

TEST(MergedCg, RerunsAreBitEqual) {
  for (const int threads : {1, 2}) {
    const SimdProblem<double> problem(box({4, 4, 4}, "kershaw"), 3, true, threads);
    Solver<double> solver(problem, Geometry::trilinear);
    const std::vector<double> b = solver.local(rhs(problem));
    std::vector<double> x(b.size()), again(b.size());
    solver::SolveOptions options;
    options.max_iterations = 30;
    const auto first = solver.cg->solve(b.data(), x.data(), true, options, solver.stream);
    const auto second = solver.cg->solve(b.data(), again.data(), true, options, solver.stream);
    EXPECT_EQ(first.residuals, second.residuals) << threads << " threads";
    x.resize(problem.owned);
    again.resize(problem.owned);
    EXPECT_EQ(x, again) << threads << " threads";
  }
}

TEST(MergedCg, ATolerancePassedEndsTheSolveWithASolutionThatSolves) {
  const SimdProblem<double> problem(box({4, 4, 4}, "none"), 4, true);
  for (const bool preconditioned : {false, true}) {
    for (const double tolerance : {1e-2, 1e-5, 1e-10}) {
      Solver<double> solver(problem, Geometry::stored, preconditioned);
      const std::vector<double> b = rhs(problem);
      std::vector<double> x(problem.local + 1);
      solver::SolveOptions options;
      options.max_iterations = 1000;
      options.tolerance = tolerance;
      int calls = 0;
      options.progress = [&](int iteration, double) { EXPECT_EQ(iteration, ++calls); };
      const auto result = solver.cg->solve(solver.local(b).data(), x.data(), true, options, solver.stream);
      EXPECT_TRUE(result.converged);
      EXPECT_EQ(calls, result.iterations);
      EXPECT_EQ(result.residuals.size(), result.iterations + 1u);
      EXPECT_LE(result.residuals.back(), tolerance * result.residuals.front());
      EXPECT_GT(result.residuals[result.iterations - 1], tolerance * result.residuals.front());
      std::vector<double> ax = problem.reference(solver.by_id(x), lambda);
      double true_residual = 0;
      for (std::size_t i = 1; i < ax.size(); ++i) true_residual += (b[i] - ax[i]) * (b[i] - ax[i]) * (b[i] != 0);
      EXPECT_NEAR(std::sqrt(true_residual), result.residuals.back(), 1e-10 * result.residuals.front());
    }
  }
}

TEST(MergedCg, ConvergenceInOneStepSurvivesTheCancellation) {
  // With lambda x alone (a constant has S x = 0) a single step solves the system, so the recurrence for the next
  // residual consists of rounding only.
  const SimdProblem<double> problem(box({3, 3, 2}, "none"), 3, false);
  Solver<double> solver(problem, Geometry::trilinear);
  std::vector<double> b(problem.local + 1, 1.0), x(b.size());
  solver::SolveOptions options;
  options.max_iterations = 50;
  options.tolerance = 1e-9;
  const auto result = solver.cg->solve(b.data(), x.data(), true, options, solver.stream);
  EXPECT_TRUE(result.converged);
  EXPECT_LE(result.iterations, 2);
  for (std::int64_t i = 0; i < problem.owned; ++i) ASSERT_NEAR(x[i], 1 / lambda, 1e-8);
}

TEST(MergedCg, ZeroRightHandSideIsSolvedAtOnceAndNanIsRefused) {
  const SimdProblem<double> problem(box({2, 2, 2}, "none"), 2, false);
  Solver<double> solver(problem, Geometry::trilinear);
  std::vector<double> b(problem.local + 1, 0), x(b.size(), 3);
  const auto result = solver.cg->solve(b.data(), x.data(), true, {}, solver.stream);
  EXPECT_TRUE(result.converged);
  EXPECT_EQ(result.residuals, std::vector<double>{0});
  for (const double value : x) EXPECT_EQ(value, 0);
  if (problem.mesh.comm.rank() == 0 && problem.owned > 0) b[0] = NAN;
  EXPECT_THROW(solver.cg->solve(b.data(), x.data(), true, {}, solver.stream), mpi::CollectiveError);
}
