// Maxwell's equations on a GPU backend, with the driver made for tests: its streams do nothing until somebody waits for
// them, so a missing synchronisation shows; kernels run as fibers; on one rank steps are recorded and replayed.
#include <gtest/gtest.h>

#include "find_fake_gpu.hpp"
#include "maxwell_checks.hpp"

using namespace weft;
using namespace weft::maxwell;

namespace {

void compare(const char* gpu, Threads threads, bool driven) {
  if (device::find_fake_gpu(gpu) == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mesh::Mesh mesh = mesh::make_box({.counts = {2, 2, 1}, .periodic = {true, false, true}}, mpi::Comm());
  const auto expected = test::trajectory<double>(mesh, test::maxwell_options(mesh, 3, "host", driven), 5, 0.01);
  Options options = test::maxwell_options(mesh, 3, gpu, driven);
  options.threads = threads;
  test::expect_same_by_element(test::trajectory<double>(mesh, options, 5, 0.01), expected, 1e-12);
}

}  // namespace

TEST(GpuMaxwell, BlocksOfPointsAgreeWithTheHostOnCuda) { compare("cuda", Threads::points, true); }
TEST(GpuMaxwell, BlocksOfColumnsAgreeWithTheHostOnHip) { compare("hip", Threads::columns, false); }

TEST(GpuMaxwell, StepsOfOneRankAreReplayed) {
  if (device::find_fake_gpu("cuda") == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mesh::Mesh mesh = mesh::make_box({.counts = {2, 2, 1}}, mpi::Comm());
  Operator<double> op(mesh, test::maxwell_options(mesh, 3, "cuda", true));
  Solver<double> solver(op);
  solver.step(3, 0.01);
  EXPECT_EQ(solver.recorded(), mesh.comm.size() == 1);
}
