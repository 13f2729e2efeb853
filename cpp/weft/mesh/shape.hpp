// How an element is mapped from the reference cube, which decides how cheaply its metric can be computed.
#pragma once

#include <array>
#include <cstdint>

namespace weft::mesh {

struct Mesh;

// box: orthogonal edges; the metric is constant and diagonal. affine: any other parallelepiped; the metric is constant.
// trilinear: other elements with straight edges; the metric follows from the corners. curved: the metric follows from
// the points. Each shape includes the ones before it.
enum class Shape : std::uint8_t { box, affine, trilinear, curved };
inline constexpr std::array all_shapes{Shape::box, Shape::affine, Shape::trilinear, Shape::curved};

// The first shape that local element `element` has, up to the rounding of its nodes. The decision uses the mesh's
// coordinates in double precision, even for float kernels.
Shape shape_of(const Mesh& mesh, std::int64_t element);

// [8][3], r fastest: the corners of local element `element`.
std::array<double, 24> corners_of(const Mesh& mesh, std::int64_t element);

}  // namespace weft::mesh
