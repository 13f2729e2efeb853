// The flow's terms on a GPU backend, with the driver made for tests: its streams do nothing until somebody waits for
// them, so a missing synchronisation shows; kernels run as fibers.
#include <gtest/gtest.h>

#include "find_fake_gpu.hpp"
#include "flow_terms_checks.hpp"

using namespace weft;
using namespace weft::flow;

namespace {

void compare(const char* gpu) {
  if (device::find_fake_gpu(gpu) == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mpi::Comm comm;
  const mesh::Mesh mesh = mesh::make_box({.counts = {4, 3, 2}, .periodic = {true, false, false}}, comm);
  const Reference reference(mesh, 3);
  Tested<double> tested(mesh, 3, space::Kernels::portable, space::Kernels::portable, device::open(gpu));
  const std::vector<Field> u{reference.random(1), reference.random(2), reference.random(3)}, f{reference.random(4)},
      w{reference.random(5), reference.random(6), reference.random(7)};
  EXPECT_LT(difference(tested.convect(u), reference.convect(u, u)), 1e-12);
  EXPECT_LT(difference(tested.convect(u, w), reference.convect(u, w)), 1e-12);  // one exchange for both
  EXPECT_LT(difference(tested.convect_skew(u, f), reference.convect_skew(u, f)), 1e-12);
  EXPECT_LT(difference(tested.gradient(f[0]), reference.gradient(f[0])), 1e-12);
  EXPECT_LT(difference(tested.weak_divergence(u), reference.weak_divergence(u)), 1e-12);
  EXPECT_LT(difference(tested.divergence(u), reference.divergence(u)), 1e-12);
  EXPECT_LT(difference(tested.curl(u), reference.curl(u)), 1e-12);
}

}  // namespace

TEST(GpuFlowTerms, AgreeWithTheDefinitionOnCuda) { compare("cuda"); }
TEST(GpuFlowTerms, AgreeWithTheDefinitionOnHip) { compare("hip"); }
