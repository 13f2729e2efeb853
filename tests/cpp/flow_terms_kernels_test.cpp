// The GPU branch of the flow's kernels: one fiber per thread, in any order between barriers.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "fiber_device.hpp"
#include "flow_terms_checks.hpp"

using namespace weft;
using namespace weft::flow;

namespace {

struct GpuCase {
  std::string term;
  int order;  // 3, or 4: an odd number of points, or 14: also two chunks of layers, and velocities in registers
  bool curved;
  std::size_t barriers;
};
std::ostream& operator<<(std::ostream& out, const GpuCase& c) {
  return out << c.term << c.order << (c.curved ? "curved" : "straight");
}

// 11 elements: a full block and an incomplete one.
mesh::Mesh elements(bool curved) {
  mesh::BoxOptions options{.counts = {11, 1, 1}, .deformation = curved ? "smooth" : "kershaw"};
  return mesh::make_box(options, mpi::Comm::self());
}

class FlowGpuBranch : public testing::TestWithParam<GpuCase> {
 protected:
  double error() {
    const auto [term, order, curved, barriers] = GetParam();
    const mesh::Mesh mesh = elements(curved);
    const Reference reference(mesh, order);
    Tested<double> tested(mesh, order, space::Kernels::portable, space::Kernels::portable, device::open("fiber"));
    const std::vector<Field> u{reference.random(1), reference.random(2), reference.random(3)},
        f{reference.random(4), reference.random(5)};
    fiber::take_barriers_met();
    std::vector<Field> found, expected;
    if (term == "gradient") found = tested.gradient(f[0]), expected = reference.gradient(f[0]);
    if (term == "weak_divergence") found = tested.weak_divergence(u), expected = reference.weak_divergence(u);
    if (term == "divergence") found = tested.divergence(u), expected = reference.divergence(u);
    if (term == "curl") found = tested.curl(u), expected = reference.curl(u);
    if (term == "convect_skew") found = tested.convect_skew(u, f), expected = reference.convect_skew(u, f);
    if (term == "convect") found = tested.convect(u, f), expected = reference.convect(u, f);
    return difference(found, expected);
  }
};

TEST_P(FlowGpuBranch, IsTheDefinitionInAnyOrderOfThreads) {
  for (const unsigned seed : {1u, 2u}) {
    fiber::seed(seed);
    EXPECT_LT(error(), 1e-12) << "seed " << seed;
  }
}

TEST_P(FlowGpuBranch, IsWrongWithoutAnyOneOfItsBarriers) {
  ASSERT_LT(error(), 1e-12);
  std::size_t met = 0;
  for (const fiber::Barrier& barrier : fiber::take_barriers_met()) {
    if (barrier.file.find("flow_") == std::string::npos) continue;
    ++met;
    const fiber::WithoutBarrier removed(barrier);
    EXPECT_FALSE(error() < 1e-6) << "without the barrier at line " << barrier.line;
  }
  EXPECT_EQ(met, GetParam().barriers);
}

INSTANTIATE_TEST_SUITE_P(Flow, FlowGpuBranch,
                         testing::Values(GpuCase{"gradient", 3, false, 2}, GpuCase{"weak_divergence", 4, true, 2},
                                         GpuCase{"divergence", 4, false, 2}, GpuCase{"curl", 3, true, 2},
                                         GpuCase{"convect_skew", 3, false, 2}, GpuCase{"convect_skew", 4, true, 2},
                                         GpuCase{"convect_skew", 14, false, 4}, GpuCase{"convect", 3, true, 5},
                                         GpuCase{"convect", 4, false, 5}));

}  // namespace
