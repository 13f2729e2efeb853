#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <random>

#include "mesh_checks.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/mesh/whole.hpp"

using namespace weft;
using mesh::Curve;
using mesh::WholeMesh;

namespace {

// The 48 ways to place a local frame in a cube: corner c of the local frame is corner frames()[w][c] of the cube. The
// first 24 are rotations, the others mirror the element.
const std::vector<std::array<int, 8>>& frames() {
  static const auto all = [] {
    std::vector<std::array<int, 8>> rotations, mirrors;
    std::array<int, 3> axes{0, 1, 2};
    do {
      const int inversions = (axes[0] > axes[1]) + (axes[0] > axes[2]) + (axes[1] > axes[2]);
      for (int flips = 0; flips < 8; ++flips) {
        std::array<int, 8> frame{};
        for (int c = 0; c < 8; ++c) {
          for (int d = 0; d < 3; ++d) frame[c] |= ((c ^ flips) >> d & 1) << axes[d];
        }
        const int turns = inversions + (flips & 1) + (flips >> 1 & 1) + (flips >> 2);
        (turns % 2 == 0 ? rotations : mirrors).push_back(frame);
      }
    } while (std::next_permutation(axes.begin(), axes.end()));
    rotations.insert(rotations.end(), mirrors.begin(), mirrors.end());
    return rotations;
  }();
  return all;
}

// A box of n elements with sides of length n, in which every element has its own frame (one of the first `ways`) and
// corner ids are shuffled: what a reader might deliver.
WholeMesh scrambled_box(std::array<int, 3> n, std::array<bool, 3> periodic, const std::function<int(int)>& frame_of,
                        unsigned seed) {
  const int planes[3] = {n[0] + 1, n[1] + 1, n[2] + 1};
  std::vector<std::int64_t> label(planes[0] * planes[1] * planes[2]);
  std::iota(label.begin(), label.end(), 0);
  std::shuffle(label.begin(), label.end(), std::mt19937(seed));

  WholeMesh whole;
  whole.source = "scrambled";
  whole.boundary_names = {"wall"};
  auto element_at = [&](int i, int j, int k) { return i + n[0] * (j + n[1] * k); };
  for (int k = 0; k < n[2]; ++k) {
    for (int j = 0; j < n[1]; ++j) {
      for (int i = 0; i < n[0]; ++i) {
        const auto& frame = frames()[frame_of(element_at(i, j, k))];
        auto& corners = whole.vertices.emplace_back();
        for (int c = 0; c < 8; ++c) {
          const int x = i + (frame[c] & 1), y = j + (frame[c] >> 1 & 1), z = k + (frame[c] >> 2);
          corners[c] = label[x + planes[0] * (y + planes[1] * z)];
          for (int v : {x, y, z}) whole.nodes.push_back(v);
        }
        whole.boundaries.push_back({});
      }
    }
  }
  // The local face whose corners are all on one side of the cube.
  auto local_face = [&](int element, int direction, int side) {
    const auto& frame = frames()[frame_of(element)];
    for (int f = 0; f < 6; ++f) {
      if (std::ranges::all_of(mesh::face_corners[f], [&](int c) { return (frame[c] >> direction & 1) == side; }))
        return f;
    }
    return -1;
  };
  for (int d = 0; d < 3; ++d) {
    for (int e = 0; e < n[0] * n[1] * n[2]; ++e) {
      std::array<int, 3> at{e % n[0], e / n[0] % n[1], e / n[0] / n[1]};
      if (at[d] != 0) continue;
      at[d] = n[d] - 1;
      const int other = element_at(at[0], at[1], at[2]);
      const int fa = local_face(e, d, 0), fb = local_face(other, d, 1);
      if (!periodic[d]) {
        whole.boundaries[e][fa] = whole.boundaries[other][fb] = 1;
        continue;
      }
      mesh::PeriodicPair pair{e, fa, other, fb, {}};
      for (int m = 0; m < 4; ++m) {
        const int corner = frames()[frame_of(e)][mesh::face_corners[fa][m]] | 1 << d;
        for (int q = 0; q < 4; ++q) {
          if (frames()[frame_of(other)][mesh::face_corners[fb][q]] == corner) pair.corners[m] = q;
        }
      }
      whole.periodic.push_back(pair);
    }
  }
  return whole;
}

mesh::Mesh dealt(const WholeMesh& whole, const mpi::Comm& comm, int geometry_order = 0) {
  if (comm.rank() != 0) return mesh::distribute({}, {}, {}, geometry_order, comm);
  return mesh::distribute(whole, mesh::build_topology(whole), mesh::recursive_bisection(whole, comm.size()),
                          geometry_order, comm);
}

std::string refusal(const WholeMesh& whole) {
  try {
    mesh::build_topology(whole);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

const auto no_frame = [](int) { return 0; };

}  // namespace

TEST(Topology, TwoElementsGluedInEveryOrientationShareExactlyThePointsThatCoincide) {
  const auto self = mpi::Comm::self();
  std::set<int> orientations, relative;
  for (int a = 0; a < 48; ++a) {
    for (int b = 0; b < 48; ++b) {
      const auto whole = scrambled_box({2, 1, 1}, {}, [&](int e) { return e == 0 ? a : b; }, 48 * a + b);
      const auto mesh = dealt(whole, self);
      ASSERT_NO_FATAL_FAILURE(test::expect_ids_match_coordinates(mesh, 4)) << a << " " << b;
      EXPECT_EQ(mesh.topology.global_vertices, 12);
      EXPECT_EQ(mesh.topology.global_edges, 20);
      EXPECT_EQ(mesh.topology.global_faces, 11);
      std::set<std::int64_t> seen;
      for (int e = 0; e < 2; ++e) {
        for (int f = 0; f < 6; ++f) {
          if (!seen.insert(mesh.topology.faces[e][f]).second)
            orientations.insert(mesh.topology.face_orientations[e][f]);
        }
      }
    }
  }
  EXPECT_EQ(orientations.size(), 8u);
}

TEST(Topology, PeriodicBoxesOfOneTwoOrThreeElementsInAnyFramesAreTori) {
  mpi::Comm comm;
  std::mt19937 random(3);
  for (int mask = 0; mask < 8; ++mask) {
    for (int c = 0; c < 27; ++c) {
      const std::array<int, 3> n{1 + c % 3, 1 + c / 3 % 3, 1 + c / 9};
      const int count = n[0] * n[1] * n[2];
      std::vector<int> frame(count);
      for (int& f : frame) f = static_cast<int>(random() % 48);
      if (count < comm.size()) continue;
      const std::array<bool, 3> periodic{(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
      std::array<double, 3> period{};
      std::int64_t vertices = 1;
      for (int d = 0; d < 3; ++d) {
        period[d] = periodic[d] ? n[d] : 0;
        vertices *= periodic[d] ? n[d] : n[d] + 1;
      }
      const auto mesh = dealt(scrambled_box(n, periodic, [&](int e) { return frame[e]; }, c), comm);
      EXPECT_EQ(mesh.topology.global_vertices, vertices);
      // V - E + F - cells: 1 for a ball, 0 if any direction is periodic.
      EXPECT_EQ(vertices - mesh.topology.global_edges + mesh.topology.global_faces - count, mask == 0 ? 1 : 0);
      ASSERT_NO_FATAL_FAILURE(test::expect_ids_match_coordinates(mesh, 4, period)) << mask << " " << c;
    }
  }
}

TEST(Topology, BadConnectionsAreRefusedByElementAndFace) {
  auto box = [&](std::array<bool, 3> periodic = {}) { return scrambled_box({3, 1, 1}, periodic, no_frame, 1); };
  EXPECT_EQ(refusal(box()), "accepted");

  auto torn = box();
  // No neighbour shares this corner any more, so r+ (corners 1, 3, 5, 7) of element 1 is torn.
  torn.vertices[1][1] = 100;
  EXPECT_NE(refusal(torn).find("torn face: face r+ of element 1"), std::string::npos) << refusal(torn);

  auto bare = box();
  bare.boundaries[2][3] = 0;
  EXPECT_NE(refusal(bare).find("torn face: face s+ of element 2"), std::string::npos) << refusal(bare);

  auto inner = box();
  inner.boundaries[0][1] = 1;
  EXPECT_NE(refusal(inner).find("face r+ of element 0"), std::string::npos) << refusal(inner);
  EXPECT_NE(refusal(inner).find("(wall)"), std::string::npos) << refusal(inner);

  auto three = box();
  three.vertices.push_back(three.vertices[1]);
  three.boundaries.push_back({});
  EXPECT_NE(refusal(three).find("3 elements share one face"), std::string::npos) << refusal(three);

  auto collapsed = box();
  collapsed.vertices[1][4] = collapsed.vertices[1][5];
  EXPECT_NE(refusal(collapsed).find("element 1 "), std::string::npos) << refusal(collapsed);

  auto twisted = box({true, false, false});
  EXPECT_EQ(refusal(twisted), "accepted");
  std::swap(twisted.periodic[0].corners[0], twisted.periodic[0].corners[1]);
  EXPECT_NE(refusal(twisted).find("twists the face"), std::string::npos) << refusal(twisted);

  auto half = box({true, false, false});
  half.periodic.clear();
  EXPECT_NE(refusal(half).find("torn face: face r- of element 0"), std::string::npos) << refusal(half);

  auto twice = box({true, false, false});
  twice.periodic.push_back(twice.periodic[0]);
  EXPECT_NE(refusal(twice).find("has a neighbour already"), std::string::npos) << refusal(twice);

  auto lost = box({true, false, false});
  lost.periodic[0].element_b = 77;
  EXPECT_NE(refusal(lost).find("one of these faces does not exist"), std::string::npos) << refusal(lost);

  // One pair identifies the edge between two elements with its image in the same direction, the other in reverse.
  auto moebius = scrambled_box({1, 2, 1}, {true, false, false}, no_frame, 1);
  moebius.periodic[1].corners = {2, 3, 0, 1};
  EXPECT_NE(refusal(moebius).find("contradict each other"), std::string::npos) << refusal(moebius);
}

TEST(Distribute, NumberingDoesNotDependOnTheNumberOfRanks) {
  mpi::Comm comm;
  const auto whole = scrambled_box({4, 3, 2}, {true, false, false}, [](int e) { return 7 * e % 24; }, 5);
  const auto one = dealt(whole, mpi::Comm::self());
  const auto many = dealt(whole, comm);
  EXPECT_EQ(mesh::global_points(many, 5), mesh::global_points(one, 5));
  std::map<std::int64_t, std::int64_t> local;
  for (std::int64_t e = 0; e < one.elements(); ++e) local[one.element_ids[e]] = e;
  const auto ids_one = mesh::point_ids(one, 5), ids = mesh::point_ids(many, 5);
  const auto x_one = mesh::point_coordinates(one, 5), x = mesh::point_coordinates(many, 5);
  for (std::int64_t e = 0; e < many.elements(); ++e) {
    const std::int64_t o = local.at(many.element_ids[e]);
    EXPECT_TRUE(std::equal(&ids[216 * e], &ids[216 * e] + 216, &ids_one[216 * o]));
    EXPECT_TRUE(std::equal(&x[648 * e], &x[648 * e] + 648, &x_one[648 * o]));
    EXPECT_EQ(many.boundaries[e], one.boundaries[o]);
  }
  std::int64_t total = many.elements();
  comm.sum(&total, 1);
  EXPECT_EQ(total, 24);
  EXPECT_EQ(many.boundary_names, std::vector<std::string>{"wall"});
  EXPECT_EQ(many.source, "scrambled");
}

TEST(Distribute, MoreRanksThanElementsIsAnErrorOnEveryRank) {
  mpi::Comm comm;
  const auto whole = scrambled_box({1, 1, 1}, {}, no_frame, 1);
  if (comm.size() == 1) {
    EXPECT_NO_THROW(dealt(whole, comm));
    return;
  }
  const std::vector<std::int32_t> parts{0};
  EXPECT_THROW(
      mesh::distribute(whole, comm.rank() == 0 ? mesh::build_topology(whole) : mesh::WholeTopology{}, parts, 0, comm),
      mpi::CollectiveError);
}

TEST(Bisection, PartsDifferByOneElementAtMostAndAreCompact) {
  const auto whole = scrambled_box({6, 5, 4}, {}, no_frame, 1);
  for (int parts : {1, 2, 3, 7, 16, 119, 120}) {
    const auto part = mesh::recursive_bisection(whole, parts);
    std::vector<int> counts(parts, 0);
    for (int p : part) ++counts.at(p);
    EXPECT_LE(std::ranges::max(counts) - std::ranges::min(counts), 1) << parts;
  }
  // Two parts: cut across the longest side.
  const auto part = mesh::recursive_bisection(whole, 2);
  for (std::int64_t e = 0; e < whole.elements(); ++e) EXPECT_EQ(part[e], whole.nodes[24 * e] < 3 ? 0 : 1);
}

TEST(Hilbert, NeighboursOnTheCurveAreNeighboursInSpace) {
  constexpr int n = 8;
  std::vector<std::pair<std::uint64_t, std::array<int, 3>>> cells;
  for (int i = 0; i < n * n * n; ++i) {
    const std::array<int, 3> at{i % n, i / n % n, i / n / n};
    cells.push_back({mesh::hilbert_index({(at[0] + .5) / n, (at[1] + .5) / n, (at[2] + .5) / n}), at});
  }
  std::sort(cells.begin(), cells.end());
  for (std::size_t i = 1; i < cells.size(); ++i) {
    int steps = 0;
    for (int d = 0; d < 3; ++d) steps += std::abs(cells[i].second[d] - cells[i - 1].second[d]);
    EXPECT_EQ(steps, 1) << i;
  }
}

namespace {

// Volume by quadrature at `order`.
double volume(const mesh::Mesh& mesh, int order) {
  const auto factors = mesh::geometric_factors(mesh, order);
  double sum = std::accumulate(factors.mass.begin(), factors.mass.end(), 0.0);
  mesh.comm.sum(&sum, 1);
  return sum;
}

// One element: the cube [0, 1]^3, scaled and shifted so that sides in s, r and t can be curved.
WholeMesh single() {
  auto whole = scrambled_box({1, 1, 1}, {}, no_frame, 1);
  return whole;
}

}  // namespace

TEST(Curves, ArcsBulgeToTheRightOfTheirEdgeAndTheSegmentsAreaConverges) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "one element";
  const auto self = mpi::Comm::self();
  // A chord of length 1 in a circle of radius r: the segment has the area r^2 (phi - sin phi) / 2, phi = 2 asin(1 / (2
  // r)).
  const double r = 0.7, phi = 2 * std::asin(0.5 / r), segment = 0.5 * r * r * (phi - std::sin(phi));
  struct Case {
    int edge, partner;  // at t- and t+
    double radius, expected;
  };
  // Edge 0 runs +x along y = 0: its right is outside. Edge 1 runs +x along y = 1: its right is inside.
  for (const Case& c : {Case{0, 2, r, 1 + segment},
                        {0, 2, -r, 1 - segment},
                        {1, 3, r, 1 - segment},
                        {1, 3, -r, 1 + segment},
                        {4, 6, r, 1 - segment},
                        {5, 7, r, 1 + segment}}) {
    auto whole = single();
    whole.curves = {{0, Curve::arc, c.edge, {c.radius}}, {0, Curve::arc, c.partner, {c.radius}}};
    EXPECT_EQ(mesh::natural_geometry_order(whole), 7);
    double before = 1;
    for (int q : {2, 4, 6, 9}) {
      const double error = std::abs(volume(dealt(whole, self, q), 10) - c.expected);
      EXPECT_LT(error, 0.2 * before) << c.edge << " " << q;
      before = error;
    }
    EXPECT_LT(before, 1e-9);
    // The nodes of the edge are on the circle.
    const auto mesh = dealt(whole, self, 9);
    const double cy = (c.edge == 0 ? (c.radius > 0 ? 1 : -1) * std::sqrt(r * r - 0.25) : 0);
    if (c.edge == 0) {
      for (int i = 0; i < 10; ++i)
        EXPECT_NEAR(std::hypot(mesh.nodes[3 * i] - 0.5, mesh.nodes[3 * i + 1] - cy), r, 1e-14);
    }
  }
}

TEST(Curves, MidpointsMakeTheEdgeAParabola) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "one element";
  auto whole = single();
  whole.curves = {{0, Curve::midpoint, 11, {1.1, 1.2, 0.5}}};  // along t at r+, s+
  EXPECT_EQ(mesh::natural_geometry_order(whole), 2);
  const auto mesh = dealt(whole, mpi::Comm::self());
  const auto x = mesh::point_coordinates(mesh, 4);
  const auto& gll = element::gll(4).points;
  for (int k = 0; k < 5; ++k) {
    const double bump = 1 - gll[k] * gll[k];
    const double* at = &x[3 * (24 + 25 * k)];
    EXPECT_NEAR(at[0], 1 + 0.1 * bump, 1e-15);
    EXPECT_NEAR(at[1], 1 + 0.2 * bump, 1e-15);
    EXPECT_NEAR(at[2], 0.5 + 0.5 * gll[k], 1e-15);
  }
}

TEST(Curves, SphereOfSixElementsRoundACubeHasItsVolume) {
  mpi::Comm comm;
  if (comm.size() > 4) GTEST_SKIP();
  // A cube of side 2 a in the middle, surrounded by six elements out to the sphere of radius 1.
  const double a = 0.4, corner = 1 / std::sqrt(3.0);
  WholeMesh whole;
  whole.source = "ball";
  whole.boundary_names = {"sphere"};
  auto add = [&](const std::array<std::int64_t, 8>& ids) {  // ids 0..7 inner corners, 8..15 outer
    whole.vertices.push_back(ids);
    whole.boundaries.push_back({});
    for (std::int64_t id : ids) {
      const double size = id < 8 ? a : corner;
      for (int d = 0; d < 3; ++d) whole.nodes.push_back((id >> d & 1) != 0 ? size : -size);
    }
  };
  add({0, 1, 2, 3, 4, 5, 6, 7});
  for (int f = 0; f < 6; ++f) {
    const auto& c = mesh::face_corners[f];
    // t points outwards; (a, b, normal) is right-handed for r+, t+ and s-; for the others a and b are swapped.
    const bool swap = f == 0 || f == 3 || f == 4;
    const std::array<int, 4> q = swap ? std::array{c[0], c[2], c[1], c[3]} : c;
    add({q[0], q[1], q[2], q[3], q[0] + 8, q[1] + 8, q[2] + 8, q[3] + 8});
    whole.boundaries.back()[5] = 1;
    whole.curves.push_back({f + 1, Curve::sphere, 5, {0, 0, 0, 1}});
  }
  double before = 1;
  for (int q : {2, 4, 7, 11}) {
    const auto mesh = dealt(whole, comm, q);
    ASSERT_NO_FATAL_FAILURE(test::expect_ids_match_coordinates(mesh, 5));
    const double error = std::abs(volume(mesh, 14) - 4 * std::numbers::pi / 3);
    EXPECT_LT(error, 0.2 * before) << q;
    before = error;
  }
  EXPECT_LT(before, 1e-6);
}

TEST(Curves, ImpossibleArcsAndSpheresAreRefusedByElement) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "one element";
  const auto self = mpi::Comm::self();
  auto whole = single();
  whole.curves = {{0, Curve::arc, 0, {0.4}}};
  auto text = [&] {
    try {
      dealt(whole, self);
    } catch (const mpi::CollectiveError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(text().find("edge 0 of element 0 (counting from 0) is an arc of radius 0.4, too small"), std::string::npos)
      << text();
  whole.curves = {{0, Curve::sphere, 1, {0, 0, 0, 1}}};
  EXPECT_NE(text().find("face 1 of element 0"), std::string::npos) << text();
}

TEST(Geometry, SecondOrderNodesThatAreTrilinearCountAsStraight) {
  if (mpi::Comm().size() > 1) GTEST_SKIP() << "serial";
  auto whole = scrambled_box({2, 2, 1}, {}, [](int e) { return e; }, 1);
  std::vector<std::int64_t> ids(4);
  for (double& v : whole.nodes) v *= 0.1 + 0.01 * v;
  whole.nodes = mesh::curved_nodes(whole.nodes, 1, {}, 2, ids);
  whole.node_order = 2;
  EXPECT_EQ(mesh::natural_geometry_order(whole), 1);
  const auto mesh = dealt(whole, mpi::Comm::self());
  EXPECT_TRUE(mesh.straight());
  EXPECT_EQ(std::ssize(mesh.nodes), 4 * 24);
  whole.nodes[3 * 13] += 1e-6;
  EXPECT_EQ(mesh::natural_geometry_order(whole), 2);
}
