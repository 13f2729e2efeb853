// Whether a box (mesh/shape.hpp) is parallel to the axes, for kernels that need no frame then.
#pragma once

#include <cstdint>

namespace weft::mesh {

struct Mesh;

// Whether the edges of local element `element`, whose shape is box, are along x, y and z, in the order of its reference
// coordinates, up to the rounding of its nodes.
bool along_axes(const Mesh& mesh, std::int64_t element);

}  // namespace weft::mesh
