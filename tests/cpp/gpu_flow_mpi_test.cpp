// A flow on a GPU backend, with the driver made for tests: its streams do nothing until somebody waits for them, so a
// missing synchronisation shows; kernels run as fibers, so a missing barrier shows.
#include <gtest/gtest.h>

#include "find_fake_gpu.hpp"
#include "flow_checks.hpp"

using namespace weft;
using namespace weft::flow;

namespace {

void compare(const char* gpu, Convection convection) {
  if (device::find_fake_gpu(gpu) == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mesh::Mesh mesh = mesh::make_box({.counts = {2, 2, 1}, .upper = {1, 0.8, 0.6}}, mpi::Comm());
  const auto trajectory = [&](const char* device, const char* exchange) {
    auto options = test::flow_options<double>(device::open(device));
    options.convection = convection;
    options.pressure.orders = {3};
    options.pressure.max_iterations = 500;
    return test::flow_trajectory<double>(mesh, test::space_options(mesh, 3, device, exchange), options, 3);
  };
  test::expect_same_by_element(trajectory(gpu, "pairwise:staged"), trajectory("host", "pairwise:direct"), 1e-8);
}

}  // namespace

TEST(GpuFlow, AgreesWithTheHostOnCuda) { compare("cuda", Convection::over_integrated); }
TEST(GpuFlow, AgreesWithTheHostOnHip) { compare("hip", Convection::skew_symmetric); }
