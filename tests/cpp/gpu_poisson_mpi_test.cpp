// The Poisson operator, its exchange and CG on a GPU backend, with the driver made for tests: its streams do nothing
// until somebody waits for them, so a missing synchronisation shows; kernels run as fibers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "find_fake_gpu.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/any_operator.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/solver/cg.hpp"

using namespace weft;

namespace {

struct Solution {
  std::vector<double> applied, x, residuals;
};

// A x for a given x, and CG (ten iterations), by global id of the degrees of freedom. `before` is called once
// everything is ready for the solve. `small`: whether CG may take this for a small problem.
Solution solve(
    const char* which, poisson::Storage storage, bool jacobi,
    const solver::SolveOptions& limits = {.max_iterations = 10, .tolerance = 0},
    const std::function<void()>& before = [] {}, bool small = true) {
  const mpi::Comm comm;
  const mesh::Mesh mesh = mesh::make_box({.counts = {4, 3, 2}, .periodic = {true, false, false}}, comm);
  poisson::Options options;
  options.order = 3;
  options.storage = storage;
  options.geometry = poisson::Geometry::stored;
  options.kernels = poisson::Kernels::portable;
  options.device = device::open(which);
  const auto made = poisson::make_operator<double>(mesh, options);
  auto& op = *made;
  const std::shared_ptr<device::Device>& device = options.device;
  device::Stream stream(device);
  std::vector<double> values(op.entries(), 0.0);
  const std::vector<std::int64_t> ids = op.unknown_ids();
  for (std::size_t i = 0; i < ids.size(); ++i) values[i] = std::sin(static_cast<double>(ids[i]));
  device::Array<double> b(device, values), y(device, values.size()), x(device, values.size());
  y.zero();
  x.zero();
  op.apply(b.data(), y.data(), stream);
  stream.synchronize();

  Solution result;
  result.applied = y.download();
  b.upload(values);
  const device::Array<double> inverse = jacobi ? op.inverse_diagonal() : device::Array<double>();
  solver::System<double> system;
  system.apply = [&](double* p, double* ap, device::Stream& s) { op.apply(p, ap, s); };
  system.entries = op.entries();
  system.unknowns = op.unknowns();
  system.weights = op.weights();
  system.inverse_diagonal = inverse.data();
  if (!small) system.small_unknowns = 0;
  solver::ConjugateGradients<double> cg(std::move(system), device, op.comm());
  before();
  result.residuals = cg.solve(b.data(), x.data(), true, limits, stream).residuals;
  result.x = x.download();
  for (std::vector<double>* vector : {&result.applied, &result.x}) vector->resize(ids.size());
  return result;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-11 * largest) << what << " " << i;
}

void compare(const char* gpu, poisson::Storage storage, bool jacobi) {
  if (device::find_fake_gpu(gpu) == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const Solution expected = solve("host", storage, jacobi);
  for (const bool small : {true, false}) {
    const Solution found = solve(gpu, storage, jacobi, {.max_iterations = 10, .tolerance = 0}, [] {}, small);
    expect_near(found.applied, expected.applied, "A x");
    expect_near(found.residuals, expected.residuals, "residual");
    expect_near(found.x, expected.x, "x");
  }
}

}  // namespace

TEST(GpuPoisson, AssembledStorageAgreesWithTheHostOnCuda) { compare("cuda", poisson::Storage::assembled, false); }
TEST(GpuPoisson, ScatteredStorageAgreesWithTheHostOnCuda) { compare("cuda", poisson::Storage::scattered, true); }
TEST(GpuPoisson, AssembledStorageAgreesWithTheHostOnHip) { compare("hip", poisson::Storage::assembled, true); }

// On one GPU the host launches one graph for 16 iterations, and waits for them once.
TEST(GpuPoisson, CgOnOneGpuLaunchesAndWaitsOnceInSixteenIterations) {
  FakeGpu* gpu = device::find_fake_gpu("cuda");
  if (gpu == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "on several ranks the host adds up their sums";
  const auto counted = [&](int iterations) {
    int launches = 0, waits = 0;
    const auto before = [&] { launches = gpu->launches, waits = gpu->waits; };
    solve("cuda", poisson::Storage::assembled, true, {.max_iterations = iterations, .tolerance = 0}, before);
    return std::pair(gpu->launches - launches, gpu->waits - waits);
  };
  const auto [launches, waits] = counted(16);
  const auto [more_launches, more_waits] = counted(64);
  EXPECT_EQ(more_launches - launches, 3);
  EXPECT_EQ(more_waits - waits, 3);
}

// Iterations enqueued after the tolerance is reached do not change the solution.
TEST(GpuPoisson, CgOnOneGpuEndsWhereTheToleranceIsReached) {
  FakeGpu* gpu = device::find_fake_gpu("cuda");
  if (gpu == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  for (const double tolerance : {0.5, 1e-2, 1e-6, 1e-10}) {
    int waits = 0;
    const Solution found = solve("cuda", poisson::Storage::assembled, true,
                                 {.max_iterations = 500, .tolerance = tolerance}, [&] { waits = gpu->waits; });
    waits = gpu->waits - waits;
    const int iterations = static_cast<int>(found.residuals.size()) - 1;
    ASSERT_LE(found.residuals.back(), tolerance * found.residuals.front());
    const Solution fixed =
        solve("cuda", poisson::Storage::assembled, true, {.max_iterations = iterations, .tolerance = 0});
    EXPECT_EQ(found.x, fixed.x) << "tolerance " << tolerance;
    EXPECT_EQ(found.residuals, fixed.residuals) << "tolerance " << tolerance;
    if (mpi::Comm().size() == 1) {
      EXPECT_LE(waits, 8 + iterations / 8) << iterations << " iterations";
    }
  }
}

TEST(GpuPoisson, WhereMemoryRunsOutForMoreFieldsOnOneRankAllRanksStopAndCanGoOn) {
  FakeGpu* fake = device::find_fake_gpu("cuda");
  if (fake == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mpi::Comm comm;
  const mesh::Mesh mesh = mesh::make_box({.counts = {4, 3, 2}, .periodic = {true, false, false}}, comm);
  poisson::Options options;
  options.order = 3;
  options.kernels = poisson::Kernels::portable;
  options.device = device::open("cuda");
  poisson::Operator<double> op(mesh, options);
  device::Stream stream(options.device);
  device::Array<double> x(options.device, 2 * op.entries()), y(options.device, 2 * op.entries());
  x.zero();
  if (comm.rank() == comm.size() - 1) fake->fail = "cuMemAlloc_v2";
  EXPECT_THROW(op.apply(x.data(), y.data(), 2, stream), mpi::CollectiveError);
  op.apply(x.data(), y.data(), 2, stream);
  stream.synchronize();
}
