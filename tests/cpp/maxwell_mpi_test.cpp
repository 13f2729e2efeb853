// Maxwell's equations on any number of ranks: the same trajectory, the energy balance, free streams, orientations.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "maxwell_checks.hpp"
#include "shuffled_mesh.hpp"
#include "weft/exchange/choice.hpp"

using namespace weft;
using namespace weft::maxwell;

namespace {

mesh::Mesh box(const mpi::Comm& comm, std::array<bool, 3> periodic, const char* deformation = "smooth") {
  return mesh::make_box({.counts = {3, 2, 2}, .upper = {1, 0.8, 0.6}, .periodic = periodic, .deformation = deformation},
                        comm);
}

std::vector<double> random_fields(std::int64_t entries, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(entries);
  for (double& value : values) value = uniform(random);
  return values;
}

// d(energy)/dt of the given fields, and the magnitude of its terms. With W(v) = <v, v> / 2: W(u + r) - W(u - r) = 2 <u,
// r>.
std::pair<double, double> power(Operator<double>& op, const std::vector<double>& fields) {
  device::Stream stream(op.options().device);
  std::vector<double> rates(fields.size()), sum(fields), difference(fields);
  op.apply(0, fields.data(), rates.data(), stream);
  stream.synchronize();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    sum[i] += rates[i];
    difference[i] -= rates[i];
  }
  const auto total = [&](const std::vector<double>& v) {
    const auto [electric, magnetic] = op.energy(v.data(), stream);
    return electric + magnetic;
  };
  return {(total(sum) - total(difference)) / 2, std::sqrt(total(fields) * total(rates))};
}

}  // namespace

TEST(Maxwell, TheTrajectoryIsThatOfOneRankByEveryScheduleAndPath) {
  for (const bool driven : {false, true}) {
    const mesh::Mesh alone = box(mpi::Comm::self(), {true, false, false}),
                     mesh = box(mpi::Comm(), {true, false, false});
    const auto expected = test::trajectory<double>(alone, test::maxwell_options(alone, 4, "host", driven), 6, 5e-3);
    Options options = test::maxwell_options(mesh, 4, "host", driven);
    for (const char* choice :
         {"pairwise:direct", "pairwise:staged", "alltoallv:direct", "neighbor:staged", "crystal:direct"}) {
      SCOPED_TRACE(choice);
      options.exchange = choice;
      test::expect_same_by_element(test::trajectory<double>(mesh, options, 6, 5e-3), expected, 2e-13);
      if (driven) break;
    }
  }
}

TEST(Maxwell, SinglePrecisionFollowsDouble) {
  const mesh::Mesh mesh = box(mpi::Comm(), {true, false, true});
  const Options options = test::maxwell_options(mesh, 3, "host", true);
  const auto expected = test::trajectory<double>(mesh, options, 5, 5e-3);
  for (const auto& [id, values] : test::trajectory<float>(mesh, options, 5, 5e-3))
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected.at(id)[i], 2e-4);
}

TEST(Maxwell, RerunsAreEqualBitForBit) {
  const mesh::Mesh mesh = box(mpi::Comm(), {false, true, false});
  const Options options = test::maxwell_options(mesh, 3, "host", true);
  EXPECT_EQ(test::trajectory<double>(mesh, options, 5, 5e-3), test::trajectory<double>(mesh, options, 5, 5e-3));
}

// The same elements with their axes rotated relative to each other, in every orientation of faces.
TEST(Maxwell, TurnedElementsHaveTheTrajectoryOfOthers) {
  for (const bool curved : {false, true}) {
    constexpr int order = 3, n = order + 1;
    const mesh::Mesh straight = test::shuffled_mesh(curved, false), turned = test::shuffled_mesh(curved, true);
    const auto expected =
        test::trajectory<double>(straight, test::maxwell_options(straight, order, "host", false), 5, 0.01);
    const auto found = test::trajectory<double>(turned, test::maxwell_options(turned, order, "host", false), 5, 0.01);
    const auto places = [](const mesh::Mesh& mesh) {
      std::map<std::int64_t, std::vector<double>> result;
      const auto x = test::all_gather(mesh::point_coordinates(mesh, order), mesh.comm);
      const auto ids = test::all_gather(mesh.element_ids.get(), mesh.comm);
      for (std::size_t e = 0; e < ids.size(); ++e)
        result[ids[e]].assign(&x[e * 3 * n * n * n], &x[e * 3 * n * n * n] + 3 * n * n * n);
      return result;
    };
    const auto there = places(straight), here = places(turned);
    for (const auto& [id, x] : here) {
      for (int p = 0; p < n * n * n; ++p) {
        int match = -1;
        for (int q = 0; q < n * n * n && match < 0; ++q) {
          const double* y = &there.at(id)[3 * q];
          if (std::hypot(x[3 * p] - y[0], x[3 * p + 1] - y[1], x[3 * p + 2] - y[2]) < 1e-9) match = q;
        }
        ASSERT_GE(match, 0);
        for (int c = 0; c < 6; ++c)
          ASSERT_NEAR(found.at(id)[c * n * n * n + p], expected.at(id)[c * n * n * n + match], 1e-12)
              << "element " << id << " component " << c;
      }
    }
  }
}

TEST(Maxwell, CentralFluxKeepsTheEnergyOnCurvedTurnedElementsOfAnyMaterials) {
  const mesh::Mesh meshes[] = {test::shuffled_mesh(true), box(mpi::Comm(), {true, true, false})};
  for (const mesh::Mesh& mesh : meshes)
    for (const int order : {1, 4, 7}) {
      Options options = test::maxwell_options(mesh, order, "host", false);
      options.flux = Flux::central;
      options.materials[2].second.sigma = 0;
      int b = 0;
      for (auto& [name, condition] : options.boundaries) condition = b++ % 2 == 0 ? Condition::pec : Condition::pmc;
      Operator<double> op(mesh, options);
      for (unsigned seed = 1; seed <= 3; ++seed) {
        const auto [found, scale] = power(op, random_fields(op.entries(), seed + 10 * mesh.comm.rank()));
        EXPECT_LT(std::abs(found), 1e-12 * scale) << "order " << order;
      }
    }
}

TEST(Maxwell, UpwindFluxAndEveryBoundaryTakeEnergyAndNeverGiveIt) {
  const mesh::Mesh meshes[] = {test::shuffled_mesh(true), box(mpi::Comm(), {true, false, false})};
  for (const mesh::Mesh& mesh : meshes)
    for (const int order : {1, 4, 7}) {
      Operator<double> op(mesh, test::maxwell_options(mesh, order, "host", false));
      for (unsigned seed = 1; seed <= 3; ++seed) {
        const auto [found, scale] = power(op, random_fields(op.entries(), seed + 10 * mesh.comm.rank()));
        EXPECT_LT(found, -1e-3 * scale) << "order " << order;
      }
      // Smooth fields have no jumps, so energy is lost only at the boundary and in the mud.
      const auto [found, scale] = power(op, test::smooth_fields<double>(mesh, order));
      EXPECT_LT(found, 1e-12 * scale) << "order " << order;
    }
}

TEST(Maxwell, ConstantFieldsStayConstantOnCurvedElements) {
  const mesh::Mesh mesh = box(mpi::Comm(), {true, true, true});
  for (const int order : {1, 2, 5, 9, 15}) {
    Options options = test::maxwell_options(mesh, order, "host", false);
    options.materials[2].second.sigma = 0;
    Operator<double> op(mesh, options);
    const std::size_t each = static_cast<std::size_t>(op.points() / std::max<std::int64_t>(1, op.elements()));
    std::vector<double> fields(op.entries()), rates(op.entries());
    for (std::size_t i = 0; i < fields.size(); ++i) fields[i] = 1 + 0.5 * static_cast<double>(i / each % 6);
    device::Stream stream(options.device);
    op.apply(0, fields.data(), rates.data(), stream);
    double largest = 0;
    for (const double rate : rates) largest = std::max(largest, std::abs(rate));
    EXPECT_LT(mesh.comm.max(largest) * op.dt_limit(), 1e-12) << "order " << order;
  }
}

// Quarter turns about z rotate the fields, so the scheme cannot identify such a pair of faces.
TEST(Maxwell, PeriodicFacesThatAreTurnedAgainstEachOtherAreNamedOnAllRanks) {
  const mpi::Comm comm;
  mesh::WholeMesh whole;
  whole.source = "wedges";
  whole.boundary_names = {"rest"};
  // A quarter of a ring with one more element than ranks; its two ends are a periodic pair.
  const int elements = comm.size() + 1;
  std::vector<std::array<double, 3>> nodes;
  for (int e = 0; e < elements; ++e) {
    whole.vertices.emplace_back();
    for (int c = 0; c < 8; ++c) {
      const int along = c / 2 % 2;
      whole.vertices.back()[c] = 4 * (e + along) + c % 2 + 2 * (c / 4);
      const double angle = (e + along) * std::acos(0.0) / elements, radius = 1 + c % 2;
      whole.nodes.insert(whole.nodes.end(), {radius * std::cos(angle), radius * std::sin(angle), c / 4 * 1.0});
    }
    whole.boundaries.push_back({1, 1, e > 0 ? 0 : 0, 0, 1, 1});
  }
  whole.periodic = {{0, 2, elements - 1, 3, {0, 1, 2, 3}}};
  mesh::WholeTopology topology;
  std::vector<std::int32_t> parts;
  if (comm.rank() == 0) {
    topology = mesh::build_topology(whole);
    parts = mesh::recursive_bisection(whole, comm.size());
  }
  const mesh::Mesh mesh = mesh::distribute(comm.rank() == 0 ? whole : mesh::WholeMesh{}, topology, parts, 0, comm);
  try {
    Operator<double> op(mesh, test::maxwell_options(mesh, 2, "host", false));
    FAIL() << "a quarter turn was taken for a translation";
  } catch (const mpi::CollectiveError& error) {
    EXPECT_NE(std::string(error.what()).find("face s"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("make the pair a translation"), std::string::npos) << error.what();
  }
}
