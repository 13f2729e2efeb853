// The local operator y_L = (S_L + lambda W) Z x against dense matrices computed from the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "fiber_device.hpp"
#include "shape_meshes.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/poisson/local_operator.hpp"

using namespace weft;
using mesh::Shape;
using poisson::Geometry;
using poisson::Threads;

namespace {

constexpr int elements = 6;  // of which 1..5 are processed: full and incomplete tiles

// Elements of one shape, or of all shapes in turn: with geometry stored and mixed, in their own order and ordered by
// shape.
struct Kind {
  const char* name;
  Geometry geometry;
  std::array<Shape, elements> shapes;
};
constexpr std::array<Shape, elements> all_of(Shape s) { return {s, s, s, s, s, s}; }
constexpr Kind stored{"stored", Geometry::stored, all_of(Shape::curved)};
constexpr Kind trilinear{"trilinear", Geometry::mixed, all_of(Shape::trilinear)};
constexpr Kind affine{"affine", Geometry::mixed, all_of(Shape::affine)};
constexpr Kind boxes{"boxes", Geometry::mixed, all_of(Shape::box)};
constexpr Kind every_shape{"every shape",
                           Geometry::mixed,
                           {Shape::box, Shape::curved, Shape::box, Shape::affine, Shape::trilinear, Shape::curved}};
constexpr std::array kinds{stored, trilinear, affine, boxes, every_shape};

// D^T G D u + lambda W u for one element, one sum per line of D.
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

// Of y on elements [1, elements); or, with `product`, of y and u . y on all elements.
template <class T>
double largest_error(int order, Threads threads, const Kind& kind, bool indirect,
                     const std::shared_ptr<device::Device>& device, bool product = false) {
  const mesh::Mesh mesh = test::row_of(kind.shapes);
  const auto factors = mesh::geometric_factors(mesh, order);
  const std::size_t points = factors.mass.size(), each = points / elements;
  std::mt19937_64 random(order);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> w(points), u(points);
  for (auto& value : w) value = 0.5 + 0.4 * uniform(random);
  for (auto& value : u) value = static_cast<T>(uniform(random));
  std::vector<std::int32_t> index;
  std::vector<T> x(points);
  if (indirect) {  // a permutation, and one masked point that reads the zero after the vector
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
  options.geometry = kind.geometry;
  options.threads = threads;
  options.device = device;
  std::array<std::int64_t, elements> own_order;
  std::iota(own_order.begin(), own_order.end(), 0);
  poisson::LocalOperator<T> local(mesh, options, index, w, own_order);
  for (const Shape shape : mesh::all_shapes) {
    const bool as_affine = threads == Threads::points && shape == Shape::box;
    const std::int64_t found = local.elements_by_shape()[static_cast<int>(shape)];
    if (!as_affine && (threads != Threads::points || shape != Shape::affine)) {
      EXPECT_EQ(found, std::ranges::count(kind.shapes, shape));
    }
  }
  device::Array<T> in(device, x), out(device, points);
  out.upload(std::vector<T>(points, T(-7)));
  device::Stream stream(device);
  device::Array<double> sums(device, product ? local.product_partials() : 0);
  if (product)
    local.apply(in.data(), out.data(), sums.data(), stream);
  else
    local.apply(in.data(), out.data(), 1, elements, stream);
  stream.synchronize();
  const std::vector<T> y = out.download();
  for (std::size_t p = 0; p < each && !product; ++p)
    if (y[p] != T(-7)) return std::nan("");  // an element outside [begin, end) was written
  double largest = 0, scale = 0, sum = 0;
  for (int e = product ? 0 : 1; e < elements; ++e) {
    const auto expected =
        reference_apply(order, factors.g.data() + 6 * e * each, w.data() + e * each, 0.7, u.data() + e * each);
    for (std::size_t p = 0; p < each; ++p) {
      largest = std::max(largest, std::abs(y[e * each + p] - expected[p]));
      if (!(std::abs(y[e * each + p]) < 1e30)) return std::nan("");
      scale = std::max(scale, std::abs(expected[p]));
      sum += u[e * each + p] * expected[p];
    }
  }
  if (!product) return largest / scale;
  double found = 0;
  for (const double part : sums.download()) found += part;
  return std::isnan(found) ? found : std::max(largest / scale, std::abs(found - sum) / sum);
}

// The reference's factors are computed from derivatives of the nodes, whose rounding errors grow like n²: on a box of
// equal elements they vary by 3e-14 at N = 7 and 1.7e-13 at N = 15. Stored factors are the reference's own.
double rounding(int order, const Kind& kind) {
  const double of_derivatives = 4.4e-16 * (order + 1) * (order + 1);
  return kind.geometry == Geometry::stored ? 2e-14 : std::max(2e-14, of_derivatives);
}

class EveryOrder : public testing::TestWithParam<int> {};

TEST_P(EveryOrder, KernelsMatchTheDefinition) {
  const auto host = device::open("host");
  for (const Threads threads : {Threads::points, Threads::columns, Threads::matrices})
    for (const Kind& kind : kinds)
      for (const bool indirect : {false, true}) {
        SCOPED_TRACE(poisson::name(threads) + ", " + kind.name + (indirect ? ", indirect" : ""));
        if (threads == Threads::matrices) {
          if (poisson::matrices_fit(GetParam(), sizeof(double))) {
            EXPECT_LT(largest_error<double>(GetParam(), threads, kind, indirect, host), rounding(GetParam(), kind));
          }
          continue;
        }
        EXPECT_LT(largest_error<double>(GetParam(), threads, kind, indirect, host), rounding(GetParam(), kind));
        EXPECT_LT(largest_error<float>(GetParam(), threads, kind, indirect, host), 1e-5);
      }
}

TEST_P(EveryOrder, KernelsGiveTheProductWithTheirResult) {
  const auto host = device::open("host");
  for (const Threads threads : {Threads::columns, Threads::matrices})
    for (const Kind& kind : kinds) {
      if (threads == Threads::matrices && !poisson::matrices_fit(GetParam(), sizeof(double))) continue;
      SCOPED_TRACE(poisson::name(threads) + ", " + kind.name);
      EXPECT_LT(largest_error<double>(GetParam(), threads, kind, true, host, true), rounding(GetParam(), kind));
      if (threads == Threads::matrices) continue;
      EXPECT_LT(largest_error<float>(GetParam(), threads, kind, true, host, true), 1e-5);
    }
}
INSTANTIATE_TEST_SUITE_P(Poisson, EveryOrder, testing::Range(1, 16));

struct GpuCase {
  int order;
  Threads threads;
  Kind kind;
  std::size_t barriers;
  double allowed = 1e-14;  // largest error
};
class GpuBranch : public testing::TestWithParam<GpuCase> {
 protected:
  static double error(bool product = false) {
    const GpuCase& c = GetParam();
    return largest_error<double>(c.order, c.threads, c.kind, true, device::open("fiber"), product);
  }
  static bool has_product() { return GetParam().threads != Threads::points; }
};

TEST_P(GpuBranch, IsRightWhateverTheOrderOfTheThreads) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    fiber::seed(seed);
    EXPECT_LT(error(), GetParam().allowed) << "seed " << seed;
    if (has_product()) {
      EXPECT_LT(error(true), GetParam().allowed) << "with the product, seed " << seed;
    }
  }
}

TEST_P(GpuBranch, IsWrongWithoutAnyOneOfItsBarriers) {
  fiber::take_barriers_met();
  ASSERT_LT(error(), GetParam().allowed);
  const auto barriers = fiber::take_barriers_met();
  EXPECT_EQ(barriers.size(), GetParam().barriers);
  for (const fiber::Barrier& barrier : barriers) {
    const fiber::WithoutBarrier removed(barrier);
    EXPECT_FALSE(error() < 1e-6) << "without the barrier at line " << barrier.line;
  }
  if (!has_product()) return;
  ASSERT_LT(error(true), GetParam().allowed);
  for (const fiber::Barrier& barrier : fiber::take_barriers_met()) {
    const fiber::WithoutBarrier removed(barrier);
    EXPECT_FALSE(error(true) < 1e-6) << "with the product, without the barrier at line " << barrier.line;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Poisson, GpuBranch,
    testing::Values(GpuCase{3, Threads::points, stored, 2}, GpuCase{4, Threads::points, trilinear, 2},
                    GpuCase{4, Threads::points, affine, 2}, GpuCase{3, Threads::columns, trilinear, 4},
                    GpuCase{4, Threads::columns, stored, 4}, GpuCase{3, Threads::columns, affine, 4},
                    GpuCase{4, Threads::columns, boxes, 2}, GpuCase{12, Threads::columns, stored, 4},
                    GpuCase{12, Threads::columns, trilinear, 4, rounding(12, trilinear)},
                    GpuCase{13, Threads::columns, stored, 4}, GpuCase{14, Threads::columns, stored, 4},
                    GpuCase{15, Threads::columns, stored, 4, 2e-14}, GpuCase{3, Threads::matrices, trilinear, 4},
                    GpuCase{3, Threads::matrices, affine, 4}, GpuCase{7, Threads::matrices, trilinear, 4},
                    GpuCase{15, Threads::matrices, trilinear, 6, rounding(15, trilinear)},
                    GpuCase{15, Threads::matrices, affine, 6, rounding(15, affine)}));

// The kernels launched are those of the cases above.
TEST(PoissonLocalOperator, TakesElementsOfEveryShapeOnAGpu) {
  for (const Threads threads : {Threads::points, Threads::columns, Threads::matrices})
    EXPECT_LT(largest_error<double>(3, threads, every_shape, true, device::open("fiber")), 1e-14);
}

// Without inverse degrees, the lambda term is left to the caller; in the mesh's own order, all elements count as the
// most general among them.
TEST(PoissonLocalOperator, LeavesLambdaOutWithoutInverseDegrees) {
  const mesh::Mesh mesh = test::row_of(every_shape.shapes);
  const std::size_t points = elements * 64;
  std::vector<double> ones(points, 1.0);
  std::array<std::int64_t, elements> own_order;
  std::iota(own_order.begin(), own_order.end(), 0);
  poisson::Options options;
  options.order = 3;
  options.device = device::open("host");
  const auto applied = [&](Geometry geometry, double lambda, std::span<const double> degrees,
                           std::span<const std::int64_t> order) {
    options.geometry = geometry;
    options.lambda = lambda;
    const poisson::LocalOperator<double> local(mesh, options, {}, degrees, order);
    device::Array<double> y(options.device, points);
    std::vector<double> x(points);
    for (std::size_t p = 0; p < points; ++p) x[p] = std::sin(static_cast<double>(p));
    device::Stream stream(options.device);
    local.apply(device::Array<double>(options.device, x).data(), y.data(), 0, elements, stream);
    stream.synchronize();
    const auto by_shape = local.elements_by_shape();
    EXPECT_EQ(by_shape[3], order.empty() || geometry == Geometry::stored ? elements : 2);
    const auto bytes = local.memory_bytes();
    EXPECT_EQ(bytes.at("geometric factors" + std::string(degrees.empty() ? "" : " and inverse degrees")),
              by_shape[3] * 64 * (degrees.empty() ? 6 : 7) * 8);
    if (!order.empty() && geometry == Geometry::mixed) {
      EXPECT_EQ(bytes.at("trilinear maps"), 24 * 8);
      EXPECT_EQ(bytes.at("metrics of parallelepipeds"), 3 * 6 * 8);
    }
    return y.download();
  };
  const std::vector<double> expected = applied(Geometry::stored, 0, ones, own_order);
  const double largest = std::abs(*std::ranges::max_element(expected, {}, [](double v) { return std::abs(v); }));
  for (const auto& found : {applied(Geometry::mixed, 0.7, {}, own_order), applied(Geometry::mixed, 0.7, {}, {}),
                            applied(Geometry::mixed, 0, ones, own_order)})
    for (std::size_t p = 0; p < points; ++p) ASSERT_NEAR(found[p], expected[p], 1e-14 * largest) << p;
}

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

TEST(PoissonLocalOperator, RefusesMatricesOfOtherOrdersAndInSinglePrecision) {
  const auto mesh = mesh::make_box({.counts = {2, 2, 2}}, mpi::Comm::self());
  poisson::Options options;
  options.threads = Threads::matrices;
  options.device = device::open("host");
  options.order = 4;
  EXPECT_THROW(poisson::LocalOperator<double>(mesh, options, {}, {}), std::invalid_argument);
  options.order = 7;
  EXPECT_THROW(poisson::LocalOperator<float>(mesh, options, {}, {}), std::invalid_argument);
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
