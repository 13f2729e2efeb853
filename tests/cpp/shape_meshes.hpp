// Meshes whose elements are of several shapes (mesh/shape.hpp).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/element/gll.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/shape.hpp"

namespace weft::test {

inline mesh::Mesh box_of(std::array<std::int64_t, 3> counts, const std::string& deformation, const mpi::Comm& comm) {
  mesh::BoxOptions options;
  options.counts = counts;
  options.deformation = deformation;
  return mesh::make_box(options, comm);
}

// Moves every node of element e to place(its coordinates within the element, each from 0 to 1).
template <class Place>
void place_nodes(mesh::Mesh& mesh, std::int64_t e, const Place& place) {
  const std::vector<double>& points = element::gll(mesh.geometry_order).points;
  const std::int64_t n = mesh.geometry_order + 1;
  double* node = mesh.nodes.change().data() + 3 * n * n * n * e;
  for (const double t : points)
    for (const double s : points)
      for (const double r : points) {
        const std::array<double, 3> at = place(std::array{(r + 1) / 2, (s + 1) / 2, (t + 1) / 2});
        for (const double x : at) *node++ = x;
      }
}

// Elements of these shapes, on this rank, each a separate element around the origin.
inline mesh::Mesh row_of(std::span<const mesh::Shape> shapes) {
  mesh::Mesh mesh = box_of({std::ssize(shapes), 1, 1}, "smooth", mpi::Comm::self());
  for (std::int64_t e = 0; e < std::ssize(shapes); ++e) {
    const auto kind = static_cast<int>(shapes[e]);
    const double skew = kind > 0 ? 0.3 : 0, twist = kind > 1 ? 0.2 : 0, bend = kind > 2 ? 0.1 : 0;
    place_nodes(mesh, e, [&](const std::array<double, 3>& at) {
      const auto [r, s, t] = at;
      const double x = r + skew * s, y = 0.7 * s - skew * t + twist * r * t, z = 1.3 * t + skew * r - twist * r * s * t;
      const double c = std::cos(0.4), d = std::sin(0.4), bent = bend * std::sin(3 * r) * std::cos(2 * s);
      return std::array{c * x - d * y + bent, d * x + c * y, z - bent * t};
    });
  }
  return mesh;
}

// A box of rectangular elements, in which one inner vertex is displaced by `by` times the length of an element.
inline mesh::Mesh with_moved_vertex(double by) {
  mesh::Mesh mesh = box_of({6, 4, 3}, "none", mpi::Comm());
  double* const nodes = mesh.nodes.change().data();
  for (std::int64_t i = 0; i < 8 * mesh.elements(); ++i)
    if (std::abs(nodes[3 * i] - 0.5) + std::abs(nodes[3 * i + 1] - 0.5) + std::abs(nodes[3 * i + 2] - 1. / 3) < 1e-9)
      nodes[3 * i] += by / 6;
  return mesh;
}

// Curved elements for x < 1/2, rectangular elements elsewhere, given by nodes of a high order.
inline mesh::Mesh half_curved(const mpi::Comm& comm = mpi::Comm()) {
  mesh::Mesh mesh = box_of({8, 2, 2}, "smooth", comm);
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    const std::array<double, 24> corners = mesh::corners_of(mesh, e);
    if (corners[0] < 0.5 - 1e-9) continue;
    place_nodes(mesh, e, [&](std::array<double, 3> at) {
      for (int d = 0; d < 3; ++d) at[d] = corners[d] + (corners[21 + d] - corners[d]) * at[d];
      return at;
    });
  }
  return mesh;
}

}  // namespace weft::test
