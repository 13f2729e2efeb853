// The turbulence kernels as GPUs run them, a fiber a thread, against the rows the host's passes call; and what the
// solver builds on: random numbers by counter, the truncation, the choice of the time step.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "fiber_device.hpp"
#include "vector_checks.hpp"
#include "weft/device/device.hpp"
#include "weft/turbulence/random.hpp"
#include "weft/turbulence/rows.hpp"
#include "weft/turbulence/time_step.hpp"
#include "weft/turbulence/wavenumbers.hpp"

using namespace weft;
using namespace weft::device;

namespace {

constexpr int nx = 140, ny = 5, nz = 3;  // more modes per row than a block has threads
constexpr int modes = nx * ny * nz;
constexpr int variables = 8;

// A block of modes somewhere in a rank's part, with tables for the directions, and fields; the same values on any
// device.
template <class T>
struct Problem {
  using Value = complex_value<T>;

  explicit Problem(const char* which)
      : device(which[0] == 'h' ? device::open("host") : device::open("fiber")),
        block(device, std::span<const T>(random_values<T>(2 * variables * modes, 1))),
        fields(device, std::span<const T>(random_values<T>(2 * variables * modes, 2))),
        tables(device, std::span<const T>(random_values<T>(1000, 3))),
        rates(device, nz * ny) {
    std::vector<std::int32_t> counts(ny * nz);
    for (int row = 0; row < ny * nz; ++row) counts[row] = row % 4 == 0 ? nx : 11 * row % nx;
    kept = Array<std::int32_t>(device, std::span<const std::int32_t>(counts));
    rates.zero();
  }

  block_view<Value> modes_view() { return {as_complex(block), modes, nx, nx * ny, 7, 0, 2, nx, ny, nz}; }
  block_view<T> points_view() { return {block.data(), modes, nx, nx * ny, 0, 0, 0, nx, ny, nz}; }
  spectral_part part() { return {7, 2, nx, ny, kept.data()}; }
  static Value* as_complex(Array<T>& array) { return reinterpret_cast<Value*>(array.data()); }
  mode_factors<T> numbers() { return {tables.data(), tables.data() + 200, tables.data() + 220}; }
  mode_factors<Value> phases() {
    return {as_complex(tables) + 120, as_complex(tables) + 300, as_complex(tables) + 320};
  }

  template <class A>
  void launch(const char* name, const A& arguments) {
    Stream stream(device);
    Kernel<A>(device->kernel<T>("turbulence", name))(stream, ny * nz, {row_threads}, arguments);
    stream.synchronize();
  }

  std::shared_ptr<Device> device;
  Array<T> block, fields, tables;
  Array<std::int32_t> kept;
  Array<double> rates;
};

// The same on both devices, and the kernel changed something.
template <class T>
void compare(const std::function<void(Problem<T>&)>& work) {
  Problem<T> found("fiber"), expected("host"), before("host");
  work(found);
  work(expected);
  for (Array<T> Problem<T>::* array : {&Problem<T>::block, &Problem<T>::fields}) {
    const std::vector<T> one = (found.*array).download(), other = (expected.*array).download();
    for (std::size_t i = 0; i < one.size(); ++i) {
      const T size = std::max<T>(1, std::abs(other[i]));
      ASSERT_NEAR(one[i], other[i], 40 * std::numeric_limits<T>::epsilon() * size) << "entry " << i;
    }
  }
  EXPECT_TRUE(expected.block.download() != before.block.download() ||
              expected.fields.download() != before.fields.download());
}

template <class T>
void compare_all() {
  using P = Problem<T>;
  using Value = complex_value<T>;
  compare<T>([](P& p) { p.launch("shift_modes", shift_arguments<T>{p.modes_view(), 3, p.part(), p.phases()}); });
  compare<T>([](P& p) {
    const auto k = p.numbers();
    p.launch("combine_products", combine_arguments<T>{p.modes_view(), 1, k.x, k.z});
  });
  for (const bool last : {false, true}) {
    for (const bool shifted : {false, true}) {
      const substep<T> step = last ? substep<T>{0, 1, 0, 0, T(0.3), 0} : substep<T>{2, 2, 1, 0, T(0.3), T(0.7)};
      compare<T>([&](P& p) {
        Value* u = P::as_complex(p.fields);
        const auto phases = shifted ? p.phases() : mode_factors<Value>{nullptr, nullptr, nullptr};
        p.launch("advance_velocity", advance_arguments<T>{p.modes_view(), p.part(), p.numbers(), p.numbers(), phases,
                                                          step, u, u + 3 * modes, u, modes});
      });
      compare<T>([&](P& p) {
        Value* u = P::as_complex(p.fields);
        const auto phases = shifted ? p.phases() : mode_factors<Value>{nullptr, nullptr, nullptr};
        p.launch("advance_scalar", scalar_arguments<T>{p.modes_view(), p.part(), p.numbers(), p.numbers(), phases, step,
                                                       u, u + modes, u, 1, shifted ? u + 2 * modes : nullptr});
      });
    }
  }
  compare<T>([](P& p) {
    p.launch("mean_gradient",
             gradient_arguments<T>{p.modes_view(), p.part(), T(0.1), T(0.2), T(0.3), P::as_complex(p.fields)});
  });
  for (const int count : {1, 3})
    compare<T>(
        [&](P& p) { p.launch("clean_modes", clean_arguments<T>{p.modes_view(), p.part(), p.numbers(), count}); });
}

// The maximum of Eq. 8's brackets, computed by the kernel from blocks of rows.
template <class T>
double largest_rate(Problem<T>& p) {
  Stream stream(p.device);
  const int blocks = (ny * nz + rows_per_block - 1) / rows_per_block;
  const Kernel<products_arguments<T>, double*> products =
      p.device->template kernel<T>("turbulence", "velocity_products");
  products(stream, blocks, {row_threads}, {p.points_view(), 1, T(2), T(3), T(5)}, p.rates.data());
  stream.synchronize();
  double largest = 0;
  const std::vector<double> rates = p.rates.download();
  for (int b = 0; b < blocks; ++b) {
    if (std::isnan(rates[b])) return rates[b];
    largest = std::max(largest, rates[b]);
  }
  return largest;
}

}  // namespace

TEST(TurbulenceKernels, AgreeWithTheHostsRows) {
  compare_all<double>();
  compare_all<float>();
}

TEST(TurbulenceKernels, ProductsAgreeAndTheLargestRateIsFound) {
  compare<double>([](Problem<double>& p) { largest_rate(p); });
  Problem<double> fibers("fiber"), host("host");
  const std::vector<double> values = host.block.download();
  double expected = 0;
  for (int i = 0; i < modes; ++i)
    expected = std::max(
        expected, 2 * std::abs(values[i]) + 3 * std::abs(values[modes + i]) + 5 * std::abs(values[2 * modes + i]));
  EXPECT_DOUBLE_EQ(largest_rate(host), expected);
  EXPECT_DOUBLE_EQ(largest_rate(fibers), expected);
}

TEST(TurbulenceKernels, OneVelocityThatIsNoNumberMakesTheRateNone) {
  for (const char* which : {"host", "fiber"}) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      for (const int at : {0, 100, modes - 1}) {
        Problem<double> p(which);
        std::vector<double> values = p.block.download();
        values[at] = bad;
        p.block.upload(values);
        EXPECT_FALSE(std::isfinite(largest_rate(p))) << which << " " << bad << " at " << at;
      }
    }
  }
}

TEST(TurbulenceKernels, TakingAwayEachBarrierMakesTheLargestRateWrong) {
  const auto rates = [] {
    Problem<double> p("fiber");
    std::vector<double> values(p.block.size(), 0.0);
    for (int i = 0; i < nx; ++i) values[i] = i + 1.0;  // the largest is not the first thread's own
    p.block.upload(values);
    return largest_rate(p);
  };
  fiber::take_barriers_met();
  const double right = rates();
  EXPECT_EQ(right, 2.0 * nx);
  const auto barriers = fiber::take_barriers_met();
  ASSERT_EQ(barriers.size(), 1u);
  for (const fiber::Barrier& barrier : barriers) {
    const fiber::WithoutBarrier removed(barrier);
    const double wrong = rates();
    EXPECT_TRUE(!(wrong == right)) << "without " << barrier.file << ":" << barrier.line;
  }
}

TEST(TurbulenceRandom, PhiloxGivesItsPublishedNumbers) {
  // Known answers of Random123 for 10 rounds.
  using turbulence::Counter;
  using turbulence::philox;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~std::uint64_t{0}), (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(TurbulenceRandom, NumbersHaveTheMomentsOfTheirDistributions) {
  double mean = 0, square = 0, normal_mean = 0, normal_square = 0;
  constexpr int n = 20000;
  for (std::uint32_t i = 0; i < n; ++i) {
    for (const double x : turbulence::uniform({i, 1, 2, 3}, 17)) {
      ASSERT_GT(x, 0);
      ASSERT_LT(x, 1);
      mean += x / (2 * n);
      square += x * x / (2 * n);
    }
    for (const double x : turbulence::normal({i, 1, 2, 4}, 17)) {
      normal_mean += x / (2 * n);
      normal_square += x * x / (2 * n);
    }
  }
  EXPECT_NEAR(mean, 0.5, 0.01);
  EXPECT_NEAR(square, 1.0 / 3, 0.01);
  EXPECT_NEAR(normal_mean, 0, 0.03);
  EXPECT_NEAR(normal_square, 1, 0.03);
}

TEST(TurbulenceTruncation, KeepsTheEllipsoidWithoutItsBoundary) {
  using turbulence::Dealiasing;
  const turbulence::Truncation sphere({.sizes = {96, 96, 96}}, Dealiasing::phase_shift);
  EXPECT_FALSE(sphere.keeps(32, 32, 0));  // 2/9 exactly: 2 k is its own alias
  EXPECT_TRUE(sphere.keeps(32, 31, 7));
  EXPECT_EQ(sphere.modes_x(), 46);  // sqrt(2) 96 / 3 = 45.25
  const turbulence::Truncation box({.sizes = {96, 96, 96}}, Dealiasing::two_thirds);
  EXPECT_TRUE(box.keeps(31, -31, 31));
  EXPECT_FALSE(box.keeps(32, 0, 0));
  EXPECT_EQ(box.modes_x(), 32);
  const turbulence::Truncation large({.sizes = {32768, 32768, 32768}}, Dealiasing::phase_shift);
  EXPECT_EQ(large.modes_x(), 15447);  // 15446.98…
  for (const Dealiasing dealiasing : {Dealiasing::phase_shift, Dealiasing::two_thirds}) {
    const turbulence::Truncation truncation({.sizes = {24, 20, 30}}, dealiasing);
    for (int y = -9; y <= 10; ++y) {
      for (int z = -14; z <= 15; ++z) {
        const auto kept = truncation.kept(y, z);
        for (int x = 0; x <= 12; ++x) ASSERT_EQ(truncation.keeps(x, y, z), x < kept) << x << " " << y << " " << z;
      }
    }
  }
}

TEST(TurbulenceTimeStep, TheLastTwoStepsBeforeTheEndAreOfEqualLength) {
  turbulence::Options options;
  options.courant = 0.5;
  turbulence::Clock now{.end = 1};
  std::vector<double> taken;
  while (now.end - now.time > 1e-12) {
    taken.push_back(turbulence::next_step(options, now, 0.5 / 0.3).dt);
    now.time += taken.back();
  }
  ASSERT_EQ(taken.size(), 4U);
  EXPECT_DOUBLE_EQ(taken[0], 0.3);
  EXPECT_DOUBLE_EQ(taken[1], 0.3);
  EXPECT_NEAR(taken[2], 0.2, 1e-12);
  EXPECT_NEAR(taken[3], 0.2, 1e-12);
}

TEST(TurbulenceTimeStep, ACourantNumberBeyondTheLimitAndAVelocityThatIsNotFiniteAreBlownUp) {
  turbulence::Options options;
  options.dt = 0.1;
  EXPECT_DOUBLE_EQ(turbulence::next_step(options, {}, 9.0).courant, 0.9);
  EXPECT_THROW(turbulence::next_step(options, {}, 11.0), turbulence::BlownUp);
  try {
    turbulence::next_step(options, {.steps = 4}, std::numeric_limits<double>::infinity());
    FAIL() << "not finite, and went on";
  } catch (const turbulence::BlownUp& error) {
    EXPECT_EQ(error.step, 5);
    EXPECT_TRUE(std::isnan(error.courant));
  }
}

TEST(TurbulenceTimeStep, OfAFlowAtRestTheLongestStepIsTakenAndWithoutOneNothingTellsIt) {
  turbulence::Options options;
  options.courant = 0.5;
  EXPECT_THROW(turbulence::next_step(options, {}, 0.0), mpi::CollectiveError);
  options.max_dt = 0.25;
  EXPECT_DOUBLE_EQ(turbulence::next_step(options, {}, 0.0).dt, 0.25);
}
