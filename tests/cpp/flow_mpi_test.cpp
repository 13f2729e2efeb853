// The flow solver on any number of ranks: the same trajectory on every path, vectors and points, prescribed values, and
// errors on all ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "error_of.hpp"
#include "flow_checks.hpp"
#include "weft/flow/time_scheme.hpp"

using namespace weft;
using namespace weft::flow;

namespace {

mesh::Mesh box(const mpi::Comm& comm, const char* deformation = "none", std::array<bool, 3> periodic = {}) {
  return mesh::make_box({.counts = {3, 2, 2}, .upper = {1, 0.8, 0.6}, .periodic = periodic, .deformation = deformation},
                        comm);
}

}  // namespace

TEST(FlowTime, CoefficientsAreExactForPolynomialsOfTheOrder) {
  const std::array<double, 3> steps{0.3, 0.2, 0.45};
  for (int order = 1; order <= 3; ++order) {
    const TimeScheme s = time_scheme(std::span(steps).first(order));
    for (int power = 0; power <= order; ++power) {
      const double now = 1.7;
      double derivative = s.gamma * std::pow(now, power), value = 0, time = now;
      for (int j = 0; j < order; ++j) {
        time -= steps[j];
        derivative += s.b[j] * std::pow(time, power);
        value += s.a[j] * std::pow(time, power);
      }
      EXPECT_NEAR(derivative, power * std::pow(now, power - 1), 1e-12) << order << " " << power;
      if (power < order) {
        EXPECT_NEAR(value, std::pow(now, power), 1e-12) << order << " " << power;
      }
    }
  }
}

TEST(FlowSpace, PointsToVectorsAndBackKeepsEveryBit) {
  space::Space<double> space(box(mpi::Comm(), "smooth", {false, true, false}),
                             test::space_options(box(mpi::Comm(), "smooth"), 4, "host"));
  const std::vector<double> x = space.point_coordinates();
  std::vector<double> values(2 * x.size() / 3);
  for (std::size_t p = 0; p < x.size() / 3; ++p) {
    values[p] = std::sin(x[3 * p] + 2 * x[3 * p + 2]);
    values[x.size() / 3 + p] = x[3 * p] * x[3 * p + 2];
  }
  device::Array<double> vectors(space.device(), 2 * space.entries());
  space.to_vectors(values, 2, vectors.data());
  const std::vector<double> once = space.to_points(vectors.data(), 2);
  for (std::size_t p = 0; p < values.size(); ++p) ASSERT_NEAR(once[p], values[p], 1e-15);  // of another element
  const std::vector<double> before = vectors.download();
  space.to_vectors(once, 2, vectors.data());
  EXPECT_EQ(vectors.download(), before);
  EXPECT_EQ(space.to_points(vectors.data(), 2), once);
}

TEST(FlowSpace, TheMassMatrixSumsToTheVolumeOfTheMesh) {
  for (const char* deformation : {"none", "smooth", "kershaw"}) {
    const mesh::Mesh mesh = box(mpi::Comm(), deformation);
    space::Space<double> space(mesh, test::space_options(mesh, 5, "host"));
    EXPECT_NEAR(space.volume(), 1 * 0.8 * 0.6, 1e-6) << deformation;
  }
}

TEST(Flow, TheTrajectoryIsThatOfOneRankByEveryPath) {
  for (const char* deformation : {"none", "smooth"}) {
    const mesh::Mesh alone = box(mpi::Comm::self(), deformation), mesh = box(mpi::Comm(), deformation);
    const auto host = device::open("host");
    const auto options = test::flow_options<double>(host);
    const auto expected = test::flow_trajectory<double>(alone, test::space_options(alone, 3, "host"), options, 3);
    double largest = 0;
    for (const auto& [id, values] : expected)
      for (const double value : values) largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 0.1);
    for (const char* choice : {"pairwise:direct", "pairwise:staged", "pairwise:ipc"}) {
      SCOPED_TRACE(std::string(deformation) + " " + choice);
      if (mesh.comm.size() == 1 && choice == std::string("pairwise:ipc")) continue;  // between ranks
      test::expect_same_by_element(
          test::flow_trajectory<double>(mesh, test::space_options(mesh, 3, "host", choice), options, 3), expected,
          1e-7);
      if (deformation == std::string("smooth")) break;
    }
  }
}

TEST(Flow, SimdAndPortableKernelsAndSinglePrecisionGiveTheSameFlow) {
  const mesh::Mesh mesh = box(mpi::Comm());
  const auto host = device::open("host");
  const auto expected =
      test::flow_trajectory<double>(mesh, test::space_options(mesh, 4, "host"), test::flow_options<double>(host), 2);
  poisson::Options simd = test::space_options(mesh, 4, "host");
  simd.kernels = poisson::Kernels::simd;
  test::expect_same_by_element(test::flow_trajectory<double>(mesh, simd, test::flow_options<double>(host), 2), expected,
                               1e-7);
  auto single = test::flow_options<float>(host);
  single.pressure_tolerance = single.velocity_tolerance = single.scalar_tolerance = 1e-5;
  const auto rough = test::flow_trajectory<float>(mesh, simd, single, 2);
  std::map<std::int64_t, std::vector<double>> widened;
  for (const auto& [id, values] : rough) widened[id].assign(values.begin(), values.end());
  test::expect_same_by_element(widened, expected, 2e-3);
}

TEST(Flow, PrescribedValuesAreExactAndWallsWin) {
  const mesh::Mesh mesh = box(mpi::Comm());
  auto options = test::flow_options<double>(device::open("host"));
  options.filter.strength = 0.3;
  Solver<double> solver(mesh, test::space_options(mesh, 4, "host"), options);
  test::set_coarse(solver);
  for (int s = 0; s < 2; ++s) solver.step(0.01);
  const std::vector<double> x = solver.space().point_coordinates();
  const std::vector<double> u = solver.space().to_points(solver.state().velocity(), 3);
  const std::size_t points = x.size() / 3;
  for (std::size_t p = 0; p < points; ++p) {
    const double y = x[3 * p + 1], z = x[3 * p + 2];
    const double top = y * (1 + solver.state().time);
    if (y < 1e-12 || z < 1e-12) {
      EXPECT_EQ(u[p], 0) << p;
    } else if (x[3 * p] < 1e-12 || z > 0.6 - 1e-12) {
      EXPECT_NEAR(u[p], top, 1e-15) << p;
    } else if (y > 0.8 - 1e-12) {
      EXPECT_EQ(u[points + p], 0) << p;
    }
  }
}

TEST(Flow, BadBoundariesAreErrorsThatNameThem) {
  const mesh::Mesh mesh = box(mpi::Comm());
  const auto space = test::space_options(mesh, 3, "host");
  const auto good = test::flow_options<double>(space.device);
  const auto error_with = [&](const auto& change) {
    auto options = good;
    change(options);
    return error_of([&] { Solver<double>(mesh, space, options); });
  };
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_PRED2(contains, error_with([](auto& o) { o.boundaries.erase("y+"); }),
               "no condition is given for the boundary \"y+\"");
  EXPECT_PRED2(contains, error_with([](auto& o) { o.boundaries["lid"] = {}; }), "\"lid\", which box");
  EXPECT_PRED2(contains, error_with([](auto& o) { o.scalars[0].boundaries["hot"] = {}; }), "scalar \"heat\"");
  EXPECT_PRED2(contains, error_with([](auto& o) { o.viscosity = 0; }), "viscosity must be positive");
  EXPECT_PRED2(contains, error_with([](auto& o) { o.filter = {0.1, 3}; }), "allowed: 1 to 2");
  const mesh::Mesh bent = box(mpi::Comm(), "kershaw");
  EXPECT_EQ(error_of([&] { Solver<double>(bent, space, good); }), "");  // its sides are flat
  auto sideways = mesh;
  std::vector<double>& nodes = sideways.nodes.change();
  for (std::size_t i = 0; i < nodes.size(); i += 3) nodes[i] += 0.2 * nodes[i + 1];
  auto options = good;
  options.boundaries["x-"] = {Kind::symmetry};
  EXPECT_PRED2(contains, error_of([&] { Solver<double>(sideways, space, options); }),
               "\"x-\" cannot be a symmetry plane");
}

TEST(Flow, VelocitiesThatDoNotBalanceAreAnErrorWithoutAnOutflow) {
  const mesh::Mesh mesh = box(mpi::Comm());
  const auto space = test::space_options(mesh, 3, "host");
  auto options = test::flow_options<double>(space.device);
  options.boundaries["x+"] = {Kind::wall};
  Solver<double> solver(mesh, space, options);
  EXPECT_TRUE(solver.boundaries().pressure_singular());
  test::set_coarse(solver);
  EXPECT_NE(error_of([&] { solver.step(0.01); }).find("no boundary is an outflow"), std::string::npos);
}

TEST(Flow, AFieldThatIsNoNumberEndsTheRunWithItsNameOnAllRanks) {
  const mesh::Mesh mesh = box(mpi::Comm());
  const auto space = test::space_options(mesh, 3, "host");
  for (const int field : {1, 3}) {
    Solver<double> solver(mesh, space, test::flow_options<double>(space.device));
    test::set_coarse(solver);
    solver.step(0.01);
    if (mesh.comm.rank() == mesh.comm.size() - 1)
      solver.state().fields()[field * solver.space().entries()] = std::numeric_limits<double>::quiet_NaN();
    try {
      solver.step(0.01);
      ADD_FAILURE() << "no error for field " << field;
    } catch (const BlownUp& error) {
      EXPECT_EQ(error.step, 2);
      EXPECT_EQ(error.field, field == 1 ? "the velocity" : "the scalar heat");
    }
  }
}

TEST(Flow, AConstantFlowRateIsKeptToRounding) {
  const mesh::Mesh mesh = box(mpi::Comm(), "none", {true, false, true});
  const auto space = test::space_options(mesh, 4, "host");
  Options<double> options;
  options.viscosity = 0.1;
  options.boundaries = {{"y-", {Kind::wall}}, {"y+", {Kind::wall}}};
  options.flow_rate = FlowRate{0.7, {1, 0, 0}};
  options.pressure.single = false;
  Solver<double> solver(mesh, space, options);
  test::set_coarse(solver);
  for (int s = 0; s < 4; ++s) {
    solver.step(0.05);
    const auto& state = solver.state();
    double sum = 0;
    for (std::int64_t i = 0; i < solver.space().unknowns(); ++i) sum += solver.space().mass()[i] * state.velocity()[i];
    mesh.comm.sum(&sum, 1);
    EXPECT_NEAR(sum / solver.space().volume(), 0.7, 1e-13);
  }
  EXPECT_GT(solver.figures().forcing, 0);
  options.flow_rate->direction = {0, 1, 0};
  Solver<double> blocked(mesh, space, options);
  test::set_coarse(blocked);
  EXPECT_NE(error_of([&] { blocked.step(0.05); }).find("moves nothing"), std::string::npos);
}

// What a checkpoint holds: fields and explicit terms of the levels, the pressure and the times, but no earlier
// solutions.
TEST(Flow, ARunGoesOnBitForBitFromTheStateAlone) {
  const mesh::Mesh mesh = box(mpi::Comm());
  const auto space = test::space_options(mesh, 3, "host");
  const auto options = test::flow_options<double>(space.device);
  Solver<double> first(mesh, space, options), second(mesh, space, options);
  for (auto* solver : {&first, &second}) test::set_coarse(*solver);
  for (int s = 0; s < 4; ++s) first.step(0.01 + 0.001 * s);
  first.pressure().reset();
  auto& from = first.state();
  auto& to = second.state();
  const auto copy = [&](const double* x, int fields, double* y) {
    second.space().to_vectors(first.space().to_points(x, fields), fields, y);
  };
  for (int level = 0; level < from.order; ++level) {
    copy(from.fields(level), from.components(), to.fields(level));
    copy(from.explicit_terms(level), from.components(), to.explicit_terms(level));
  }
  copy(from.pressure(), 1, to.pressure());
  to.time = from.time;
  to.step = from.step;
  to.known = from.known;
  to.dt = from.dt;
  for (auto* solver : {&first, &second})
    for (int s = 0; s < 2; ++s) solver->step(0.012);
  EXPECT_EQ(test::fields_by_element(first), test::fields_by_element(second));
}
