#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "mesh_checks.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/mesh.hpp"

using namespace weft;
using mesh::BoxOptions;
using mesh::make_box;

TEST(Box, PointsShareAnIdExactlyWhereTheyCoincide) {
  mpi::Comm comm;
  for (std::string deformation : {"none", "smooth", "kershaw"}) {
    for (int order : {1, 2, 5}) {
      BoxOptions options{.counts = {5, 3, 4}, .lower = {-1, 0, 2}, .upper = {1, 3, 3}, .deformation = deformation};
      test::expect_ids_match_coordinates(make_box(options, comm), order);
    }
  }
}

TEST(Box, PeriodicWithOneTwoOrThreeElementsADirectionIsATorus) {
  mpi::Comm comm;
  for (int mask = 0; mask < 8; ++mask) {
    for (int c = 0; c < 27; ++c) {
      BoxOptions options{.counts = {1 + c % 3, 1 + c / 3 % 3, 1 + c / 9},
                         .periodic = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0}};
      if (options.counts[0] * options.counts[1] * options.counts[2] < comm.size()) continue;
      std::array<double, 3> period{};
      for (int d = 0; d < 3; ++d) period[d] = options.periodic[d] ? 1 : 0;
      test::expect_ids_match_coordinates(make_box(options, comm), 3, period);
    }
  }
}

TEST(Box, ElementsAreDealtOutOnceAndFairly) {
  mpi::Comm comm;
  for (std::array<std::int64_t, 3> counts :
       {std::array<std::int64_t, 3>{7, 1, 1}, {3, 3, 3}, {8, 8, 8}, {5, 4, 3}, {2, 2, 1}}) {
    const auto mesh = make_box({.counts = counts}, comm);
    const auto ids = test::all_gather(mesh.element_ids.get(), comm);
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
    EXPECT_EQ(std::ssize(ids), mesh.global_elements);
    EXPECT_EQ(mesh.global_elements, counts[0] * counts[1] * counts[2]);
    const double fair = std::ceil(double(mesh.global_elements) / comm.size());
    EXPECT_LE(comm.max(mesh.elements()), 1.05 * fair);
    EXPECT_GE(comm.min(mesh.elements()), 1);
  }
}

TEST(Box, FactorsIntegrateVolumeAndEnergyOfALinearFunction) {
  mpi::Comm comm;
  for (std::string deformation : {"none", "smooth", "kershaw"}) {
    const auto mesh = make_box({.counts = {6, 4, 4}, .upper = {2, 3, 1}, .deformation = deformation}, comm);
    // Curved elements: at geometry order 5 the integrand J is a polynomial of degree 14, which N = 9 integrates
    // exactly.
    const int order = 9, n1 = order + 1, points = n1 * n1 * n1;
    const auto factors = mesh::geometric_factors(mesh, order);
    const auto x = mesh::point_coordinates(mesh, order);
    const auto& d = element::gll(order).derivative;
    std::array<double, 2> sums{};  // the volume, and the integral of |grad u|^2 = 14 for u = x + 2 y - 3 z
    for (std::int64_t e = 0; e < mesh.elements(); ++e) {
      auto u = [&](int i, int j, int k) {
        const double* at = &x[3 * (e * points + i + n1 * (j + n1 * k))];
        return at[0] + 2 * at[1] - 3 * at[2];
      };
      for (int p = 0; p < points; ++p) {
        const int i = p % n1, j = p / n1 % n1, k = p / n1 / n1;
        std::array<double, 3> g{};
        for (int m = 0; m < n1; ++m) {
          g[0] += d[i * n1 + m] * u(m, j, k);
          g[1] += d[j * n1 + m] * u(i, m, k);
          g[2] += d[k * n1 + m] * u(i, j, m);
        }
        const double* f = &factors.g[6 * (e * points + p)];
        sums[0] += factors.mass[e * points + p];
        sums[1] += f[0] * g[0] * g[0] + f[3] * g[1] * g[1] + f[5] * g[2] * g[2] +
                   2 * (f[1] * g[0] * g[1] + f[2] * g[0] * g[2] + f[4] * g[1] * g[2]);
      }
    }
    comm.sum(sums.data(), 2);
    EXPECT_NEAR(sums[0], 6, 1e-11) << deformation;
    EXPECT_NEAR(sums[1], 6 * 14, 1e-10) << deformation;
  }
}

TEST(Box, TrilinearFactorsAreThoseOfTheInterpolatedCoordinates) {
  mpi::Comm comm;
  auto mesh = make_box({.counts = {6, 2, 3}, .deformation = "kershaw", .deformation_parameter = 0.1}, comm);
  const auto straight = mesh::geometric_factors(mesh, 4);
  mesh.nodes = mesh::point_coordinates(mesh, 3);
  mesh.geometry_order = 3;
  const auto curved = mesh::geometric_factors(mesh, 4);
  for (std::size_t p = 0; p < straight.g.size(); ++p)
    EXPECT_NEAR(straight.g[p], curved.g[p], 1e-12 + 1e-11 * std::abs(straight.g[p]));
  for (std::size_t p = 0; p < straight.mass.size(); ++p) EXPECT_NEAR(straight.mass[p], curved.mass[p], 1e-15);
}

TEST(Box, FoldedElementIsNamedWithItsJacobianOnEveryRank) {
  mpi::Comm comm;
  auto mesh = make_box({.counts = {2, 2, 2}}, comm);
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    if (mesh.element_ids[e] == 5)
      std::swap_ranges(&mesh.nodes.change()[24 * e], &mesh.nodes.change()[24 * e + 12],
                       &mesh.nodes.change()[24 * e + 12]);
  }
  try {
    mesh::geometric_factors(mesh, 3);
    FAIL();
  } catch (const mpi::CollectiveError& error) {
    EXPECT_NE(std::string(error.what()).find("element 5 "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("Jacobian -0.015625"), std::string::npos) << error.what();
  }
  EXPECT_THROW(mesh::check_jacobians(mesh, 3), mpi::CollectiveError);
  EXPECT_THROW(mesh::mass_matrix(mesh, 3), mpi::CollectiveError);
  mesh = make_box({.counts = {2, 2, 2}}, comm);
  EXPECT_EQ(mesh::mass_matrix(mesh, 3), mesh::geometric_factors(mesh, 3).mass);
  EXPECT_NO_THROW(mesh::check_jacobians(mesh, 3));
  if (comm.rank() == comm.size() - 1) mesh.nodes.change()[7] = std::nan("");
  EXPECT_THROW(mesh::geometric_factors(mesh, 3), mpi::CollectiveError);
}

// Parallelepipeds, trilinear elements and curved ones take different paths.
TEST(Box, TheCheckOfJacobiansAloneSaysWhatTheFactorsSay) {
  mpi::Comm comm;
  const auto message = [](auto&& check) -> std::string {
    try {
      check();
    } catch (const mpi::CollectiveError& error) {
      return error.what();
    }
    return "";
  };
  const auto straight = make_box({.counts = {2, 2, 2}}, comm);
  mesh::Mesh curved = straight;
  curved.nodes = mesh::point_coordinates(straight, 3);
  curved.geometry_order = 3;
  const auto mirror = [](double* node) { node[0] = -node[0]; };
  const auto flatten = [](double* node) { node[2] = 0; };
  const auto spoil = [](double* node) { node[1] = std::nan(""); };
  const auto fold = [](double* node) { node[0] *= 1 - 3 * node[1]; };
  const std::vector<std::function<void(double*)>> all{mirror, flatten, spoil, fold};
  for (const mesh::Mesh& of : {straight, curved}) {
    for (const auto& change : all) {
      mesh::Mesh mesh = of;
      const std::int64_t nodes = (mesh.geometry_order + 1) * (mesh.geometry_order + 1) * (mesh.geometry_order + 1);
      if (comm.rank() == comm.size() - 1)
        for (std::int64_t node = 0; node < nodes; ++node) change(mesh.nodes.change().data() + 3 * node);
      const std::string said = message([&] { mesh::geometric_factors(mesh, 3); });
      EXPECT_EQ(message([&] { mesh::check_jacobians(mesh, 3); }), said);
      EXPECT_NE(said, "");
    }
    EXPECT_EQ(message([&] { mesh::check_jacobians(of, 3); }), "");
  }
}

TEST(Box, BoundaryPointsAreThoseOnTheSurface) {
  mpi::Comm comm;
  const auto mesh = make_box({.counts = {3, 2, 3}, .periodic = {false, true, false}}, comm);
  const auto marks = mesh::points_on_boundary(mesh, 4);
  const auto x = mesh::point_coordinates(mesh, 4);
  for (std::size_t p = 0; p < marks.size(); ++p) {
    const bool outer = x[3 * p] == 0 || x[3 * p] == 1 || x[3 * p + 2] == 0 || x[3 * p + 2] == 1;
    EXPECT_EQ(marks[p] != 0, outer);  // for a box of hexahedra this also holds element by element
  }
}

TEST(Box, PermutedCarriesEveryArrayAlong) {
  mpi::Comm comm;
  const auto mesh = make_box({.counts = {4, 3, 3}, .periodic = {true, false, false}, .deformation = "smooth"}, comm);
  std::vector<std::int64_t> order(mesh.elements());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  const auto moved = mesh.permuted(order);
  test::expect_ids_match_coordinates(moved, 3, {1, 0, 0});
  for (std::size_t e = 0; e < order.size(); ++e) {
    EXPECT_EQ(moved.element_ids[e], mesh.element_ids[order[e]]);
    EXPECT_EQ(moved.boundaries[e], mesh.boundaries[order[e]]);
  }
  order[0] = order[order.size() - 1];
  if (order.size() > 1) {
    EXPECT_THROW(mesh.permuted(order), std::invalid_argument);
  }
}

TEST(Box, BadOptionsAreRefusedOnEveryRank) {
  mpi::Comm comm;
  auto refuses = [&](BoxOptions options, const char* part) {
    try {
      make_box(options, comm);
      ADD_FAILURE() << "accepted: " << part;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refuses({.counts = {0, 8, 8}}, "at least 1");
  refuses({.counts = {1'000'000'000, 1'000'000'000, 1'000'000'000}}, "at most 1e12");
  refuses({.counts = {8, 8, 8}, .upper = {1, 0, 1}}, "direction y");
  refuses({.counts = {8, 8, 8}, .upper = {1, 1, std::nan("")}}, "direction z");
  refuses({.counts = {8, 8, 8}, .deformation = "kershw"}, "unknown deformation \"kershw\"");
  refuses({.counts = {8, 8, 8}, .deformation = "kershaw", .deformation_parameter = 0}, "(0, 1]");
  refuses({.counts = {8, 8, 8}, .periodic = {true, false, false}, .deformation = "kershaw"}, "periodic");
  if (comm.size() > 1) refuses({.counts = {1, 1, 1}}, "ranks, but the box has only 1 elements");
}

TEST(Box, AMillionPointsHaveEveryIdAsOftenAsElementsMeetThereAndFillTheBox) {
  mpi::Comm comm;
  constexpr int order = 7;
  const std::array<std::int64_t, 3> counts{13, 13, 12};
  for (std::string deformation : {"none", "smooth"}) {
    const auto mesh = make_box({.counts = counts, .deformation = deformation}, comm);
    const auto ids = mesh::point_ids(mesh, order);
    std::vector<std::int64_t> met(static_cast<std::size_t>(mesh::global_points(mesh, order)), 0);
    for (const std::int64_t id : ids) {
      ASSERT_GE(id, 1);
      ASSERT_LE(id, std::ssize(met));
      ++met[static_cast<std::size_t>(id - 1)];
    }
    comm.sum(met.data(), static_cast<int>(met.size()));
    // Inside elements 1; on a face between two elements, a factor of 2 for each direction in which the point is on such
    // a face.
    std::array<std::int64_t, 9> found{}, expected{};
    for (const std::int64_t m : met) ++found[static_cast<std::size_t>(std::clamp<std::int64_t>(m, 0, 8))];
    for (int mask = 0; mask < 8; ++mask) {
      std::int64_t points = 1, elements = 1;
      for (int d = 0; d < 3; ++d) {
        const bool between = (mask >> d & 1) != 0;
        points *= between ? counts[d] - 1 : counts[d] * (order - 1) + 2;
        elements *= between ? 2 : 1;
      }
      expected[static_cast<std::size_t>(elements)] += points;
    }
    EXPECT_EQ(found, expected);

    const auto factors = mesh::geometric_factors(mesh, order);
    ASSERT_EQ(factors.mass.size(), ids.size());
    double volume = std::accumulate(factors.mass.begin(), factors.mass.end(), 0.0);
    comm.sum(&volume, 1);
    EXPECT_NEAR(volume, 1.0, 1e-10);
    EXPECT_TRUE(std::all_of(factors.g.begin(), factors.g.end(), [](double g) { return std::isfinite(g); }));
  }
}
