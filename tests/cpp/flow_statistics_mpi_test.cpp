// Integrals, extrema and the Courant number of known flows, on any number of ranks and with the GPU branch.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

#include "fiber_device.hpp"
#include "weft/element/gll.hpp"
#include "weft/flow/statistics.hpp"
#include "weft/mesh/points.hpp"

using namespace weft;
using namespace weft::flow;

namespace {

using Point = std::array<double, 3>;
using Vector = std::function<Point(const Point&)>;

template <class T>
struct Flow {
  space::Space<T> space;
  Statistics<T> statistics;
  device::Array<T> u;
  device::Stream stream;

  Flow(const mesh::Mesh& mesh, int order, const char* device, const Vector& velocity)
      : space(mesh, options(order, device)),
        statistics(space),
        u(space.device(), static_cast<std::size_t>(3 * space.entries())),
        stream(space.device()) {
    const std::vector<double> x = mesh::point_coordinates(mesh, order);
    const std::size_t points = x.size() / 3;
    std::vector<T> values(x.size());
    for (std::size_t p = 0; p < points; ++p) {
      const Point at = velocity({x[3 * p], x[3 * p + 1], x[3 * p + 2]});
      for (int c = 0; c < 3; ++c) values[c * points + p] = static_cast<T>(at[c]);
    }
    space.to_vectors(values, 3, u.data());
  }
  static space::Options options(int order, const char* device) {
    space::Options options;
    options.order = order;
    options.device = device::open(device);
    options.kernels = space::Kernels::portable;
    options.exchange = exchange::Choice{};  // nothing to time
    return options;
  }
};

constexpr std::array<std::array<double, 3>, 3> matrix{{{0.5, -1, 2}, {3, 0.25, -0.5}, {-2, 1.5, -1}}};
Point linear(const Point& x) {
  Point u{0.125, -0.25, 0.5};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) u[i] += matrix[i][j] * x[j];
  return u;
}

// Derivatives of linear functions are exact on curved elements too.
void check_linear(Flow<double>& flow, double within) {
  double vorticity = 0, strain = 0, all = 0, divergence = 0;
  for (int i = 0; i < 3; ++i) {
    divergence += matrix[i][i];
    for (int j = 0; j < 3; ++j) {
      all += matrix[i][j] * matrix[i][j];
      strain += std::pow((matrix[i][j] + matrix[j][i]) / 2, 2);
      if (i < j) vorticity += std::pow(matrix[i][j] - matrix[j][i], 2);
    }
  }
  const VelocityStatistics found = flow.statistics.velocity(flow.u.data(), flow.stream);
  EXPECT_NEAR(found.enstrophy, vorticity, within);
  EXPECT_NEAR(found.strain, strain, within);
  EXPECT_NEAR(found.gradient, all, within);
  EXPECT_NEAR(found.divergence, std::abs(divergence), within);
  EXPECT_NEAR(found.largest_divergence, std::abs(divergence), 10 * within);
  const auto fields = flow.statistics.fields(flow.u.data(), 3, flow.stream);
  double energy = 0;
  for (int i = 0; i < 3; ++i) {
    double low = linear({0, 0, 0})[i], high = low, mean = low, spread = 0;
    const Point upper{1, 0.8, 0.6};
    for (int j = 0; j < 3; ++j) {
      (matrix[i][j] < 0 ? low : high) += matrix[i][j] * upper[j];
      mean += matrix[i][j] * upper[j] / 2;
      spread += std::pow(matrix[i][j] * upper[j], 2) / 12;
    }
    energy += (mean * mean + spread) / 2;
    EXPECT_NEAR(fields[i].smallest, low, within);
    EXPECT_NEAR(fields[i].largest, high, within);
    EXPECT_NEAR(fields[i].mean, mean, within);
    EXPECT_NEAR(fields[i].mean_square, mean * mean + spread, within);
  }
  EXPECT_NEAR(found.energy, energy, within);
}

mesh::Mesh box(const char* deformation) {
  return mesh::make_box({.counts = {3, 2, 2}, .upper = {1, 0.8, 0.6}, .deformation = deformation}, mpi::Comm());
}

TEST(FlowStatistics, OfLinearVelocitiesAreExactOnStraightAndOnCurvedElements) {
  for (const int order : {4, 7}) {
    Flow<double> straight(box("none"), order, "host", linear);
    check_linear(straight, 1e-11);
  }
  // Curved: products of linear functions and the Jacobian, which 12 points per direction integrate exactly.
  Flow<double> curved(box("smooth"), 11, "host", linear);
  check_linear(curved, 1e-9);
}

TEST(FlowStatistics, AreTheSameOnAGpusBranchWhateverTheOrderOfTheThreads) {
  for (const auto& [deformation, order] : {std::pair("none", 3), {"smooth", 3}, {"none", 9}}) {
    Flow<double> host(box(deformation), order, "host", linear), gpu(box(deformation), order, "fiber", linear);
    const VelocityStatistics a = host.statistics.velocity(host.u.data(), host.stream);
    const double rate = host.statistics.courant_rate(host.u.data(), host.stream);
    for (unsigned seed = 1; seed <= 2; ++seed) {
      fiber::seed(seed);
      const VelocityStatistics b = gpu.statistics.velocity(gpu.u.data(), gpu.stream);
      EXPECT_NEAR(a.energy, b.energy, 1e-12);
      EXPECT_NEAR(a.enstrophy, b.enstrophy, 1e-11);
      EXPECT_NEAR(a.strain, b.strain, 1e-11);
      EXPECT_NEAR(a.divergence, b.divergence, 1e-12);
      EXPECT_NEAR(a.largest_divergence, b.largest_divergence, 1e-11);
      EXPECT_NEAR(rate, gpu.statistics.courant_rate(gpu.u.data(), gpu.stream), 1e-11);
      const auto fields = host.statistics.fields(host.u.data(), 3, host.stream),
                 same = gpu.statistics.fields(gpu.u.data(), 3, gpu.stream);
      for (int f = 0; f < 3; ++f) {
        EXPECT_NEAR(fields[f].mean, same[f].mean, 1e-12);
        EXPECT_EQ(fields[f].smallest, same[f].smallest);
        EXPECT_EQ(fields[f].largest, same[f].largest);
      }
    }
  }
}

TEST(FlowStatistics, AreWrongWithoutAnyOneOfTheirBarriers) {
  Flow<double> gpu(box("none"), 8, "fiber", linear);
  const auto all = [&] {
    const VelocityStatistics v = gpu.statistics.velocity(gpu.u.data(), gpu.stream);
    std::vector<double> values{
        v.energy,     v.enstrophy,          v.strain,
        v.divergence, v.largest_divergence, gpu.statistics.courant_rate(gpu.u.data(), gpu.stream)};
    for (const FieldStatistics& f : gpu.statistics.fields(gpu.u.data(), 3, gpu.stream))
      values.insert(values.end(), {f.mean, f.mean_square, f.smallest, f.largest});
    return values;
  };
  fiber::take_barriers_met();
  const std::vector<double> expected = all();
  int removed = 0;
  for (const fiber::Barrier& barrier : fiber::take_barriers_met()) {
    if (barrier.file != "flow_measures.hpp") continue;
    ++removed;
    bool wrong = false;
    const fiber::WithoutBarrier without(barrier);
    for (int attempt = 0; attempt < 3; ++attempt) wrong = wrong || all() != expected;
    // With few blocks, not every rank may notice; one that does is enough.
    EXPECT_EQ(mpi::Comm().max(wrong ? 1.0 : 0.0), 1.0) << "line " << barrier.line;
  }
  EXPECT_EQ(removed, 5);
}

TEST(FlowStatistics, OfTheTaylorGreenVortexAreItsKnownMeans) {
  constexpr double pi = std::numbers::pi;
  const mesh::Mesh mesh = mesh::make_box(
      {.counts = {4, 4, 4}, .upper = {2 * pi, 2 * pi, 2 * pi}, .periodic = {true, true, true}}, mpi::Comm());
  const Vector vortex = [](const Point& x) {
    return Point{std::sin(x[0]) * std::cos(x[1]) * std::cos(x[2]), -std::cos(x[0]) * std::sin(x[1]) * std::cos(x[2]),
                 0};
  };
  Flow<double> flow(mesh, 9, "host", vortex);
  const VelocityStatistics found = flow.statistics.velocity(flow.u.data(), flow.stream);
  EXPECT_NEAR(found.energy, 0.125, 1e-9);
  EXPECT_NEAR(found.enstrophy, 0.75, 1e-8);
  EXPECT_NEAR(found.strain, 0.375, 1e-8);
  EXPECT_NEAR(found.gradient, 0.75, 1e-8);
  EXPECT_LT(found.divergence, 1e-7);
  Flow<float> single(mesh, 9, "host", vortex);
  const VelocityStatistics rough = single.statistics.velocity(single.u.data(), single.stream);
  EXPECT_NEAR(rough.energy, 0.125, 1e-6);
  EXPECT_NEAR(rough.enstrophy, 0.75, 1e-4);
  EXPECT_LT(rough.divergence, 1e-3);
}

TEST(FlowStatistics, TheCourantNumberIsThatOfTheSmallestSpacing) {
  const int order = 5;
  Flow<double> flow(box("none"), order, "host", [](const Point&) { return Point{1, -2, 0.5}; });
  const auto& x = element::gll(order).points;
  const double spacing = (x[1] - x[0]) / 2;  // of elements of length 1
  const double expected = (3 / 1.0 + 2 * 2 / 0.8 + 0.5 * 2 / 0.6) / spacing;
  EXPECT_NEAR(flow.statistics.courant_rate(flow.u.data(), flow.stream), expected, 1e-10 * expected);
}

TEST(FlowStatistics, OneValueThatIsNoNumberShowsInAllOfThem) {
  Flow<double> flow(box("none"), 4, "host",
                    [](const Point& x) { return Point{x[0] == 0 && x[1] == 0 && x[2] == 0 ? NAN : 1, 0, 0}; });
  const VelocityStatistics found = flow.statistics.velocity(flow.u.data(), flow.stream);
  EXPECT_TRUE(std::isnan(found.energy));
  EXPECT_TRUE(std::isnan(found.enstrophy));
}

}  // namespace
