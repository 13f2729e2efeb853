// What the host launches and what it waits for, counted by the driver made for tests. The time of small problems
// depends on little else; docs/backends.md has the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "coarse_solver.hpp"
#include "find_fake_gpu.hpp"
#include "flow_checks.hpp"
#include "maxwell_checks.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/multigrid_solver.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/solver/cg.hpp"
#include "weft/trace/recorder.hpp"
#include "weft/turbulence/solver.hpp"

using namespace weft;

namespace {

class Launches : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  }
  FakeGpu* const gpu = device::find_fake_gpu("cuda");
};

struct Counts {
  int launches, waits, streams;
  Counts operator-(const Counts& o) const { return {launches - o.launches, waits - o.waits, streams - o.streams}; }
};
Counts counts(const FakeGpu* gpu) { return {gpu->launches, gpu->waits, gpu->streams}; }
template <class Work>
Counts counted(const FakeGpu* gpu, Work&& work) {
  const Counts before = counts(gpu);
  work();
  return counts(gpu) - before;
}

std::vector<double> values_of(const std::vector<std::int64_t>& ids, std::int64_t entries) {
  std::vector<double> values(static_cast<std::size_t>(entries), 0.0);
  for (std::size_t i = 0; i < ids.size(); ++i) values[i] = std::sin(static_cast<double>(ids[i]));
  return values;
}

// A path whose exchanges never wait.
const char* without_waits() { return mpi::Comm().size() == 1 ? "staged" : "ipc"; }

// A Poisson problem on a row of elements, in which every rank has some without shared points.
struct Problem {
  Problem(const char* path, const char* which = "cuda", int order = 3)
      : order(order),
        mesh(mesh::make_box({.counts = {12, 2, 1}}, mpi::Comm())),
        device(device::open(which)),
        op(mesh, options(path)),
        stream(device),
        b(device, values_of(op.unknown_ids(), op.entries())),
        x(device, op.entries()) {
    x.zero();
  }
  poisson::Options options(const char* path) const {
    poisson::Options options;
    options.order = order;
    options.lambda = 1;
    options.exchange = std::string("pairwise:") + path;
    options.device = device;
    return options;
  }
  solver::SolveResult cg(int iterations) {
    solver::ConjugateGradients<double> cg(op.system(), device, op.comm());
    return cg.solve(b.data(), x.data(), true, {.max_iterations = iterations}, stream);
  }

  int order;
  mesh::Mesh mesh;
  std::shared_ptr<device::Device> device;
  poisson::Operator<double> op;
  device::Stream stream;
  device::Array<double> b, x;
};

}  // namespace

// The kernels of an iteration, 16 of which are one graph (gpu_poisson_mpi_test.cpp).
TEST_F(Launches, AnIterationOfCgOnOneGpuRunsFiveOrSixKernelsAndThreeOnFewUnknowns) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "on several ranks the host adds up their sums";
  struct Case {
    std::int64_t small_unknowns;
    bool gathers_residual;  // A p is not stored
    int kernels;
  };
  for (const auto& [small_unknowns, gathers_residual, kernels] :
       {Case{std::int64_t{1} << 18, true, 3}, {0, true, 5}, {0, false, 6}}) {
    Problem problem("staged");
    solver::System<double> system = problem.op.system();
    EXPECT_EQ(system.small_unknowns, std::int64_t{1} << 18);
    system.small_unknowns = small_unknowns;
    if (!gathers_residual) system.summand_partials = 0;
    solver::ConjugateGradients<double> cg(system, problem.device, problem.op.comm());
    const auto run = [&](int iterations) {
      const int before = gpu->kernels;
      cg.solve(problem.b.data(), problem.x.data(), true, {.max_iterations = iterations, .tolerance = 0},
               problem.stream);
      return gpu->kernels - before;
    };
    const int few = run(16);
    EXPECT_EQ(run(48) - few, 32 * kernels) << small_unknowns << ", " << gathers_residual;
  }
}

// One wait is for the sums and for packing copies of A p, the other for packing the sums of shared entries.
TEST_F(Launches, AnIterationOfCgOnSeveralGpusWaitsTwiceByMpiAndOnceByIpc) {
  if (mpi::Comm().size() == 1) GTEST_SKIP() << "there is no exchange on one rank";
  for (const auto& [path, waits] : {std::pair{"staged", 2}, {"ipc", 1}}) {
    Problem problem(path);
    const Counts few = counted(gpu, [&] { problem.cg(4); }), many = counted(gpu, [&] { problem.cg(20); });
    EXPECT_EQ((many - few).waits, 16 * waits) << path;
    EXPECT_EQ((many - few).launches, 16 * 11) << path;
    // Where the operator fetches the copies itself, it also waits for their packing.
    solver::System<double> system = problem.op.system();
    system.copies = nullptr;
    solver::ConjugateGradients<double> cg(system, problem.device, problem.op.comm());
    const auto run = [&](int iterations) {
      return counted(gpu, [&] {
        cg.solve(problem.b.data(), problem.x.data(), true, {.max_iterations = iterations}, problem.stream);
      });
    };
    const Counts before = run(4);
    EXPECT_EQ((run(20) - before).waits, 16 * (waits == 1 ? 1 : 3)) << path;
  }
}

// All elements of an iteration are enqueued between its two waits, and so compute while the messages travel.
TEST_F(Launches, CgOnSeveralGpusEnqueuesAllElementsBeforeTheHostWaitsForThePackingOfTheirSums) {
  if (mpi::Comm().size() == 1) GTEST_SKIP() << "there is no exchange on one rank";
  Problem problem("staged");
  problem.cg(1);
  std::vector<int> waits;
  gpu->prepare = [&, prepare = gpu->prepare](const FakeLaunch& launch) {
    if (launch.name.starts_with("poisson_")) waits.push_back(gpu->waits);
    return prepare(launch);
  };
  problem.cg(3);
  device::find_fake_gpu("cuda");  // sets `prepare` as it was
  ASSERT_EQ(waits.size(), 3u * 3u);
  for (std::size_t i = 0; i < waits.size(); ++i) EXPECT_EQ(waits[i], waits[0] + 2 * static_cast<int>(i / 3)) << i;
}

TEST_F(Launches, CgOnSeveralGpusFindsTheSameBitsOnEveryPath) {
  Problem staged("staged"), ipc(without_waits()), host("direct", "host");
  const auto expected = staged.cg(12);
  EXPECT_EQ(ipc.cg(12).residuals, expected.residuals);
  EXPECT_EQ(ipc.x.download(), staged.x.download());
  const auto on_host = host.cg(12).residuals;
  for (std::size_t i = 0; i < on_host.size(); ++i) EXPECT_NEAR(expected.residuals[i], on_host[i], 1e-12 * on_host[0]);
}

// The kernels that hide the messages are on the stream before the host waits for the data to send.
TEST_F(Launches, ElementsWithoutSharedPointsAreEnqueuedBeforeTheHostWaitsForThePacking) {
  if (mpi::Comm().size() == 1) GTEST_SKIP() << "there is no exchange on one rank";
  Problem problem("staged");
  problem.op.apply(problem.b.data(), problem.x.data(), problem.stream);
  problem.stream.synchronize();
  ASSERT_FALSE(problem.op.space().elements(space::first_half).begin ==
               problem.op.space().elements(space::first_half).end);
  struct Launch {
    std::string name;
    int waits;
  };
  std::vector<Launch> launches;
  const int before = gpu->waits;
  gpu->prepare = [&, prepare = gpu->prepare](const FakeLaunch& launch) {
    launches.push_back({launch.name, gpu->waits - before});
    return prepare(launch);
  };
  problem.op.apply(problem.b.data(), problem.x.data(), problem.stream);
  device::find_fake_gpu("cuda");  // sets `prepare` as it was
  std::vector<int> waits;
  for (const Launch& launch : launches)
    if (launch.name.starts_with("poisson_")) waits.push_back(launch.waits);
  EXPECT_EQ(waits, (std::vector<int>{0, 1, 1}));  // the first half; the halo's elements; the second half
  EXPECT_EQ(gpu->waits - before, 2);
  problem.stream.synchronize();
}

// On one GPU the launches before and after the coarse solve are a graph each. With smoothing of degree k, a level that
// is smoothed takes 12 k + 4 (Schwarz) or 8 k + 4 (Jacobi) kernels there, and 28 k + 6 or 18 k + 6 on several GPUs.
TEST_F(Launches, AVCycleWaitsOnceForTheCoarseSolveAndReplaysTwoGraphsOnOneGpu) {
  const bool alone = mpi::Comm().size() == 1;
  struct Case {
    std::vector<int> orders;
    poisson::Smoothing smoothing;
    int degree, alone, together;
  };
  using poisson::Smoothing;
  for (const auto& [orders, smoothing, degree, kernels_alone, kernels_together] :
       {Case{{4, 1}, Smoothing::chebyshev_schwarz, 2, 12 * 2 + 4, 28 * 2 + 6},
        Case{{4, 3, 1}, Smoothing::chebyshev_schwarz, 2, 12 * 2 + 4, 28 * 2 + 6},
        Case{{4, 1}, Smoothing::chebyshev_jacobi, 3, 8 * 3 + 4, 18 * 3 + 6}}) {
    const int smoothed = static_cast<int>(orders.size()) - 1;
    Problem problem(without_waits(), "cuda", orders.front());
    poisson::Multigrid<double> multigrid(problem.mesh, problem.options(without_waits()),
                                         {.orders = orders, .degree = degree, .smoothing = smoothing});
    multigrid.set_coarse(
        exact_coarse_solver(multigrid.coarse_matrix(), problem.op.comm(), multigrid.coarsest().unknowns()));
    const auto cycle = [&] { multigrid.apply(problem.b.data(), problem.x.data(), problem.stream); };
    cycle();
    const int each = alone ? kernels_alone : kernels_together;
    const Counts replayed = counted(gpu, cycle);
    EXPECT_EQ(replayed.waits, 1);
    EXPECT_EQ(replayed.launches, alone ? 2 : smoothed * each);
    problem.stream.synchronize();
    const std::vector<double> expected = problem.x.download();
    trace::enable(true);  // all kernels are launched one by one
    EXPECT_EQ(counted(gpu, cycle).launches, smoothed * each);
    trace::enable(false);
    problem.stream.synchronize();
    EXPECT_EQ(problem.x.download(), expected);
  }
}

// The cycle has one level that is smoothed, by one step of Schwarz.
TEST_F(Launches, AnIterationOfFlexibleCgOrGmresWaitsForThreeReductionsAndTheCoarseSolve) {
  const bool alone = mpi::Comm().size() == 1;
  const int cycle = alone ? 2 : 28 + 6, product = alone ? 2 : 7;
  for (const auto& [method, others] : {std::pair{poisson::Method::cg, 8}, {poisson::Method::gmres, 9}}) {
    Problem problem(without_waits());
    poisson::MultigridSolver<double> solver(problem.op, problem.mesh, {.orders = {3, 1}}, false, method, 20);
    solver.set_coarse(exact_coarse_solver(solver.coarse_matrix(), problem.op.comm(), solver.coarse_unknowns()));
    const auto iterate = [&](int count) {
      return counted(gpu, [&] {
        solver.solve(problem.b.data(), problem.x.data(), true, {.max_iterations = count}, problem.stream);
      });
    };
    const Counts two = iterate(2), six = iterate(6);
    EXPECT_EQ((six - two).waits, 4 * (3 + 1)) << name(method);
    EXPECT_EQ((six - two).launches, 4 * (cycle + product + others)) << name(method);
    problem.stream.synchronize();
  }
}

// All waits of a step are for reductions in its solves and for the coarse solve. Its launches are those of its solves'
// iterations and, in this flow with a scalar and all kinds of terms, 67 others.
TEST_F(Launches, AStepOfTheFlowWaitsForReductionsOnly) {
  const mesh::Mesh mesh = mesh::make_box({.counts = {2, 2, 1}, .upper = {1, 0.8, 0.6}}, mpi::Comm());
  for (const std::vector<int>& orders : {std::vector{3}, {3, 1}}) {
    auto options = test::flow_options<double>(device::open("cuda"));
    options.pressure.orders = orders;
    options.pressure.max_iterations = 500;
    poisson::Options space = test::space_options(mesh, 3, "cuda");
    space.exchange = std::string("pairwise:") + without_waits();
    flow::Solver<double> solver(mesh, space, options);
    test::set_coarse(solver);
    for (int step = 0; step < 2; ++step) solver.step(0.008);
    const Counts step = counted(gpu, [&] { solver.step(0.008); });
    const auto most = [](const std::vector<solver::ComponentResult>& results) {
      return std::ranges::max(results, {}, &solver::ComponentResult::iterations).iterations;
    };
    const flow::StepFigures& figures = solver.figures();
    const int pressure = figures.pressure.iterations, levels = static_cast<int>(orders.size());
    ASSERT_GT(pressure, 0);
    const int projection = 2, first_residual = 1, each = 3 + levels - 1;
    const int scalar = 1 + most(figures.scalars), velocity = 1 + most(figures.velocity);
    EXPECT_EQ(step.waits, projection + first_residual + each * pressure + velocity + scalar) << levels << " levels";
    EXPECT_EQ(step.streams, 0);
    if (mpi::Comm().size() == 1) {
      EXPECT_EQ(step.launches, 67 + (12 + levels + 1) * pressure + 5 * (velocity - 1) + 5 * (scalar - 1));
    }
    solver.stream().synchronize();
  }
}

TEST_F(Launches, CgRecordsItsIterationsAgainWhenTheWorkSpaceOfTheOperatorHasMoved) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "only one rank records iterations";
  Problem problem("staged");
  solver::ConjugateGradients<double> cg(problem.op.system(), problem.device, problem.op.comm());
  const auto residuals = [&] {
    return cg.solve(problem.b.data(), problem.x.data(), true, {.max_iterations = 20}, problem.stream).residuals;
  };
  const auto expected = residuals();
  const void* const before = problem.op.workspace();
  device::Array<double> fields(problem.device, 3 * problem.op.entries()), out(problem.device, fields.size());
  fields.zero();
  problem.op.apply(fields.data(), out.data(), 3, problem.stream);
  problem.stream.synchronize();
  ASSERT_NE(problem.op.workspace(), before);
  // Arrays of the old work space's size: one of them lies where it was.
  const std::vector<double> mark(problem.op.space().points(), 7.0);
  std::vector<device::Array<double>> others;
  for (int i = 0; i < 8; ++i) others.emplace_back(problem.device, mark);
  EXPECT_EQ(residuals(), expected);
  for (const auto& other : others) EXPECT_EQ(other.download(), mark);
}

TEST_F(Launches, AStepOfMaxwellOnOneGpuIsOneGraph) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "with several ranks, messages come between the launches";
  const mesh::Mesh mesh = mesh::make_box({.counts = {2, 2, 1}}, mpi::Comm());
  maxwell::Operator<double> op(mesh, test::maxwell_options(mesh, 3, "cuda", true));
  maxwell::Solver<double> solver(op);
  solver.step(3, 0.01);
  // Both end with an energy check.
  const Counts few = counted(gpu, [&] { solver.step(12, 0.01); }), many = counted(gpu, [&] { solver.step(17, 0.01); });
  EXPECT_EQ((many - few).launches, 5);
  EXPECT_EQ((many - few).waits, 0);
  EXPECT_EQ(many.streams, 0);
}

namespace {

turbulence::Options turbulent_box() {
  turbulence::Options options;
  options.box.sizes = {8, 6, 10};
  options.viscosity = 0.05;
  options.courant = 0.4;
  options.device = device::open("cuda");
  return options;
}

void begin(turbulence::Solver<double>& solver) {
  const turbulence::Spectrum spectrum = [](std::span<const double> k, std::span<double> energy) {
    for (std::size_t i = 0; i < k.size(); ++i) energy[i] = 0.05 * std::pow(k[i], 4) * std::exp(-0.2 * k[i] * k[i]);
  };
  solver.set_velocity(turbulence::random_velocity(solver.truncation(), spectrum, 3));
}

}  // namespace

// Two substeps, each with a graph of what precedes the products and their transforms, the unpacking, four transforms in
// y and the update; and between the substeps the packing of the predictor.
TEST_F(Launches, AStepOfTurbulenceOnOneGpuTakesAtMostThirtyLaunchesTwoWaitsAndNoNewStream) {
  turbulence::Solver<double> solver(turbulent_box(), mpi::Comm::self());
  begin(solver);
  solver.step(2);
  for (int i = 0; i < 3; ++i) {
    const Counts step = counted(gpu, [&] { solver.step(1); });
    EXPECT_EQ(step.launches, 2 * (1 + 1 + 4 + 1) + 1);
    EXPECT_EQ(step.waits, 2);  // for the largest velocity, and at the end
    EXPECT_EQ(step.streams, 0);
  }
  trace::enable(true);  // all passes are launched one by one
  EXPECT_EQ(counted(gpu, [&] { solver.step(1); }).launches, 65);
  trace::enable(false);
}

// While a trace is recorded, all passes are launched one by one.
TEST_F(Launches, ReplayedStepsOfTurbulenceFindTheSameBitsAsLaunchedOnes) {
  const auto run = [](turbulence::Scheme scheme, bool traced) {
    turbulence::Options options = turbulent_box();
    options.scheme = scheme;
    options.scalars = {{0.7, {0, 1, 0.5}}};
    turbulence::Solver<double> solver(options, mpi::Comm::self());
    begin(solver);
    const std::int64_t points = solver.plan().decomposition().physical().size();
    device::Array<double> values(options.device, static_cast<std::size_t>(3 * points));
    trace::enable(traced);
    for (int i = 0; i < 3; ++i) {
      solver.step(2);
      solver.velocity(values.data());  // other passes in between
    }
    trace::enable(false);
    return values.download();
  };
  for (const turbulence::Scheme scheme : {turbulence::Scheme::rk2, turbulence::Scheme::rk4}) {
    const std::vector<double> replayed = run(scheme, false), launched = run(scheme, true);
    EXPECT_EQ(replayed, launched) << name(scheme);
    EXPECT_GT(std::ranges::max(replayed), 0.01);
  }
}
