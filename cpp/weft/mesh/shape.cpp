#include "weft/mesh/shape.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "weft/element/gll.hpp"
#include "weft/mesh/axes.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/trilinear.hpp"

namespace weft::mesh {
namespace {

double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// Nodes are known up to this, so smaller coefficients of a map and smaller distances count as 0.
double rounding_of(std::span<const double, 24> corners) {
  return 8 * std::numeric_limits<double>::epsilon() * largest(corners);
}

// Whether the three edge vectors of a parallelepiped (along r, s and t) are orthogonal, given that each is known up to
// `rounding`.
bool right_angles(std::span<const double, 9> edges, double rounding) {
  for (const auto& [a, b] : {std::pair{0, 3}, {0, 6}, {3, 6}}) {
    double product = 0, lengths = 0;
    for (int d = 0; d < 3; ++d) {
      product += edges[a + d] * edges[b + d];
      lengths += std::abs(edges[a + d]) + std::abs(edges[b + d]);
    }
    if (!(std::abs(product) <= rounding * lengths)) return false;
  }
  return true;
}

}  // namespace

std::array<double, 24> corners_of(const Mesh& mesh, std::int64_t element) {
  const std::int64_t q = mesh.geometry_order, n = q + 1;
  const double* const nodes = mesh.nodes.data() + 3 * n * n * n * element;
  std::array<double, 24> corners;
  for (int c = 0; c < 8; ++c)
    std::copy_n(nodes + 3 * q * ((c & 1) + n * ((c >> 1 & 1) + n * (c >> 2))), 3, corners.data() + 3 * c);
  return corners;
}

Shape shape_of(const Mesh& mesh, std::int64_t element) {
  const std::array<double, 24> corners = corners_of(mesh, element), map = trilinear_map(corners.data());
  const double rounding = rounding_of(corners);
  if (mesh.geometry_order > 1) {
    const std::span<const double> points = element::gll(mesh.geometry_order).points;
    const double* node = mesh.nodes.data() + 3 * std::ssize(points) * std::ssize(points) * std::ssize(points) * element;
    for (const double t : points)
      for (const double s : points)
        for (const double r : points)
          for (int d = 0; d < 3; ++d, ++node) {
            const auto a = [&](int m) { return map[3 * m + d]; };
            const double straight =
                a(0) + a(1) * r + a(2) * s + a(3) * t + a(4) * r * s + a(5) * r * t + a(6) * s * t + a(7) * r * s * t;
            if (!(std::abs(*node - straight) <= rounding)) return Shape::curved;
          }
  }
  if (!(largest(std::span(map).subspan(12)) <= rounding)) return Shape::trilinear;
  return right_angles(std::span(map).subspan<3, 9>(), rounding) ? Shape::box : Shape::affine;
}

bool along_axes(const Mesh& mesh, std::int64_t element) {
  const std::array<double, 24> corners = corners_of(mesh, element), map = trilinear_map(corners.data());
  const double rounding = rounding_of(corners);
  for (int edge = 0; edge < 3; ++edge)
    for (int d = 0; d < 3; ++d)
      if (d != edge && !(std::abs(map[3 * (edge + 1) + d]) <= rounding)) return false;
  return true;
}

}  // namespace weft::mesh
