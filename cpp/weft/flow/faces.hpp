// The geometry of element sides on boundaries: normals, and the metric for derivatives on them.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"
#include "weft/space/faces.hpp"

namespace weft::flow {

using Vector = std::array<double, 3>;

// At the points (a, b) of sides, in lexicographic order, a fastest: [side][…][n1^2]. r is the reference coordinate that
// points from the side into the element.
struct FaceGeometry {
  std::vector<double> normals;   // [side][3][n1^2]: w n dA, outward
  std::vector<double> metric;    // [side][9][n1^2]: dr/dx_j, da/dx_j, db/dx_j
  std::vector<double> tangents;  // [side][6][n1^2]: s w x_b, then -s w x_a, where n dA = s (x_a x x_b) da db
};
FaceGeometry face_geometry(const mesh::Mesh& mesh, int order, std::span<const space::BoundaryFace> faces);

}  // namespace weft::flow
