// Maxwell's kernels: compared with the definition, with thread blocks of points and of columns, and as a GPU would run
// them.
#include <gtest/gtest.h>

#include <cmath>

#include "fiber_device.hpp"
#include "maxwell_checks.hpp"
#include "weft/element/gll.hpp"

using namespace weft;
using namespace weft::maxwell;

namespace {

mesh::Mesh box(std::array<std::int64_t, 3> counts) {
  return mesh::make_box(
      {.counts = counts, .upper = {1, 0.8, 0.6}, .periodic = {true, false, false}, .deformation = "smooth"},
      mpi::Comm::self());
}

// J curl H = sum_d x_d eps_dlm D_l (H . x_m), one sum per derivative.
std::vector<double> curl_by_definition(const Geometry& shape, int order, const std::vector<double>& fields) {
  const auto& derivative = element::gll(order).derivative;
  const int n = order + 1, points = n * n * n;
  std::vector<double> result(fields.size());
  for (std::size_t e = 0; e < shape.spacing.size(); ++e) {
    const double* g = shape.jacobian.data() + e * 9 * points;
    for (int which = 0; which < 2; ++which) {
      const double* u = fields.data() + (e * 6 + 3 * which) * points;
      const auto covariant = [&](int m, int p) {
        return g[3 * m * points + p] * u[p] + g[(3 * m + 1) * points + p] * u[points + p] +
               g[(3 * m + 2) * points + p] * u[2 * points + p];
      };
      for (int p = 0; p < points; ++p) {
        const std::array<int, 3> at{p % n, p / n % n, p / (n * n)}, stride{1, n, n * n};
        const auto slope = [&](int direction, int m) {
          double sum = 0;
          for (int q = 0; q < n; ++q)
            sum += derivative[at[direction] * n + q] * covariant(m, p + (q - at[direction]) * stride[direction]);
          return sum;
        };
        const auto x = [&](int d, int c) { return g[(3 * d + c) * points + p]; };
        double jacobian = 0;
        for (int d = 0; d < 3; ++d)
          jacobian += x(0, d) * (x(1, (d + 1) % 3) * x(2, (d + 2) % 3) - x(1, (d + 2) % 3) * x(2, (d + 1) % 3));
        for (int d = 0; d < 3; ++d) {
          const int l = (d + 1) % 3, m = (d + 2) % 3;
          const double curl = (slope(l, m) - slope(m, l)) / jacobian;
          for (int c = 0; c < 3; ++c) result[(e * 6 + 3 * (1 - which) + c) * points + p] += x(d, c) * curl;
        }
      }
    }
  }
  return result;
}

class EveryOrder : public testing::TestWithParam<int> {};

TEST_P(EveryOrder, BothCurlKernelsMatchTheDefinition) {
  const int order = GetParam();
  const mesh::Mesh mesh = box({2, 1, 1});
  const auto host = device::open("host");
  const Geometry shape = geometry(mesh, order);
  const auto fields = test::smooth_fields<double>(mesh, order);
  const auto expected = curl_by_definition(shape, order, fields);
  Coefficients coefficients{{0.5, 0.25, 0.3, 0, 2, 4, 0, 0}, std::vector<double>(48)};
  const std::size_t half = fields.size() / 2, third = half / 6;
  double scale = 0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (const Threads threads : {Threads::points, Threads::columns}) {
    const LocalOperator<double> local(shape, coefficients, order, threads, host);
    std::vector<double> residual(fields.size(), 7.0);
    device::Stream stream(host);
    local.curl(-0.5, 2, fields.data(), residual.data(), stream);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t element = i / half;
      const bool electric = i % half / third < 3;
      const double* media = coefficients.media.data() + 4 * element;
      const double rate = electric ? media[0] * expected[i] - media[2] * fields[i] : -media[1] * expected[i];
      ASSERT_NEAR(residual[i], -3.5 + 2 * rate, 2e-13 * scale * (order + 1)) << name(threads) << " " << i;
    }
    std::fill(residual.begin(), residual.end(), std::nan(""));  // the previous content does not matter
    local.curl(0, 2, fields.data(), residual.data(), stream);
    for (const double value : residual) ASSERT_TRUE(std::isfinite(value));
  }
}
INSTANTIATE_TEST_SUITE_P(Maxwell, EveryOrder, testing::Range(1, 16));

// Three steps with all features.
std::map<std::int64_t, std::vector<double>> run(const char* device, Threads threads) {
  const mesh::Mesh mesh = box({3, 1, 1});
  Options options = test::maxwell_options(mesh, 3, device, true);
  options.threads = threads;
  return test::trajectory<double>(mesh, options, 3, 0.01);
}

class GpuBranch : public testing::TestWithParam<Threads> {};

TEST_P(GpuBranch, IsRightWhateverTheOrderOfTheThreads) {
  const auto expected = run("host", Threads::points);
  for (unsigned seed = 1; seed <= 2; ++seed) {
    fiber::seed(seed);
    test::expect_same_by_element(run("fiber", GetParam()), expected, 1e-12);
  }
}

TEST_P(GpuBranch, IsWrongWithoutAnyOneOfItsBarriers) {
  const mesh::Mesh mesh = box({3, 1, 1});
  Options options = test::maxwell_options(mesh, 3, "fiber", false);
  options.threads = GetParam();
  const auto rates_and_energy = [&] {
    Operator<double> op(mesh, options);
    device::Array<double> fields(options.device, test::smooth_fields<double>(mesh, 3));
    device::Array<double> rates(options.device, fields.size());
    device::Stream stream(options.device);
    op.apply(0, fields.data(), rates.data(), stream);
    stream.synchronize();
    auto values = rates.download();
    const auto [electric, magnetic] = op.energy(fields.data(), stream);
    values.push_back(electric + magnetic);
    return values;
  };
  fiber::take_barriers_met();
  const auto expected = rates_and_energy();
  int removed = 0;
  for (const fiber::Barrier& barrier : fiber::take_barriers_met()) {
    if (barrier.file != "maxwell.hpp" && barrier.file != "block_sum.hpp") continue;
    ++removed;
    const fiber::WithoutBarrier without(barrier);
    EXPECT_NE(rates_and_energy(), expected) << "without the barrier at line " << barrier.line;
  }
  EXPECT_EQ(removed, 2);  // one of the curl and one of the energy's sum
}
INSTANTIATE_TEST_SUITE_P(Maxwell, GpuBranch, testing::Values(Threads::points, Threads::columns));

TEST(MaxwellBlocks, FitTheLimitsOfAGpu) {
  for (int order = 1; order <= 15; ++order)
    for (const int bytes : {4, 8}) {
      const Threads threads = threads_for(order);
      const int n = order + 1, tile = elements_per_block(order, threads, bytes);
      EXPECT_LE(tile * n * n * (threads == Threads::points ? n : 2), 512) << order;
      EXPECT_GE(tile, 1) << order;
    }
}

}  // namespace
