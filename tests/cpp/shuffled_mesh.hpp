// A mesh whose elements have their axes rotated relative to each other.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "weft/mesh/whole.hpp"

namespace weft::test {

// 3 x 2 x 2 elements of a sheared box. turned: each element has its own right-handed axes, so that faces meet in every
// orientation; otherwise all have the same axes. (collective)
inline mesh::Mesh shuffled_mesh(bool curved, bool turned = true) {
  constexpr std::array<std::int64_t, 3> counts{3, 2, 2};
  const mpi::Comm comm;
  mesh::WholeMesh whole;
  whole.source = curved ? "shuffled curved box" : "shuffled sheared box";
  whole.node_order = curved ? 2 : 1;
  whole.boundary_names = {"wall"};
  const int q = whole.node_order;
  std::int64_t element = 0;
  for (std::int64_t z = 0; z < counts[2]; ++z)
    for (std::int64_t y = 0; y < counts[1]; ++y)
      for (std::int64_t x = 0; x < counts[0]; ++x, ++element) {
        const std::array<std::int64_t, 3> cell{x, y, z};
        constexpr std::array<std::array<int, 3>, 6> permutations{
            {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}}};
        const int turn = turned ? static_cast<int>(element * 7 % 24) : 0;
        const std::array<int, 3>& axes = permutations[turn % 6];  // local direction d runs along axes[d]
        // Two of four flips are chosen; an odd permutation needs an odd number of flips.
        std::array<bool, 3> flip{(turn / 6) % 2 == 1, (turn / 12) % 2 == 1, false};
        flip[2] = (flip[0] != flip[1]) != (turn % 6 >= 3);
        // The lattice position, in units of cells / q, of a local node.
        const auto place = [&](std::array<int, 3> local) {
          std::array<std::int64_t, 3> at{};
          for (int d = 0; d < 3; ++d) at[axes[d]] = cell[axes[d]] * q + (flip[d] ? q - local[d] : local[d]);
          return at;
        };
        auto& corners = whole.vertices.emplace_back();
        for (int c = 0; c < 8; ++c) {
          const auto at = place({c % 2 * q, c / 2 % 2 * q, c / 4 * q});
          corners[c] = at[0] / q + (counts[0] + 1) * (at[1] / q + (counts[1] + 1) * (at[2] / q));
        }
        for (int k = 0; k <= q; ++k)
          for (int j = 0; j <= q; ++j)
            for (int i = 0; i <= q; ++i) {
              const auto at = place({i, j, k});
              std::array<double, 3> u{};
              for (int d = 0; d < 3; ++d) u[d] = static_cast<double>(at[d]) / q;
              const double bump = curved ? 0.05 * std::sin(2.1 * u[0] + 1.3 * u[1] - 0.7 * u[2]) : 0;
              whole.nodes.insert(whole.nodes.end(), {u[0] + 0.3 * u[1] + bump, 1.1 * u[1] - 0.2 * u[2] - bump,
                                                     0.9 * u[2] + 0.1 * u[0] + 2 * bump});
            }
        auto& tags = whole.boundaries.emplace_back();
        for (int d = 0; d < 3; ++d)
          for (int end = 0; end < 2; ++end) {
            const bool upper = (end == 1) != flip[d];
            if (cell[axes[d]] == (upper ? counts[axes[d]] - 1 : 0)) tags[2 * d + end] = 1;
          }
      }
  mesh::WholeTopology topology;
  std::vector<std::int32_t> parts;
  if (comm.rank() == 0) {
    topology = mesh::build_topology(whole);
    parts = mesh::recursive_bisection(whole, comm.size());
  }
  return mesh::distribute(comm.rank() == 0 ? whole : mesh::WholeMesh{}, topology, parts, 0, comm);
}

}  // namespace weft::test
