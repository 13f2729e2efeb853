// How an element is mapped from the reference cube, which decides how cheaply its metric comes.
#pragma once

#include <array>
#include <cstdint>

namespace weft::mesh {

struct Mesh;

// box: edges at right angles, whose metric is constant and diagonal; affine: another parallelepiped, whose metric is
// constant; trilinear: other straight edges, the metric follows from the corners; curved: the metric follows from the
// points. Each contains the ones before it.
enum class Shape : std::uint8_t { box, affine, trilinear, curved };
inline constexpr std::array all_shapes{Shape::box, Shape::affine, Shape::trilinear, Shape::curved};

// The first shape that local element `element` has but for the rounding of its nodes. In float kernels, too, the
// coordinates that count are the mesh's, in double precision.
Shape shape_of(const Mesh& mesh, std::int64_t element);

// [8][3] r fastest, of local element `element`.
std::array<double, 24> corners_of(const Mesh& mesh, std::int64_t element);

}  // namespace weft::mesh
