// The operator and conjugate gradients on any number of ranks.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "fiber_device.hpp"
#include "noise.hpp"
#include "shape_meshes.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/poisson/any_operator.hpp"
#include "weft/solver/cg.hpp"

using namespace weft;
using poisson::Geometry;
using poisson::Storage;
using poisson::Threads;

namespace {

constexpr double lambda = 0.3;

mesh::Mesh box(const mpi::Comm& comm, const std::string& deformation = "kershaw") {
  mesh::BoxOptions options{.counts = {4, 3, 3}, .deformation = deformation};
  if (deformation != "kershaw") options.periodic = {true, false, false};
  return mesh::make_box(options, comm);
}

poisson::Options options_for(int order, Storage storage = Storage::assembled, Geometry geometry = Geometry::stored,
                             Threads threads = Threads::automatic, bool dirichlet = false,
                             exchange::Path path = exchange::Path::direct) {
  poisson::Options options;
  options.order = order;
  options.lambda = lambda;
  options.storage = storage;
  options.geometry = geometry;
  options.threads = threads;
  if (dirichlet) options.dirichlet = mesh::BoundarySet::all();
  options.exchange = {exchange::Schedule::pairwise, path};
  options.device = device::open("host");
  return options;
}

// A value for every global id, the same on any number of ranks.
template <class T>
device::Array<T> vector_of(const poisson::AnyOperator<T>& op, const std::vector<double>& values) {
  std::vector<T> all(values.begin(), values.end());
  all.resize(op.entries());
  return {op.options().device, all};
}
template <class T>
std::vector<double> noise_vector(const poisson::AnyOperator<T>& op, int seed) {
  std::vector<double> values;
  for (const std::int64_t id : op.unknown_ids()) values.push_back(id > 0 ? noise(id, seed) : 0);
  return values;
}
template <class T>
std::vector<double> applied(poisson::AnyOperator<T>& op, const std::vector<double>& x) {
  device::Array<T> in = vector_of(op, x), out = vector_of(op, std::vector<double>(x.size(), 1e30));
  device::Stream stream(op.options().device);
  op.apply(in.data(), out.data(), stream);
  stream.synchronize();
  const std::vector<T> y = out.download();
  return {y.begin(), y.begin() + op.unknowns()};
}
template <class T>
double dot(const poisson::AnyOperator<T>& op, const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (op.weights() ? op.weights()[i] : T(1)) * x[i] * y[i];
  op.comm().sum(&sum, 1);
  return sum;
}

// |r| in every iteration of CG, for a right-hand side that depends only on the ids.
template <class T>
std::vector<double> history(const mesh::Mesh& mesh, const poisson::Options& options, bool jacobi = false,
                            std::vector<double>* solution = nullptr, int iterations = 25, bool fused = false) {
  const auto made = poisson::make_operator<T>(mesh, options);
  auto& op = *made;
  device::Array<T> diagonal;
  if (jacobi) diagonal = op.inverse_diagonal();
  solver::System<T> system{.apply = [&](T* x, T* y, device::Stream& stream) { op.apply(x, y, stream); },
                           .entries = op.entries(),
                           .unknowns = op.unknowns(),
                           .weights = op.weights(),
                           .inverse_diagonal = diagonal.data()};
  if (fused) {
    system.apply_product = [&](T* x, T* y, double* product, const std::function<void()>& fill, device::Stream& stream) {
      op.apply(x, y, product, stream, fill);
    };
    system.product_partials = op.product_partials();
  }
  solver::ConjugateGradients<T> cg(system, options.device, op.comm());
  device::Stream stream(options.device);
  const device::Array<T> b = vector_of(op, noise_vector(op, 5));
  device::Array<T> x = vector_of(op, {});
  const auto result = cg.solve(b.data(), x.data(), true, {.max_iterations = iterations}, stream);
  EXPECT_EQ(result.iterations, iterations);
  if (solution != nullptr) {
    const std::vector<T> values = x.download();
    solution->assign(values.begin(), values.begin() + op.unknowns());
  }
  return result.residuals;
}

void expect_same(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i] / b[i], 1, tolerance) << "iteration " << i;
}

TEST(PoissonOperator, MatchesOneRank) {
  const mpi::Comm world;
  for (const bool dirichlet : {false, true}) {
    for (const char* deformation : {"none", "kershaw", "smooth"}) {
      SCOPED_TRACE(std::string(deformation) + (dirichlet ? ", dirichlet" : ", natural"));
      const auto options = options_for(4, Storage::assembled, Geometry::stored, Threads::automatic, dirichlet);
      const auto one = poisson::make_operator<double>(box(mpi::Comm::self(), deformation), options),
                 many = poisson::make_operator<double>(box(world, deformation), options);
      auto &alone = *one, &op = *many;
      EXPECT_EQ(op.space().dofs(), alone.space().dofs());
      std::map<std::int64_t, double> expected;
      const auto y_alone = applied(alone, noise_vector(alone, 3));
      const auto ids_alone = alone.unknown_ids();
      for (std::size_t i = 0; i < y_alone.size(); ++i) expected[ids_alone[i]] = y_alone[i];
      const auto y = applied(op, noise_vector(op, 3));
      const auto ids = op.unknown_ids();
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected.at(ids[i]), 1e-11) << ids[i];
    }
  }
}

TEST(PoissonOperator, IsSymmetricAndPositiveInEveryVariant) {
  const mesh::Mesh mesh = box(mpi::Comm());
  for (const Storage storage : {Storage::assembled, Storage::scattered})
    for (const Geometry geometry : {Geometry::stored, Geometry::trilinear})
      for (const bool dirichlet : {false, true}) {
        SCOPED_TRACE(poisson::name(storage) + ", " + poisson::name(geometry) + (dirichlet ? ", dirichlet" : ""));
        const auto made =
            poisson::make_operator<double>(mesh, options_for(3, storage, geometry, Threads::automatic, dirichlet));
        auto& op = *made;
        const auto x = noise_vector(op, 1), y = noise_vector(op, 2);
        const auto ax = applied(op, x), ay = applied(op, y);
        const double scale = std::sqrt(dot(op, ax, ax) * dot(op, y, y));
        EXPECT_NEAR(dot(op, ax, y), dot(op, x, ay), 1e-14 * scale);
        EXPECT_GT(dot(op, x, ax), 0);
        EXPECT_GT(dot(op, y, ay), 0);
      }
}

TEST(PoissonOperator, StoresTheMetricOfCurvedElementsAlone) {
  for (const Storage storage : {Storage::assembled, Storage::scattered})
    for (const Threads threads : {Threads::points, Threads::columns}) {
      SCOPED_TRACE(poisson::name(storage) + ", " + poisson::name(threads));
      const mesh::Mesh mesh = test::half_curved();
      const auto made = poisson::make_operator<double>(mesh, options_for(4, storage, Geometry::mixed, threads)),
                 stored = poisson::make_operator<double>(mesh, options_for(4, storage, Geometry::stored, threads));
      const auto x = noise_vector(*made, 1);
      const auto y = applied(*made, x), expected = applied(*stored, x);
      double largest = 0;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-13 * largest);
      std::array<std::int64_t, 4> counts = made->elements_by_shape();
      made->comm().sum(counts.data(), 4);
      EXPECT_EQ(counts, (std::array<std::int64_t, 4>{threads == Threads::points ? 0 : 16,
                                                     threads == Threads::points ? 16 : 0, 0, 16}));
      const auto constant = made->stiffness_of_points(std::vector<double>(made->space().points(), 1.0));
      for (const double value : constant) ASSERT_NEAR(value, 0, 1e-12);
    }
}

TEST(PoissonOperator, TakesAConstantToLambdaTimesIt) {
  for (const Storage storage : {Storage::assembled, Storage::scattered})
    for (const Geometry geometry : {Geometry::stored, Geometry::trilinear}) {
      const auto made = poisson::make_operator<double>(box(mpi::Comm()), options_for(5, storage, geometry));
      auto& op = *made;
      for (const double value : applied(op, std::vector<double>(op.unknowns(), 2.0)))
        ASSERT_NEAR(value, 2 * lambda, 1e-11);
    }
}

TEST(PoissonOperator, MasksTheBoundaryOnEveryRankThatTouchesIt) {
  const mpi::Comm world;
  const int order = 3;
  const auto made = poisson::make_operator<double>(
      mesh::make_box({.counts = {4, 3, 3}}, world),
      options_for(order, Storage::assembled, Geometry::stored, Threads::automatic, true));
  const auto& op = *made;
  EXPECT_EQ(op.space().dofs(), (4 * order - 1) * (3 * order - 1) * (3 * order - 1));
  for (const double x : op.coordinates()) EXPECT_TRUE(x > 1e-6 && x < 1 - 1e-6) << x;
}

TEST(PoissonOperator, DiagonalIsThatOfTheOperator) {
  for (const Storage storage : {Storage::assembled, Storage::scattered}) {
    const auto made = poisson::make_operator<double>(box(mpi::Comm(), "smooth"), options_for(3, storage));
    auto& op = *made;
    const auto inverse = op.inverse_diagonal().download();
    const auto ids = op.unknown_ids();
    for (std::int64_t id = 1; id <= op.space().dofs(); id += 97) {
      std::vector<double> unit(ids.size());
      for (std::size_t i = 0; i < ids.size(); ++i) unit[i] = ids[i] == id ? 1 : 0;
      const auto column = applied(op, unit);
      for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_NEAR(ids[i] == id ? column[i] * inverse[i] : 1, 1, 1e-12);
    }
  }
}

TEST(PoissonCg, ResidualHistoryIsTheSameInEveryVariantAndOnAnyRanks) {
  const mesh::Mesh alone = box(mpi::Comm::self()), mesh = box(mpi::Comm());
  for (const int order : {4}) {
    const auto expected = history<double>(alone, options_for(order));
    EXPECT_LT(expected.back(), expected.front());
    for (const Storage storage : {Storage::assembled, Storage::scattered})
      for (const Geometry geometry : {Geometry::stored, Geometry::trilinear})
        for (const Threads threads : {Threads::points, Threads::columns})
          for (const exchange::Path path : {exchange::Path::direct, exchange::Path::staged}) {
            SCOPED_TRACE(poisson::name(storage) + ", " + poisson::name(geometry) + ", " + poisson::name(threads));
            expect_same(history<double>(mesh, options_for(order, storage, geometry, threads, false, path)), expected,
                        1e-10);
          }
  }
}

TEST(PoissonCg, ProductsSummedInTheGatherAreThoseOfTheVectors) {
  const mesh::Mesh mesh = box(mpi::Comm());
  for (const Geometry geometry : {Geometry::stored, Geometry::trilinear}) {
    const auto options = options_for(4, Storage::assembled, geometry);
    const auto fused = history<double>(mesh, options, false, nullptr, 25, true);
    expect_same(fused, history<double>(mesh, options), 1e-10);
    EXPECT_EQ(fused, history<double>(mesh, options, false, nullptr, 25, true));
  }
}

TEST(PoissonCg, SinglePrecisionFollowsDouble) {
  const mesh::Mesh mesh = box(mpi::Comm());
  expect_same(history<float>(mesh, options_for(3)), history<double>(mesh, options_for(3)), 2e-3);
}

TEST(PoissonCg, JacobiNeedsTheSameStepsOnAnyRanksAndStorage) {
  const auto expected = history<double>(box(mpi::Comm::self()), options_for(4), true);
  const auto plain = history<double>(box(mpi::Comm::self()), options_for(4), false);
  EXPECT_LT(expected.back(), 0.5 * plain.back());
  for (const Storage storage : {Storage::assembled, Storage::scattered})
    expect_same(history<double>(box(mpi::Comm()), options_for(4, storage), true), expected, 1e-9);
}

// With one all-reduce per iteration, alpha and beta come from sums over vectors of the iteration before.
TEST(PoissonCg, TheResidualIsThatOfTheSolutionAndItsToleranceNeedsTheSameStepsOnAnyRanks) {
  for (const Storage storage : {Storage::assembled, Storage::scattered}) {
    for (const bool jacobi : {false, true}) {
      const auto solve = [&](const mesh::Mesh& mesh) {
        const auto op = poisson::make_operator<double>(mesh, options_for(4, storage));
        const device::Array<double> inverse = jacobi ? op->inverse_diagonal() : device::Array<double>();
        solver::System<double> system = op->system();
        system.inverse_diagonal = inverse.data();
        solver::ConjugateGradients<double> cg(system, op->options().device, op->comm());
        device::Stream stream(op->options().device);
        const std::vector<double> rhs = noise_vector(*op, 5);
        const device::Array<double> b = vector_of(*op, rhs);
        device::Array<double> x = vector_of(*op, {});
        auto result = cg.solve(b.data(), x.data(), true, {.max_iterations = 400, .tolerance = 1e-10}, stream);
        std::vector<double> rest = x.download();
        rest.resize(op->unknowns());
        rest = applied(*op, rest);
        for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = rhs[i] - rest[i];
        EXPECT_NEAR(std::sqrt(dot(*op, rest, rest)), result.residuals.back(), 1e-13 * result.residuals.front());
        EXPECT_TRUE(result.converged);
        return result.iterations;
      };
      EXPECT_NEAR(solve(box(mpi::Comm())), solve(box(mpi::Comm::self())), 1);
    }
  }
}

// CG on several ranks has an exchange in flight where a solve ends.
TEST(PoissonCg, ASolveThatEndsEarlyOrWithAnErrorLeavesTheExchangeToTheNextOne) {
  for (const int elements : {1, 4}) {  // per rank
    const mesh::Mesh mesh = mesh::make_box({.counts = {elements * mpi::Comm().size(), 1, 1}}, mpi::Comm());
    const auto op = poisson::make_operator<double>(mesh, options_for(4));
    solver::ConjugateGradients<double> cg(op->system(), op->options().device, op->comm());
    device::Stream stream(op->options().device);
    std::vector<double> rhs = noise_vector(*op, 5);
    const device::Array<double> b = vector_of(*op, rhs);
    if (op->comm().rank() == 0 && !rhs.empty()) rhs[0] = std::numeric_limits<double>::quiet_NaN();
    const device::Array<double> wrong = vector_of(*op, rhs);
    device::Array<double> x = vector_of(*op, {});
    const auto residuals = [&] {
      return cg.solve(b.data(), x.data(), true, {.max_iterations = 200, .tolerance = 1e-6}, stream).residuals;
    };
    const auto expected = residuals();
    EXPECT_LE(expected.back(), 1e-6 * expected.front());
    EXPECT_EQ(residuals(), expected);
    EXPECT_THROW(cg.solve(wrong.data(), x.data(), true, {.max_iterations = 9}, stream), mpi::CollectiveError);
    EXPECT_EQ(residuals(), expected);
  }
}

TEST(PoissonCg, RepeatsBitForBit) {
  const mesh::Mesh mesh = box(mpi::Comm());
  for (const Storage storage : {Storage::assembled, Storage::scattered}) {
    std::vector<double> first, second;
    EXPECT_EQ(history<double>(mesh, options_for(4, storage), false, &first),
              history<double>(mesh, options_for(4, storage), false, &second));
    EXPECT_EQ(first, second);
  }
}

// Does what a GPU would do: its kernels, its copies, its batches of iterations.
TEST(PoissonCg, TheGpuBranchOfEveryKernelGivesTheSameHistory) {
  const mesh::Mesh mesh = box(mpi::Comm());
  for (const bool jacobi : {false, true}) {
    auto options = options_for(3);
    const auto expected = history<double>(mesh, options, jacobi, nullptr, 18);
    options = jacobi ? options_for(3, Storage::assembled, Geometry::stored, Threads::points, false)
                     : options_for(3, Storage::assembled, Geometry::trilinear, Threads::columns, false);
    options.exchange = "pairwise:staged";
    options.device = device::open("fiber");
    expect_same(history<double>(mesh, options, jacobi, nullptr, 18, true), expected, 1e-10);
  }
}

TEST(PoissonCg, GpuSumsAreWrongWithoutTheirBarrier) {
  const mesh::Mesh mesh = box(mpi::Comm());
  auto options = options_for(3);
  options.device = device::open("fiber");
  fiber::take_barriers_met();
  const auto expected = history<double>(mesh, options, true, nullptr, 2, true);
  int removed = 0;
  for (const fiber::Barrier& barrier : fiber::take_barriers_met()) {
    if (barrier.file != "block_sum.hpp") continue;
    ++removed;
    const fiber::WithoutBarrier without(barrier);
    try {
      EXPECT_NE(history<double>(mesh, options, true, nullptr, 2, true), expected)
          << "without the barrier at line " << barrier.line;
    } catch (const mpi::CollectiveError&) {  // NaN, or an operator that seems indefinite
    }
  }
  EXPECT_EQ(removed, 1);
}

// A x = b for A = diag(1, 2, …), shifted: small systems to test the solver's own rules.
struct Diagonal {
  explicit Diagonal(std::vector<double> values) : values(std::move(values)) {}
  solver::SolveResult solve(std::vector<double> b, const solver::SolveOptions& options,
                            std::vector<double>* x = nullptr, bool zero_guess = true) {
    const auto host = device::open("host");
    const auto n = static_cast<std::int64_t>(values.size());
    solver::ConjugateGradients<double> cg({.apply =
                                               [&](double* in, double* out, device::Stream&) {
                                                 for (std::int64_t i = 0; i < n; ++i) out[i] = values[i] * in[i];
                                               },
                                           .entries = n,
                                           .unknowns = n},
                                          host, mpi::Comm());
    device::Stream stream(host);
    std::vector<double> own(n);
    return cg.solve(b.data(), x == nullptr ? own.data() : x->data(), zero_guess, options, stream);
  }
  std::vector<double> values;
};

TEST(Cg, SolvesADiagonalSystemInAsManyStepsAsItHasEigenvalues) {
  std::vector<double> x(6);
  const auto result =
      Diagonal({1, 2, 3, 1, 2, 3}).solve({1, 1, 1, 1, 1, 1}, {.max_iterations = 50, .tolerance = 1e-12}, &x);
  EXPECT_TRUE(result.converged);
  EXPECT_EQ(result.iterations, 3);
  EXPECT_EQ(result.residuals.size(), 4u);
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(x[i], 1.0 / (1 + i % 3), 1e-13);
}

// The residual falls to rounding in one step, so r . z after it has to be computed from r.
TEST(Cg, ConvergenceInOneStepSurvivesTheCancellationOfTheNextResidual) {
  std::vector<double> x(4);
  const auto result =
      Diagonal({2, 2 - 2e-9, 2 + 2e-9, 2}).solve({1, 2, 3, 4}, {.max_iterations = 9, .tolerance = 1e-14}, &x);
  EXPECT_TRUE(result.converged);
  EXPECT_LE(result.iterations, 2);
  EXPECT_NEAR(x[0], 0.5, 1e-15);
  EXPECT_NEAR(x[1], 2 / (2 - 2e-9), 1e-14);
}

TEST(Cg, StartsFromTheGuess) {
  std::vector<double> x{1, 0.5, 1.0 / 3};
  const auto result = Diagonal({1, 2, 3}).solve({1, 1, 1}, {.max_iterations = 9, .tolerance = 1e-8}, &x, false);
  EXPECT_LT(result.residuals[0], 1e-15);
  EXPECT_NEAR(x[2], 1.0 / 3, 1e-14);
}

TEST(Cg, SaysThatItDidNotConverge) {
  std::vector<double> values(40), b(40, 1);
  std::iota(values.begin(), values.end(), 1.0);
  const auto result = Diagonal(values).solve(b, {.max_iterations = 3, .tolerance = 1e-10});
  EXPECT_FALSE(result.converged);
  EXPECT_EQ(result.iterations, 3);
}

TEST(Cg, StopsAtOnceOnAZeroRightHandSide) {
  std::vector<double> x{7, 7};
  const auto result = Diagonal({1, 2}).solve({0, 0}, {.max_iterations = 10}, &x);
  EXPECT_TRUE(result.converged);
  EXPECT_EQ(result.iterations, 0);
  EXPECT_EQ(x, (std::vector<double>{0, 0}));
}

TEST(Cg, FindsNanOnOneRankOnAllRanks) {
  const mpi::Comm world;
  std::vector<double> b{1, 2, 3};
  if (world.rank() == world.size() - 1) b[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(Diagonal({1, 2, 3}).solve(b, {.max_iterations = 5}), mpi::CollectiveError);
}

TEST(Cg, FindsAnIndefiniteOperatorOnAllRanks) {
  const mpi::Comm world;
  EXPECT_THROW(Diagonal({1, -200.0 * world.size(), 3}).solve({1, 1, 1}, {.max_iterations = 5}), mpi::CollectiveError);
}

TEST(Cg, ReportsEveryIteration) {
  std::vector<int> seen;
  solver::SolveOptions options{.max_iterations = 4};
  options.progress = [&](int iteration, double) { seen.push_back(iteration); };
  Diagonal({1, 2, 3, 4, 5, 6}).solve({1, 1, 1, 1, 1, 1}, options);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
}

}  // namespace
