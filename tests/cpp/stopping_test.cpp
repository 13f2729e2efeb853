// The rule that ends iterative solves, on invented histories of residuals.
#include "weft/solver/stopping.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

namespace weft::solver {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// Passes norms to the rule until it ends the solve or there are none left.
SolveResult after(const SolveOptions& options, std::initializer_list<double> norms) {
  StoppingRule rule(options);
  for (const double norm : norms)
    if (rule.take(norm)) break;
  return rule.result();
}

template <class Error = mpi::CollectiveError>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
void expect_text(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(StoppingRule, EndsAtTheRelativeTolerance) {
  const SolveResult found = after({.tolerance = 1e-2}, {8, 4, 0.09, 0.08, 0.01});
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.iterations, 3);  // 0.08 = 1e-2 times 8
  EXPECT_EQ(found.residuals, (std::vector<double>{8, 4, 0.09, 0.08}));
}

TEST(StoppingRule, EndsWithoutAToleranceWhereSquaresOfNormsUnderflow) {
  const SolveResult found = after({.max_iterations = 100}, {1, 1e-100, 1e-153, 1e-154, 1e-155});
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.residuals, (std::vector<double>{1, 1e-100, 1e-153, 1e-154}));
}

TEST(StoppingRule, EndsAtTheAbsoluteToleranceOfTheScaledNorm) {
  const SolveResult found = after({.absolute = 1, .norm_scale = 0.5}, {8, 4, 2, 1});
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.residuals, (std::vector<double>{4, 2, 1}));
}

TEST(StoppingRule, EndsAtTheLooserOfTwoTolerances) {
  EXPECT_EQ(after({.tolerance = 0.5, .absolute = 0.1}, {1, 0.9, 0.5, 0.05}).iterations, 2);
  EXPECT_EQ(after({.tolerance = 0.1, .absolute = 0.5}, {1, 0.9, 0.5, 0.05}).iterations, 2);
}

TEST(StoppingRule, AZeroRightHandSideNeedsNoIteration) {
  for (const double tolerance : {0.0, 1e-6}) {
    const SolveResult found = after({.tolerance = tolerance}, {0});
    EXPECT_TRUE(found.converged);
    EXPECT_EQ(found.iterations, 0);
  }
  EXPECT_EQ(after({.absolute = 1e-3}, {1e-4}).iterations, 0);  // nor does a good first guess
}

TEST(StoppingRule, WithoutAToleranceAllIterationsAreDone) {
  const SolveResult found = after({.max_iterations = 3}, {1, 1e-9, 1e-30, 1e-40, 1e-50});
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.iterations, 3);
  EXPECT_EQ(after({.max_iterations = 3}, {1, 0, 1}).iterations, 1);  // unless nothing remains
  EXPECT_EQ(after({.max_iterations = 0}, {1, 1}).iterations, 0);
}

TEST(StoppingRule, RunningOutOfIterationsIsNoConvergence) {
  const SolveResult found = after({.max_iterations = 2, .tolerance = 1e-6}, {1, 0.5, 0.25, 0.1});
  EXPECT_FALSE(found.converged);
  EXPECT_EQ(found.iterations, 2);
}

TEST(StoppingRule, NumbersThatAreNotFiniteAreErrors) {
  for (const double bad : {nan, infinity}) {
    expect_text(message_of([&] { after({.name = "pressure"}, {bad}); }), "pressure: the right-hand side");
    expect_text(message_of([&] { after({.name = "pressure"}, {1, 0.5, bad}); }), "pressure: NaN or Inf in iteration 2");
    StoppingRule rule({.name = "pressure"});
    rule.take(1);
    expect_text(message_of([&] { rule.require_positive(bad); }), "pressure: NaN or Inf in iteration 1");
  }
}

TEST(StoppingRule, NegativeCurvatureIsAnError) {
  StoppingRule rule({.name = "velocity"});
  rule.take(1);
  rule.require_positive(1e-300);
  rule.take(0.5);
  expect_text(message_of([&] { rule.require_positive(-2); }),
              "velocity: p . A p = -2.000000 in iteration 2: the operator is not positive definite");
  expect_text(message_of([&] { rule.require_positive(0); }), "p . A p = 0.000000");
  expect_text(message_of([&] { rule.require_positive(-1, "r . M r", "use gmres"); }),
              "r . M r = -1.000000 in iteration 2: use gmres");
}

TEST(StoppingRule, ASolveThatMustConvergeStallsWithItsHistory) {
  const SolveOptions options{
      .name = "pressure", .max_iterations = 20, .absolute = 1e-9, .stall_window = 10, .advice = "Try gmres."};
  StoppingRule rising(options);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(rising.take(1.0 + i));
  const std::string text = message_of([&] { rising.take(0.95); });
  expect_text(text, "pressure: the solve stalls after 10 iterations: no reduction by a tenth in 10 iterations");
  expect_text(text, "The residual is 0.95, the tolerance 1e-09; residuals from the first on: [0] 1, [1] 2,");
  expect_text(text, "[10] 0.95. Try gmres.");

  StoppingRule slow(options);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(slow.take(std::pow(0.98, i)));
  expect_text(message_of([&] { slow.take(0.5); }), "the largest number of iterations is reached");
}

TEST(StoppingRule, ASolveThatMustConvergeMayDoSoInItsLastIteration) {
  const SolveResult found = after({.max_iterations = 1, .absolute = 1e-9, .stall_window = 1}, {1, 1e-9});
  EXPECT_TRUE(found.converged);
}

TEST(StoppingRule, ProgressHearsOfEveryIterationAndMayStopTheSolve) {
  std::vector<int> heard;
  after({.progress = [&](int iteration, double) { heard.push_back(iteration); }}, {1, 0.5, 0.25});
  EXPECT_EQ(heard, (std::vector<int>{1, 2}));
  EXPECT_EQ(message_of<std::runtime_error>(
                [] { after({.progress = [](int, double) { throw std::runtime_error("stop"); }}, {1, 0.5}); }),
            "stop");
}

TEST(StoppingRule, OptionsThatMakeNoSenseAreRefused) {
  for (const SolveOptions& bad : {SolveOptions{.max_iterations = -1}, SolveOptions{.tolerance = 1},
                                  SolveOptions{.tolerance = -1e-3}, SolveOptions{.tolerance = nan}})
    EXPECT_THROW(StoppingRule{bad}, std::invalid_argument);
}

}  // namespace
}  // namespace weft::solver
