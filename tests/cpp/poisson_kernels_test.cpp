// The local operator y_L = (S_L + lambda W) Z x against dense matrices written out from the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "fiber_device.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/poisson/local_operator.hpp"

using namespace weft;
using poisson::Geometry;
using poisson::Threads;

namespace {

constexpr int elements = 6;  // of which 1..5 are worked on: full and incomplete tiles

mesh::Mesh deformed_box() {
  mesh::BoxOptions options{.counts = {6, 1, 1}, .deformation = "kershaw", .deformation_parameter = 0.6};
  return mesh::make_box(options, mpi::Comm::self());
}

// D^T G D u + lambda W u of one element, one sum a line of D.
std::vector<double> reference_apply(int order, const double* g, const double* w, double lambda, const double* u) {
  const auto& derivative = element::gll(order).derivative;
  const int n = order + 1;
  auto at = [n](int i, int j, int k) { return (k * n + j) * n + i; };
  auto d = [&](int i, int m) { return derivative[i * n + m]; };
  std::vector<double> fr(n * n * n), fs(n * n * n), ft(n * n * n), y(n * n * n);
  for (int k = 0; k < n; ++k)
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i) {
        double r = 0, s = 0, t = 0;
        for (int m = 0; m < n; ++m) {
          r += d(i, m) * u[at(m, j, k)];
          s += d(j, m) * u[at(i, m, k)];
          t += d(k, m) * u[at(i, j, m)];
        }
        const double* f = g + 6 * at(i, j, k);
        fr[at(i, j, k)] = f[0] * r + f[1] * s + f[2] * t;
        fs[at(i, j, k)] = f[1] * r + f[3] * s + f[4] * t;
        ft[at(i, j, k)] = f[2] * r + f[4] * s + f[5] * t;
      }
  for (int k = 0; k < n; ++k)
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i) {
        double sum = lambda * w[at(i, j, k)] * u[at(i, j, k)];
        for (int m = 0; m < n; ++m)
          sum += d(m, i) * fr[at(m, j, k)] + d(m, j) * fs[at(i, m, k)] + d(m, k) * ft[at(i, j, m)];
        y[at(i, j, k)] = sum;
      }
  return y;
}

template <class T>
double largest_error(int order, Threads threads, Geometry geometry, bool indirect,
                     const std::shared_ptr<device::Device>& device) {
  const mesh::Mesh mesh = deformed_box();
  const auto factors = mesh::geometric_factors(mesh, order);
  const std::size_t points = factors.mass.size(), each = points / elements;
  std::mt19937_64 random(order);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> w(points), u(points);
  for (auto& value : w) value = 0.5 + 0.4 * uniform(random);
  for (auto& value : u) value = static_cast<T>(uniform(random));
  std::vector<std::int32_t> index;
  std::vector<T> x(points);
  if (indirect) {  // a permutation, and one masked point that reads the zero behind the vector
    index.resize(points);
    for (std::size_t p = 0; p < points; ++p) index[p] = static_cast<std::int32_t>(p);
    std::shuffle(index.begin(), index.end(), random);
    for (std::size_t p = 0; p < points; ++p) x[index[p]] = static_cast<T>(u[p]);
    index[5] = static_cast<std::int32_t>(points);
    u[5] = 0;
    x.push_back(0);
  } else {
    for (std::size_t p = 0; p < points; ++p) x[p] = static_cast<T>(u[p]);
  }

  poisson::Options options;
  options.order = order;
  options.lambda = 0.7;
  options.geometry = geometry;
  options.threads = threads;
  options.device = device;
  const poisson::LocalOperator<T> local(mesh, options, index, w);
  device::Array<T> in(device, x), out(device, points);
  out.upload(std::vector<T>(points, T(-7)));
  device::Stream stream(device);
  local.apply(in.data(), out.data(), 1, elements, stream);
  stream.synchronize();
  const std::vector<T> y = out.download();
  for (std::size_t p = 0; p < each; ++p)
    if (y[p] != T(-7)) return std::nan("");  // an element outside [begin, end) was written
  double largest = 0, scale = 0;
  for (int e = 1; e < elements; ++e) {
    const auto expected =
        reference_apply(order, factors.g.data() + 6 * e * each, w.data() + e * each, 0.7, u.data() + e * each);
    for (std::size_t p = 0; p < each; ++p) {
      largest = std::max(largest, std::abs(y[e * each + p] - expected[p]));
      if (!(std::abs(y[e * each + p]) < 1e30)) return std::nan("");
      scale = std::max(scale, std::abs(expected[p]));
    }
  }
  return largest / scale;
}

class EveryOrder : public testing::TestWithParam<int> {};

TEST_P(EveryOrder, KernelsMatchTheDefinition) {
  const auto host = device::open("host");
  for (const Threads threads : {Threads::points, Threads::columns})
    for (const Geometry geometry : {Geometry::stored, Geometry::trilinear})
      for (const bool indirect : {false, true}) {
        SCOPED_TRACE(poisson::name(threads) + ", " + poisson::name(geometry) + (indirect ? ", indirect" : ""));
        EXPECT_LT(largest_error<double>(GetParam(), threads, geometry, indirect, host), 2e-14);
        EXPECT_LT(largest_error<float>(GetParam(), threads, geometry, indirect, host), 1e-5);
      }
}
INSTANTIATE_TEST_SUITE_P(Poisson, EveryOrder, testing::Range(1, 16));

struct GpuCase {
  int order;
  Threads threads;
  Geometry geometry;
};
class GpuBranch : public testing::TestWithParam<GpuCase> {
 protected:
  static double error() {
    const auto [order, threads, geometry] = GetParam();
    return largest_error<double>(order, threads, geometry, true, device::open("fiber"));
  }
};

TEST_P(GpuBranch, IsRightWhateverTheOrderOfTheThreads) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    fiber::seed(seed);
    EXPECT_LT(error(), 1e-14) << "seed " << seed;
  }
}

TEST_P(GpuBranch, IsWrongWithoutAnyOneOfItsBarriers) {
  fiber::take_barriers_met();
  ASSERT_LT(error(), 1e-14);
  const auto barriers = fiber::take_barriers_met();
  EXPECT_EQ(barriers.size(), GetParam().threads == Threads::points ? 2u : 4u);
  for (const fiber::Barrier& barrier : barriers) {
    const fiber::WithoutBarrier removed(barrier);
    EXPECT_FALSE(error() < 1e-6) << "without the barrier at line " << barrier.line;
  }
}

INSTANTIATE_TEST_SUITE_P(Poisson, GpuBranch,
                         testing::Values(GpuCase{3, Threads::points, Geometry::stored},
                                         GpuCase{4, Threads::points, Geometry::trilinear},
                                         GpuCase{3, Threads::columns, Geometry::trilinear},
                                         GpuCase{4, Threads::columns, Geometry::stored}));

TEST(PoissonBlocks, FitTheLimitsOfAGpu) {
  for (int order = 1; order <= 15; ++order)
    for (const Threads threads : {Threads::points, Threads::columns}) {
      if (threads == Threads::points && order > 9) continue;
      for (const int bytes : {4, 8}) {
        const int tile = poisson::elements_per_block(order, threads, bytes);
        const int block = tile * poisson::threads_per_element(order, threads, bytes);
        EXPECT_LE(block, 1024) << order;
        EXPECT_GE(block, 60) << order;
        EXPECT_GE(block / (32.0 * ((block + 31) / 32)), 0.75) << order;
      }
    }
}

TEST(PoissonLocalOperator, RefusesTrilinearGeometryOnACurvedMesh) {
  const auto mesh = mesh::make_box({.counts = {2, 2, 2}, .deformation = "smooth"}, mpi::Comm::self());
  poisson::Options options;
  options.order = 2;
  options.geometry = Geometry::trilinear;
  options.device = device::open("host");
  EXPECT_THROW(poisson::LocalOperator<double>(mesh, options, {}, {}), std::invalid_argument);
}

}  // namespace
