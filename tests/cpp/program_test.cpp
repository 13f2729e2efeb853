// Programs run on the GPU branch of the kernel as on the host's, and codes know whether they depend on time.
#include <gtest/gtest.h>

#include <cmath>

#include "fiber_device.hpp"
#include "weft/kernels/program_operations.hpp"
#include "weft/program/program.hpp"

using namespace weft;

namespace {

constexpr std::int64_t stride = 300, n = 257;  // full blocks and a remainder, in arrays that are longer

template <class T>
std::vector<T> run(const char* which, const program::Code& code) {
  const auto device = device::open(which);
  std::vector<T> points(3 * stride);
  for (std::size_t i = 0; i < points.size(); ++i) points[i] = static_cast<T>(std::sin(0.7 * static_cast<double>(i)));
  device::Array<T> places(device, points);
  device::Array<T> values(device, std::vector<T>(stride, T(-7)));
  device::Stream stream(device);
  program::Program<T>(code, device).evaluate(places.data(), stride, n, 0.25, values.data(), stream);
  stream.synchronize();
  return values.download();
}

// Every operation in turn: o(x, y) of two values, all added up.
program::Code everything() {
  std::vector<std::int32_t> code{program_t};
  std::vector<double> constants;
  for (int o = 0; o < program_operations; ++o) {
    const int takes = program::operations()[o].takes;
    for (int k = 0; k < takes; ++k) code.push_back(k == 1 ? program_constant : program_x + k);
    if (takes > 1) constants.push_back(0.375);
    if (o == program_constant) constants.push_back(-1.5);
    code.push_back(o);
    if (o == program_swap) code.push_back(program_subtract);
    // A NaN (the root of a negative number) must not hide later errors.
    code.insert(code.end(), {program_constant, program_minimum, program_constant, program_maximum});
    constants.insert(constants.end(), {2.0, -2.0});
    if (o == program_sqrt || o == program_log || o == program_power)
      code.insert(code.end(), {program_constant, program_greater});
    if (o == program_sqrt || o == program_log || o == program_power) constants.push_back(0.5);
    code.push_back(program_add);
  }
  return {code, constants};
}

template <class T>
class Programs : public testing::Test {};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(Programs, Types);

TYPED_TEST(Programs, GiveOnAGpuWhatTheyGiveOnTheHostAndWriteNothingElse) {
  const program::Code code = everything();
  const auto expected = run<TypeParam>("host", code);
  for (std::int64_t i = 0; i < stride; ++i) {
    ASSERT_TRUE(std::isfinite(expected[i])) << i;
    ASSERT_EQ(expected[i] == TypeParam(-7), i >= n) << i;
  }
  for (unsigned seed = 1; seed <= 3; ++seed) {
    fiber::seed(seed);
    const auto found = run<TypeParam>("fiber", code);
    // The same functions of the C library, which the compiler may call one at a time or several at once.
    for (std::int64_t i = 0; i < stride; ++i) ASSERT_NEAR(found[i], expected[i], 1e-6 * sizeof(float)) << i;
  }
}

TYPED_TEST(Programs, OfNoPointsDoNothing) {
  const auto device = device::open("host");
  device::Stream stream(device);
  program::Program<TypeParam>(program::Code({program_constant}, {1.0}), device)
      .evaluate(nullptr, 0, 0, 0, nullptr, stream);
  stream.synchronize();
}

TEST(Code, KnowsWhetherItDependsOnTime) {
  EXPECT_TRUE(program::Code({program_t}, {}).depends_on_time());
  EXPECT_FALSE(program::Code({program_x}, {}).depends_on_time());
}

}  // namespace
