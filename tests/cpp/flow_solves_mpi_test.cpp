// The linear solves of a flow: several fields in the Poisson operator, conjugate gradients of components, projection
// onto earlier solutions, the pressure's and the Helmholtz problem.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "coarse_solver.hpp"
#include "fiber_device.hpp"
#include "noise.hpp"
#include "weft/flow/helmholtz.hpp"
#include "weft/flow/pressure.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/solver/cg.hpp"

using namespace weft;
using poisson::Geometry;
using poisson::Kernels;

namespace {

mesh::Mesh box(const std::string& deformation = "smooth", std::array<bool, 3> periodic = {true, false, false},
               std::array<std::int64_t, 3> counts = {4, 3, 3}) {
  return mesh::make_box({.counts = counts, .periodic = periodic, .deformation = deformation}, mpi::Comm());
}

poisson::Options options_for(int order, Kernels kernels = Kernels::simd, Geometry geometry = Geometry::stored,
                             const std::string& device = "host") {
  poisson::Options options;
  options.order = order;
  options.lambda = 0;
  options.kernels = kernels;
  options.geometry = geometry;
  options.exchange = {exchange::Schedule::pairwise, exchange::Path::direct};
  options.device = device::open(device);
  return options;
}

// [fields][entries]: owned entries depend on the global id, the others are NaN except the zero slot.
template <class T>
std::vector<T> noise_fields(const poisson::Operator<T>& op, int fields, int seed) {
  const std::vector<std::int64_t> ids = op.unknown_ids();
  std::vector<T> values(fields * op.entries(), std::nan(""));
  for (int f = 0; f < fields; ++f) {
    T* const field = values.data() + f * op.entries();
    for (std::size_t i = 0; i < ids.size(); ++i) field[i] = static_cast<T>(noise(ids[i], seed + f));
    field[op.entries() - 1] = 0;
  }
  return values;
}

template <class T>
double product(const poisson::Operator<T>& op, const T* x, const T* y) {
  double sum = std::inner_product(x, x + op.unknowns(), y, 0.0);
  op.comm().sum(&sum, 1);
  return sum;
}

// S on a space, and work space for solves with it.
template <class T>
struct Solves {
  Solves(const mesh::Mesh& mesh, const poisson::Options& options)
      : space(mesh, options), stiffness(space, options), scratch(space.device(), 6 * space.entries()) {}

  space::Space<T> space;
  poisson::Operator<T> stiffness;
  device::Array<T> scratch;
};

// [entries]: 0 on the named boundaries and in the zero slot, else 1.
template <class T>
std::vector<T> mask_of(space::Space<T>& space, const std::vector<std::string>& names) {
  const auto flags = mesh::BoundarySet(names).flags(space.mesh());
  std::vector<T> mask(space.entries(), T(1));
  const std::vector<space::BoundaryFace> faces = space.faces();
  const std::vector<std::int32_t> entries = space.face_entries();
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (flags[1 + faces[i * faces.size() / entries.size()].boundary] != 0) mask[entries[i]] = 0;
  space.combine(mask, exchange::Op::min);
  mask.back() = 0;
  return mask;
}

template <class T>
void fields_agree(const mesh::Mesh& mesh, const poisson::Options& options, int fields) {
  SCOPED_TRACE(poisson::name(options.kernels) + ", " + poisson::name(options.geometry) + ", order " +
               std::to_string(options.order) + ", " + std::to_string(fields) + " fields");
  poisson::Operator<T> op(mesh, options);
  device::Array<T> x(options.device, noise_fields(op, fields, 3)), y(options.device, x.size());
  device::Array<T> single(options.device, op.entries());
  y.zero();
  device::Stream stream(options.device);
  op.apply(x.data(), y.data(), fields, stream);
  stream.synchronize();
  const std::vector<T> all = y.download();
  for (int f = 0; f < fields; ++f) {
    op.apply(x.data() + f * op.entries(), single.data(), stream);
    stream.synchronize();
    const std::vector<T> one = single.download();
    const double scale = std::sqrt(product(op, one.data(), one.data()) / static_cast<double>(op.space().dofs()));
    double error = 0;
    for (std::int64_t i = 0; i < op.unknowns(); ++i)
      error = std::max(error, std::abs(static_cast<double>(all[f * op.entries() + i]) - static_cast<double>(one[i])));
    EXPECT_LE(error, 20 * std::numeric_limits<T>::epsilon() * scale) << "field " << f;
    EXPECT_EQ(all[(f + 1) * op.entries() - 1], T(0)) << "the zero slot of field " << f;
  }
}

}  // namespace

TEST(Fields, AppliedTogetherAreWhatTheyAreOneByOne) {
  for (const int order : {1, 2, 4, 7}) {
    for (const Geometry geometry : {Geometry::stored, Geometry::trilinear}) {
      for (const Kernels kernels : {Kernels::simd, Kernels::portable}) {
        fields_agree<double>(box("kershaw", {false, true, false}), options_for(order, kernels, geometry), 3);
        fields_agree<float>(box("kershaw", {false, true, false}), options_for(order, kernels, geometry), 2);
      }
    }
  }
  fields_agree<double>(box("smooth", {true, true, true}), options_for(5), 4);
}

TEST(Fields, AgreeWithAScreeningTermAndMaskedPoints) {
  for (const Kernels kernels : {Kernels::simd, Kernels::portable}) {
    poisson::Options options = options_for(3, kernels, Geometry::trilinear);
    options.lambda = 0.7;
    options.dirichlet = mesh::BoundarySet({"y-", "z+"});
    fields_agree<double>(box("none"), options, 3);
  }
}

TEST(Fields, AgreeOnGpuThreadsInAnyOrder) {
  for (const Geometry geometry : {Geometry::stored, Geometry::trilinear})
    fields_agree<double>(box("none", {true, false, false}, {3, 2, 2}),
                         options_for(3, Kernels::portable, geometry, "fiber"), 3);
}

TEST(Fields, TheOperatorOfSeveralIsSymmetric) {
  poisson::Operator<double> op(box(), options_for(5));
  const std::int64_t size = op.entries();
  std::vector<double> u = noise_fields(op, 3, 1), v = noise_fields(op, 3, 11), au(u.size()), av(u.size());
  device::Stream stream(op.options().device);
  op.apply(u.data(), au.data(), 3, stream);
  op.apply(v.data(), av.data(), 3, stream);
  for (int c = 0; c < 3; ++c)
    for (int d = 0; d < 3; ++d)
      EXPECT_NEAR(
          product(op, &v[c * size], &au[d * size]), product(op, &av[c * size], &u[d * size]),
          1e-11 * std::sqrt(product(op, &au[d * size], &au[d * size]) * product(op, &v[c * size], &v[c * size])));
}

TEST(Fields, OneMessageCarriesAll) {
  poisson::Operator<double> op(box(), options_for(3));
  EXPECT_EQ(op.space().exchange(3).messages(), op.space().exchange().messages());
  EXPECT_EQ(op.space().exchange(3).bytes_sent(), 3 * op.space().exchange().bytes_sent());
}

TEST(Fields, NoneAreRefused) {
  poisson::Operator<double> op(box(), options_for(2));
  device::Stream stream(op.options().device);
  EXPECT_THROW(op.apply(nullptr, nullptr, 0, stream), std::invalid_argument);
}

TEST(Dirichlet, NamesMaskTheirBoundariesOnly) {
  const mesh::Mesh mesh = box("none", {false, false, false}, {3, 2, 2});
  const auto dofs = [&](mesh::BoundarySet set) {
    poisson::Options options = options_for(4);
    options.dirichlet = std::move(set);
    return poisson::Operator<double>(mesh, options).space().dofs();
  };
  EXPECT_EQ(dofs({}), 13 * 9 * 9);
  EXPECT_EQ(dofs(mesh::BoundarySet({"x-"})), 12 * 9 * 9);
  EXPECT_EQ(dofs(mesh::BoundarySet({"x-", "z+"})), 12 * 9 * 8);
  EXPECT_EQ(dofs(mesh::BoundarySet::all()), 11 * 7 * 7);
}

TEST(Dirichlet, AnUnknownNameIsAnErrorThatListsTheMeshs) {
  poisson::Options options = options_for(2);
  options.dirichlet = mesh::BoundarySet({"x-", "lid"});
  try {
    poisson::Operator<double> op(box("none", {false, true, true}), options);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("\"lid\"; it has: x-, x+"), std::string::npos) << error.what();
  }
}

namespace {

// The dense matrix h1 S + h2 B with masks, column by column, for the owned unknowns of one rank.
std::vector<double> dense(Solves<double>& on, double h1, double h2, const std::vector<double>& mask) {
  auto& [space, stiffness, scratch] = on;
  const auto n = static_cast<std::size_t>(space.unknowns());
  std::vector<double> a(n * n), x(space.entries()), y(space.entries());
  device::Stream stream(space.device());
  for (std::size_t j = 0; j < n; ++j) {
    std::ranges::fill(x, 0.0);
    x[j] = 1;
    stiffness.apply(x.data(), y.data(), stream);
    for (std::size_t i = 0; i < n; ++i)
      a[i * n + j] = mask[i] == 0 || mask[j] == 0 ? (i == j ? 1 : 0) : h1 * y[i] + (i == j ? h2 * space.mass()[i] : 0);
  }
  return a;
}

std::vector<double> solved(std::vector<double> a, std::vector<double> b) {  // positive definite: no pivoting
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      if (factor == 0) continue;
      for (std::size_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k * n + j] * b[j];
    b[k] /= a[k * n + k];
  }
  return b;
}

}  // namespace

TEST(ComponentCg, IsTheDenseSolutionWithItsOwnMaskForEachComponent) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "the dense matrix is of one rank";
  Solves<double> on(box("smooth", {true, false, false}, {2, 2, 2}), options_for(3));
  auto& [space, stiffness, scratch] = on;
  const std::int64_t n = space.unknowns(), size = space.entries();
  const std::vector<std::vector<std::string>> names{{"y-", "y+"}, {"z-"}, {}};
  std::vector<double> mask;
  for (const auto& each : names) {
    const auto one = mask_of(space, each);
    mask.insert(mask.end(), one.begin(), one.end());
  }
  const double h1 = 0.3, h2 = 11;
  std::vector<double> rhs = noise_fields(stiffness, 3, 2), x = noise_fields(stiffness, 3, 20);
  const std::vector<double> guess = x, b = rhs;
  flow::Helmholtz<double> helmholtz("velocity", stiffness, 3, mask.data(), scratch.data());
  device::Stream stream(space.device());
  helmholtz.set(h1, h2, stream);
  const auto results = helmholtz.solve(rhs.data(), x.data(), 1e-12, stream);
  for (int c = 0; c < 3; ++c) {
    SCOPED_TRACE("component " + std::to_string(c));
    const std::vector<double> m(mask.begin() + c * size, mask.begin() + (c + 1) * size);
    // The lifted right-hand side: the contribution of prescribed values is subtracted.
    std::vector<double> prescribed(size), image(size), lifted(n);
    for (std::int64_t i = 0; i < n; ++i) prescribed[i] = m[i] == 0 ? guess[c * size + i] : 0;
    stiffness.apply(prescribed.data(), image.data(), stream);
    for (std::int64_t i = 0; i < n; ++i) lifted[i] = m[i] == 0 ? guess[c * size + i] : b[c * size + i] - h1 * image[i];
    const std::vector<double> expected = solved(dense(on, h1, h2, m), lifted);
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(x[c * size + i], expected[i], 1e-9) << i;
    EXPECT_LE(results[c].last, 1e-12);
    EXPECT_GT(results[c].iterations, 3);
    EXPECT_GT(results[c].first, results[c].last);
  }
  EXPECT_NE(results[0].iterations, results[2].iterations);  // each stops on its own
}

namespace {

// Iterations and solution of the single CG on h1 S + h2 B, unmasked.
template <class T>
solver::SolveResult single_cg(Solves<T>& on, double h1, double h2, const T* b, T* x, double tolerance) {
  auto& space = on.space;
  auto& op = on.stiffness;
  std::vector<T> inverse = op.diagonal().download();
  for (std::int64_t i = 0; i < op.unknowns(); ++i)
    inverse[i] = static_cast<T>(1 / (h1 * inverse[i] + h2 * space.mass()[i]));
  solver::System<T> system;
  system.apply = [&](T* in, T* out, device::Stream& stream) {
    op.apply(in, out, stream);
    for (std::int64_t i = 0; i < op.unknowns(); ++i)
      out[i] = static_cast<T>(h1 * out[i] + h2 * space.mass()[i] * in[i]);
  };
  system.entries = op.entries();
  system.unknowns = op.unknowns();
  system.inverse_diagonal = inverse.data();
  solver::ConjugateGradients<T> cg(system, space.device(), space.comm());
  device::Stream stream(space.device());
  return cg.solve(b, x, true, {.max_iterations = 500, .absolute = tolerance * std::sqrt(space.volume())}, stream);
}

template <class T>
void components_are_single(double tolerance) {
  Solves<T> on(box(), options_for(5));
  auto& [space, stiffness, scratch] = on;
  std::vector<T> rhs = noise_fields(stiffness, 3, 2), x(rhs.size()), one(space.entries());
  for (std::int64_t i = 0; i < space.unknowns(); ++i) rhs[i] *= T(1e-3);  // an easier first component
  const std::vector<T> b = rhs;
  flow::Helmholtz<T> helmholtz("velocity", stiffness, 3, nullptr, scratch.data());
  device::Stream stream(space.device());
  for (const double h2 : {40.0, 3000.0}) {  // the diagonal follows
    SCOPED_TRACE(h2);
    rhs = b;
    std::ranges::fill(x, T(0));
    helmholtz.set(0.01, h2, stream);
    const auto results = helmholtz.solve(rhs.data(), x.data(), tolerance, stream);
    for (int c = 0; c < 3; ++c) {
      const auto expected = single_cg(on, 0.01, h2, b.data() + c * space.entries(), one.data(), tolerance);
      EXPECT_LE(std::abs(results[c].iterations - expected.iterations), 1) << "component " << c;
      EXPECT_NEAR(results[c].first, expected.residuals.front() / std::sqrt(space.volume()), 1e-5 * results[c].first);
      EXPECT_LE(results[c].last, tolerance);
      double error = 0, largest = 0;
      for (std::int64_t i = 0; i < space.unknowns(); ++i) {
        error = std::max(error, std::abs(static_cast<double>(x[c * space.entries() + i] - one[i])));
        largest = std::max(largest, std::abs(static_cast<double>(one[i])));
      }
      EXPECT_LE(space.comm().max(error), (sizeof(T) == 8 ? 1e-6 : 1e-2) * space.comm().max(largest))
          << "component " << c;
    }
    EXPECT_LT(results[0].iterations, results[1].iterations);
  }
}

}  // namespace

TEST(ComponentCg, TakesTheIterationsOfTheSingleCgForEachComponent) {
  components_are_single<double>(1e-9);
  components_are_single<float>(1e-4);
}

TEST(ComponentCg, TooFewIterationsAreAnErrorWithTheHistory) {
  Solves<double> on(box("none"), options_for(3));
  auto& [space, stiffness, scratch] = on;
  const device::Array<double> diagonal = stiffness.diagonal();
  solver::ComponentSystem<double> system{
      .name = "velocity",
      .stiffness = [&](double* x, double* y, int fields,
                       device::Stream& stream) { stiffness.apply(x, y, fields, stream); },
      .diagonal = diagonal.data(),
      .mass = space.mass(),
      .components = 2,
      .entries = space.entries(),
      .unknowns = space.unknowns()};
  solver::ComponentCg<double> cg(system, space.device(), space.comm());
  device::Stream stream(space.device());
  std::vector<double> rhs = noise_fields(stiffness, 2, 2), x(rhs.size());
  EXPECT_THROW(cg.solve(rhs.data(), x.data(), true, {}, stream), std::logic_error);  // set() comes first
  cg.set(1, 1e-3, stream);
  try {
    cg.solve(rhs.data(), x.data(), true, {.tolerance = 1e-8, .max_iterations = 4}, stream);
    FAIL() << "converged";
  } catch (const mpi::CollectiveError& error) {
    const std::string stall = error.what();
    EXPECT_NE(stall.find("velocity: the solve stalls after 4 iterations: the largest number"), std::string::npos)
        << stall;
    EXPECT_NE(stall.find("from the first on: [0] "), std::string::npos) << stall;
    EXPECT_NE(stall.find(", [4] "), std::string::npos) << stall;
  }
}

TEST(ComponentCg, NaNIsAnErrorThatNamesTheSystem) {
  Solves<double> on(box("none"), options_for(3));
  auto& [space, stiffness, scratch] = on;
  flow::Helmholtz<double> helmholtz("temperature", stiffness, 1, nullptr, scratch.data());
  device::Stream stream(space.device());
  helmholtz.set(1, 1, stream);
  const auto message = [&](bool bad) -> std::string {
    std::vector<double> rhs = noise_fields(stiffness, 1, 2), x(rhs.size());
    if (bad && space.comm().rank() == space.comm().size() - 1) rhs[0] = std::nan("");
    try {
      helmholtz.solve(rhs.data(), x.data(), 1e-7, stream);
    } catch (const mpi::CollectiveError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(true).find("temperature: the right-hand side"), std::string::npos);
  EXPECT_EQ(message(false), "");
}

namespace {

struct PressureProblem {
  PressureProblem(const mesh::Mesh& mesh, int order, std::vector<std::string> outflow = {},
                  const flow::PressureOptions& options = {}, Kernels kernels = Kernels::simd)
      : on(mesh, options_for(order, kernels)),
        mask(mask_of(space, outflow)),
        pressure(on.stiffness, outflow, mask.data(), options, on.scratch.data()),
        stream(space.device()),
        x(space.entries()) {
    pressure.set_coarse(
        exact_coarse_solver(pressure.coarse_matrix(), space.comm(), pressure.coarse_unknowns(), pressure.singular()));
  }
  flow::PressureResult solve(std::vector<double> rhs, double tolerance = 1e-9) {
    return pressure.solve(rhs.data(), x.data(), tolerance, stream);
  }
  // A right-hand side that changes slowly with time.
  std::vector<double> wave(double time) {
    const std::vector<double> place = space.coordinates();
    std::vector<double> rhs(space.entries());
    for (std::int64_t i = 0; i < space.unknowns(); ++i) {
      const double a = place[i], b = place[space.entries() + i], c = place[2 * space.entries() + i];
      rhs[i] = space.mass()[i] * (std::cos(2 * M_PI * (a - time)) * std::cos(3 * b) * std::sin(2 + c) +
                                  std::sin(4 * M_PI * (a + 2 * time)) * std::cos(M_PI * (b + c)));
    }
    return rhs;
  }
  // The norm of mask (rhs - S x), without its mean if the system is singular.
  double residual(const std::vector<double>& rhs) {
    std::vector<double> y(space.entries());
    on.stiffness.apply(x.data(), y.data(), stream);
    for (std::int64_t i = 0; i < space.unknowns(); ++i) y[i] = mask[i] * (rhs[i] - y[i]);
    if (pressure.singular()) {
      double sum = std::accumulate(y.begin(), y.begin() + space.unknowns(), 0.0);
      space.comm().sum(&sum, 1);
      for (double& value : y) value -= sum / static_cast<double>(space.dofs());
    }
    return std::sqrt(product(on.stiffness, y.data(), y.data()) / space.volume());
  }
  double mean() {
    double sum = std::accumulate(x.begin(), x.begin() + space.unknowns(), 0.0);
    space.comm().sum(&sum, 1);
    return sum / static_cast<double>(space.dofs());
  }

  Solves<double> on;
  space::Space<double>& space = on.space;
  std::vector<double> mask;
  flow::Pressure<double> pressure;
  device::Stream stream;
  std::vector<double> x;
};

}  // namespace

TEST(Pressure, ReachesItsToleranceWithMeanZeroWhereItIsDeterminedUpToAConstant) {
  for (const bool single : {true, false}) {
    for (const auto method : {poisson::Method::cg, poisson::Method::gmres}) {
      PressureProblem problem(box("smooth", {true, true, true}), 6, {}, {.single = single, .method = method});
      EXPECT_TRUE(problem.pressure.singular());
      std::vector<double> rhs = problem.wave(0);
      for (std::int64_t i = 0; i < problem.space.unknowns(); ++i) rhs[i] += 0.01;  // not in the range of the operator
      const auto result = problem.solve(rhs);
      EXPECT_LE(result.last, 1e-9);
      EXPECT_LE(problem.residual(rhs), 2e-9);
      EXPECT_NEAR(problem.mean(), 0, 1e-12);
      EXPECT_GE(result.iterations, 4);
      EXPECT_LE(result.iterations, 25);
    }
  }
}

TEST(Pressure, IsTheDirichletSolutionWhereNamesAreOutflow) {
  const mesh::Mesh mesh = box("smooth", {false, true, false}, {3, 3, 2});
  poisson::Options options = options_for(4);
  options.dirichlet = mesh::BoundarySet({"x+", "z-"});
  poisson::Operator<double> op(mesh, options);
  const auto its = op.space().point_index();
  std::vector<double> expected;
  for (const bool single : {true, false}) {
    for (const Kernels kernels : {Kernels::simd, Kernels::portable}) {
      if (op.comm().size() > 2 && (!single || kernels == Kernels::portable)) continue;  // more ranks than cores
      PressureProblem problem(mesh, 4, {"x+", "z-"}, {.single = single}, kernels);
      EXPECT_FALSE(problem.pressure.singular());
      const std::vector<double> rhs = problem.wave(0.3);
      problem.solve(rhs, 1e-10);
      EXPECT_LE(problem.residual(rhs), 2e-10);
      for (std::int64_t i = 0; i < problem.space.unknowns(); ++i)
        ASSERT_TRUE(problem.mask[i] != 0 || problem.x[i] == 0);

      const auto mine = problem.space.point_index();
      if (expected.empty()) {
        std::vector<double> b(op.entries());
        expected.resize(op.entries());
        for (std::size_t p = 0; p < mine.size(); ++p)
          if (its[p] < op.unknowns()) b[its[p]] = rhs[mine[p]];
        const device::Array<double> inverse = op.inverse_diagonal();
        solver::System<double> system{
            .apply = [&](double* in, double* out, device::Stream& stream) { op.apply(in, out, stream); },
            .entries = op.entries(),
            .unknowns = op.unknowns(),
            .inverse_diagonal = inverse.data()};
        solver::ConjugateGradients<double> cg(system, options.device, op.comm());
        cg.solve(b.data(), expected.data(), true, {.max_iterations = 2000, .tolerance = 1e-10}, problem.stream);
      }
      const double size =
          std::sqrt(product(op, expected.data(), expected.data()) / static_cast<double>(op.space().dofs()));
      for (std::size_t p = 0; p < mine.size(); ++p)
        ASSERT_TRUE(its[p] >= op.unknowns() || std::abs(problem.x[mine[p]] - expected[its[p]]) < 1e-7 * size);
    }
  }
}

TEST(Pressure, ProjectionSavesIterationsAndDoesNotChangeTheAnswer) {
  for (const std::vector<std::string>& outflow : {std::vector<std::string>{}, {"z+"}}) {
    if (mpi::Comm().size() > 2 && !outflow.empty()) continue;  // more ranks than cores
    const mesh::Mesh mesh = box("smooth", {true, false, false}, {3, 3, 2});
    PressureProblem with(mesh, 4, outflow, {.projection = 4}), without(mesh, 4, outflow, {.projection = 0});
    int saved = 0, best = 100;
    for (int step = 0; step < 14; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const std::vector<double> rhs = with.wave(0.002 * step);
      const auto one = with.solve(rhs, 1e-8);
      const auto other = without.solve(rhs, 1e-8);
      saved += other.iterations - one.iterations;
      best = std::min(best, one.iterations);
      EXPECT_LE(with.residual(rhs), 2e-8);
      if (step >= 3) {
        EXPECT_LE(one.iterations, 6) << "the basis has lost its newest solutions";
      }
      EXPECT_NEAR(one.unprojected, other.unprojected, 1e-10 * other.unprojected);
      EXPECT_LT(one.first, (step > 0 ? 0.2 : 1.01) * one.unprojected);
      double difference = 0, size = 0;
      for (std::int64_t i = 0; i < with.space.unknowns(); ++i) {
        difference += std::pow(with.x[i] - without.x[i], 2);
        size += std::pow(without.x[i], 2);
      }
      with.space.comm().sum(&difference, 1);
      with.space.comm().sum(&size, 1);
      EXPECT_LE(difference, 1e-10 * size);
    }
    EXPECT_GE(saved, 10);
    EXPECT_LE(best, 4);
  }
}

TEST(Pressure, ARightHandSideSolvedBeforeTakesNoIteration) {
  PressureProblem problem(box(), 4, {"y-"});
  const std::vector<double> first = problem.wave(0), second = problem.wave(0.4);
  EXPECT_GT(problem.solve(first).iterations, 2);
  EXPECT_GT(problem.solve(second).iterations, 2);
  std::vector<double> sum(first.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = 0.3 * first[i] - 0.1 * second[i];
  EXPECT_EQ(problem.solve(sum, 1e-8).iterations, 0);
  EXPECT_LE(problem.residual(sum), 1e-8);
}

TEST(Pressure, ARunFromAResetRepeatsBitForBitFromThePressureAlone) {
  PressureProblem one(box(), 4);
  for (int step = 0; step < 3; ++step) one.solve(one.wave(0.01 * step));
  one.pressure.reset();
  PressureProblem other(box(), 4);
  other.x = one.x;
  for (int step = 3; step < 6; ++step) {
    one.solve(one.wave(0.01 * step));
    other.solve(other.wave(0.01 * step));
  }
  for (std::int64_t i = 0; i < one.space.unknowns(); ++i) ASSERT_EQ(one.x[i], other.x[i]);
}

TEST(Pressure, NaNAndStallsAreErrorsThatNameIt) {
  PressureProblem problem(box("none"), 4);
  const auto message = [&](std::vector<double> rhs, double tolerance) -> std::string {
    try {
      problem.solve(std::move(rhs), tolerance);
    } catch (const mpi::CollectiveError& error) {
      return error.what();
    }
    return "";
  };
  std::vector<double> bad = problem.wave(0);
  if (problem.space.comm().rank() == 0) bad[1] = std::nan("");
  EXPECT_NE(message(bad, 1e-7).find("pressure: the right-hand side"), std::string::npos);
  const std::string stall = message(problem.wave(0), 1e-40);
  EXPECT_NE(stall.find("pressure: the solve stalls"), std::string::npos) << stall;
  EXPECT_NE(stall.find("[0]"), std::string::npos) << stall;
  problem.pressure.reset();
  std::ranges::fill(problem.x, 0.0);
  EXPECT_EQ(message(problem.wave(0), 1e-7), "");
}

namespace {

// Solves with the portable kernels on a device, values of the owned entries: pressures, and three components.
struct OnDevice {
  explicit OnDevice(const std::string& device)
      : on(box("smooth", {true, false, false}, {2, 1, 2}), options_for(3, Kernels::portable, Geometry::stored, device)),
        stream(space.device()) {
    const std::vector<double> one = mask_of(space, {"y-"});
    std::vector<double> three;
    for (int c = 0; c < 3; ++c) three.insert(three.end(), one.begin(), one.end());
    mask = device::Array<double>(space.device(), one);
    masks = device::Array<double>(space.device(), three);
  }
  void take(const device::Array<double>& x, int fields) {
    stream.synchronize();
    const std::vector<double> values = x.download();
    for (int f = 0; f < fields; ++f)
      all.insert(all.end(), &values[f * space.entries()], &values[f * space.entries()] + space.unknowns());
  }
  std::vector<double> pressures() {
    flow::Pressure<double> pressure(on.stiffness, {"y-"}, mask.data(),
                                    {.orders = {3}, .single = false, .projection = 2}, on.scratch.data());
    device::Array<double> x(space.device(), space.entries());
    x.zero();
    for (const int seed : {5, 6, 5}) {  // the third from the basis of the first two
      device::Array<double> rhs(space.device(), noise_fields(on.stiffness, 1, seed));
      pressure.solve(rhs.data(), x.data(), 1e-2, stream);
      take(x, 1);
    }
    return all;
  }
  std::vector<double> components() {
    flow::Helmholtz<double> helmholtz("velocity", on.stiffness, 3, masks.data(), on.scratch.data());
    device::Array<double> x(space.device(), 3 * space.entries());
    device::Array<double> rhs(space.device(), noise_fields(on.stiffness, 3, 8));
    x.zero();
    helmholtz.set(0.1, 20, stream);
    helmholtz.solve(rhs.data(), x.data(), 1e-2, stream);
    take(x, 3);
    return all;
  }

  Solves<double> on;
  space::Space<double>& space = on.space;
  device::Stream stream;
  device::Array<double> mask, masks;
  std::vector<double> all;
};

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    largest = std::max(largest, std::isfinite(b[i]) ? std::abs(a[i] - b[i]) : 1e30);
  return largest;
}

}  // namespace

TEST(Solves, AgreeOnGpuThreadsInAnyOrder) {
  if (mpi::Comm().size() != 2) GTEST_SKIP() << "fibers are slow: on two ranks, with their exchanges";
  EXPECT_LE(difference(OnDevice("host").pressures(), OnDevice("fiber").pressures()), 1e-7);
  EXPECT_LE(difference(OnDevice("host").components(), OnDevice("fiber").components()), 1e-7);
}
