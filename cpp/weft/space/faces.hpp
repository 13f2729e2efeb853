// The sides of a rank's elements that lie on boundaries of the mesh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::space {

struct BoundaryFace {
  std::int64_t element;   // of this rank, in the mesh's order
  int side;               // 0..5, mesh/reference.hpp
  std::int32_t boundary;  // index of mesh.boundary_names
};

// In the order of the mesh.
std::vector<BoundaryFace> boundary_faces(const mesh::Mesh& mesh);

// The index in [k][j][i] of point (a, b) in the layer that is `layer` points away from a side.
inline std::size_t point_of_side(int side, int a, int b, int n1, int layer = 0) {
  const int end = side % 2 == 0 ? layer : n1 - 1 - layer;
  const int i = side / 2 == 0 ? end : a, j = side / 2 == 0 ? a : side / 2 == 1 ? end : b, k = side / 2 == 2 ? end : b;
  return (static_cast<std::size_t>(k) * n1 + j) * n1 + i;
}

}  // namespace weft::space
