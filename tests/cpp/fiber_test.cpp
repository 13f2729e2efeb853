// The fiber device: kernels of the library give correct results on it, and it detects every fault that it is meant to
// detect.
#include "fiber_device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "vector_checks.hpp"
#include "weft/device/device.hpp"

using namespace weft;
using namespace weft::device;

namespace {

const std::vector<Define> real_is_double{{"WEFT_REAL", "double"}};
constexpr unsigned blocks = 3;

// The block sums of 0, 1, 2, … by a kernel of faulty.hpp.
std::vector<double> tree_sums(const char* name) {
  const auto device = device::open("fiber");
  std::vector<double> values(blocks * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  Array<double> x(device, values), sums(device, blocks);
  Stream stream(device);
  const Kernel<const double*, double*> kernel = device->kernel({"faulty", name, real_is_double});
  kernel(stream, blocks, {64}, x.data(), sums.data());
  return sums.download();
}
const std::vector<double> right_sums{2016, 2016 + 64 * 64, 2016 + 2 * 64 * 64};

std::string failure(const char* name) {
  const auto device = device::open("fiber");
  Stream stream(device);
  try {
    Kernel<int>(device->kernel({"faulty", name, real_is_double}))(stream, 1, {64}, 0);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<int> arrivals(unsigned seed) {
  const auto device = device::open("fiber");
  Array<int> counter(device, std::vector<int>{0}), order(device, 64);
  Stream stream(device);
  fiber::seed(seed);
  const Kernel<int*, int*> kernel = device->kernel({"faulty", "order_of_arrival", real_is_double});
  kernel(stream, 1, {64}, counter.data(), order.data());
  return order.download();
}

}  // namespace

TEST(Fibers, VectorKernelsFollowTheirFormulas) {
  for (long n : {1L, 4097L}) {
    check_vector_kernels<double>(device::open("fiber"), n);
    check_vector_kernels<float>(device::open("fiber"), n);
  }
}

TEST(Fibers, AKernelWithItsBarriersIsRightInAnyOrder) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    fiber::seed(seed);
    EXPECT_EQ(tree_sums("tree_sum"), right_sums) << "seed " << seed;
  }
}

TEST(Fibers, AKernelThatLacksABarrierIsWrong) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    fiber::seed(seed);
    EXPECT_NE(tree_sums("tree_sum_without_barrier"), right_sums) << "seed " << seed;
  }
}

TEST(Fibers, TakingAwayEachBarrierOfTheDotProductMakesItWrong) {
  const auto device = device::open("fiber");
  const long n = 300;
  std::vector<double> values(n, 1.0);
  Array<double> x(device, values), partials(device, 1);
  Stream stream(device);
  const Kernel<long, const double*, const double*, double*> kernel = vector_kernel<double>(*device, "dot");
  const auto dot = [&] {
    kernel(stream, 1, vector_shape, n, x.data(), x.data(), partials.data());
    return partials.download()[0];
  };
  fiber::take_barriers_met();
  EXPECT_EQ(dot(), 300.0);
  const auto barriers = fiber::take_barriers_met();
  ASSERT_EQ(barriers.size(), 1u);
  for (const fiber::Barrier& barrier : barriers) {
    EXPECT_EQ(barrier.file, "block_sum.hpp");
    const fiber::WithoutBarrier removed(barrier);
    EXPECT_NE(dot(), 300.0) << "without " << barrier.file << ":" << barrier.line;
  }
  EXPECT_EQ(dot(), 300.0);
}

TEST(Fibers, AThreadThatLeavesWhileOthersWaitIsAnError) {
  EXPECT_NE(failure("leaves_early").find("thread (5, 0, 0) left the kernel while others wait"), std::string::npos)
      << failure("leaves_early");
}

TEST(Fibers, ThreadsThatWaitAtDifferentBarriersAreAnError) {
  EXPECT_NE(failure("waits_elsewhere").find("while others wait at faulty.hpp:"), std::string::npos)
      << failure("waits_elsewhere");
}

TEST(Fibers, SharedMemoryIsNaNInEveryBlock) {
  const auto device = device::open("fiber");
  Array<double> out(device, std::vector<double>(3 * 64, 0.0));
  Stream stream(device);
  const Kernel<double*> kernel = device->kernel({"faulty", "reads_what_it_never_wrote", real_is_double});
  kernel(stream, 3, {64}, out.data());
  for (double value : out.download()) EXPECT_TRUE(std::isnan(value));
}

TEST(Fibers, TheSeedDecidesTheOrderOfTheThreads) {
  EXPECT_EQ(arrivals(7), arrivals(7));
  EXPECT_NE(arrivals(7), arrivals(8));
  const auto order = arrivals(9);
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 64u);  // each thread ran once
}

TEST(Fibers, LaunchesOutsideTheBoundsOrWithWrongArgumentsAreErrors) {
  const auto device = device::open("fiber");
  Stream stream(device);
  const LoadedKernel kernel = device->kernel({"faulty", "leaves_early", real_is_double});
  EXPECT_THROW(Kernel<int>{kernel}(stream, 1, {65}, 0), std::invalid_argument);
  EXPECT_THROW(Kernel<long>{kernel}, std::invalid_argument);
  EXPECT_THROW(device->kernel({"faulty", "leaves_early", {{"WEFT_REAL", "half"}}}), std::runtime_error);
  EXPECT_FALSE(device->is_host());
}
