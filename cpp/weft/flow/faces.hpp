// The geometry of sides of elements at boundaries: normals, and what derivatives there need.
#pragma once

#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::flow {

struct BoundaryFace;

// Of points (a, b) of sides, lexicographic, a fastest, [side][…][n1^2]. r is the reference coordinate that points into
// the element, from the side.
struct FaceGeometry {
  std::vector<double> normals;   // [side][3][n1^2]: w n dA, outward
  std::vector<double> metric;    // [side][9][n1^2]: dr/dx_j, da/dx_j, db/dx_j
  std::vector<double> tangents;  // [side][6][n1^2]: s w x_b, then -s w x_a, where n dA = s (x_a x x_b) da db
};
FaceGeometry face_geometry(const mesh::Mesh& mesh, int order, std::span<const BoundaryFace> faces);

// The place in [k][j][i] of point (a, b) of a side, `layer` points into the element.
inline std::size_t point_of_side(int side, int a, int b, int n1, int layer = 0) {
  const int end = side % 2 == 0 ? layer : n1 - 1 - layer;
  const int i = side / 2 == 0 ? end : a, j = side / 2 == 0 ? a : side / 2 == 1 ? end : b, k = side / 2 == 2 ? end : b;
  return (static_cast<std::size_t>(k) * n1 + j) * n1 + i;
}

}  // namespace weft::flow
