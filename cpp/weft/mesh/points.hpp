// The points of a mesh at a given polynomial order: their global numbers (from the topology alone), coordinates and
// boundary flags.
//
// All arrays are [element][k][j][i] with n1 = order + 1 GLL points per direction, i (r direction) fastest. Orders
// outside 1..15 throw std::invalid_argument. These functions do not communicate.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "weft/mesh/boundary_set.hpp"
#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// [E][n1^3], from 1, equal exactly if points coincide or are periodic images. Vertices come first, then the interiors
// of edges, of faces, and of elements.
std::vector<std::int64_t> point_ids(const Mesh& mesh, int order);
// The same for local element e alone: out[n1^3].
void point_ids(const Mesh& mesh, int order, std::int64_t e, std::int64_t* out);

// Numbers for the points of an element. The points inside an edge, a face or the element have consecutive numbers in
// its canonical frame; the first number of each is arbitrary.
template <class Number>
struct FirstNumbers {
  std::array<Number, 8> vertices;
  std::array<Number, 12> edges;
  std::array<Number, 6> faces;
  Number inside;
};
// out[n1^3]: the numbers of the points of local element e.
template <class Number>
void number_points(const Mesh& mesh, int order, std::int64_t e, const FirstNumbers<Number>& first, Number* out);

// The number of distinct ids over all ranks; the ids are 1..global_points.
std::int64_t global_points(const Mesh& mesh, int order);

// [E][n1^3][3]
std::vector<double> point_coordinates(const Mesh& mesh, int order);

// [E][n1^3], 1 for points on a face of a local element that lies on one of the boundaries. A point that touches them
// only through an element of another rank is 0 here: combine over equal ids (gather-scatter with max).
// std::invalid_argument for names that the mesh does not have.
std::vector<std::uint8_t> points_on_boundary(const Mesh& mesh, int order,
                                             const BoundarySet& boundaries = BoundarySet::all());

}  // namespace weft::mesh
