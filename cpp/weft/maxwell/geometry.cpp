#include "weft/maxwell/geometry.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "weft/element/gll.hpp"
#include "weft/kernels/cross.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/mesh/tensor.hpp"

namespace weft::maxwell {
namespace {

// J grad r_d, normal to the surfaces r_d = const, from the derivatives of the coordinates at a point: [3][3], `stride`
// apart.
std::array<double, 3> normal_of(const double* derivatives, int d, std::size_t stride) {
  const auto along = [&](int direction) {
    const double* x = derivatives + static_cast<std::size_t>(direction % 3) * 3 * stride;
    return std::array<double, 3>{x[0], x[stride], x[2 * stride]};
  };
  return cross(along(d + 1), along(d + 2));
}

// The smallest distance, over points and directions, between the surfaces r_d = const through neighbouring GLL points:
// gap / |grad r_d|. In a sheared element it is smaller than the distance between the points themselves.
double smallest_spacing(const double* jacobian, const std::vector<double>& x) {
  const std::size_t n = x.size(), points = n * n * n;
  std::vector<double> gaps(n);
  for (std::size_t i = 0; i < n; ++i) gaps[i] = std::min(i > 0 ? x[i] - x[i - 1] : 2, i + 1 < n ? x[i + 1] - x[i] : 2);
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t p = 0; p < points; ++p) {
    const std::array<std::size_t, 3> at{p % n, p / n % n, p / (n * n)};
    for (int d = 0; d < 3; ++d) {
      const double* g = jacobian + p;
      const auto normal = normal_of(g, d, points);
      const double* along = g + d * 3 * points;
      const double j = normal[0] * along[0] + normal[1] * along[points] + normal[2] * along[2 * points];
      smallest = std::min(smallest, gaps[at[d]] * j / std::hypot(normal[0], normal[1], normal[2]));
    }
  }
  return smallest;
}

}  // namespace

Geometry geometry(const mesh::Mesh& mesh, int order) {
  const element::Gll& gll = element::gll(order);
  mesh::check_jacobians(mesh, order);
  const int n = order + 1;
  const std::size_t face = static_cast<std::size_t>(n) * n, points = face * n;
  const auto elements = static_cast<std::size_t>(mesh.elements());
  Geometry result{std::vector<double>(elements * 9 * points), std::vector<double>(elements * 24 * face),
                  std::vector<double>(elements * 6 * face), std::vector<double>(elements)};
  const std::vector<double> coordinates = mesh::point_coordinates(mesh, order);
  std::vector<double> component(points);
  for (std::size_t e = 0; e < elements; ++e) {
    const double* x = coordinates.data() + e * points * 3;
    double* g = result.jacobian.data() + e * 9 * points;
    for (int c = 0; c < 3; ++c) {
      for (std::size_t p = 0; p < points; ++p) component[p] = x[3 * p + c];
      for (int d = 0; d < 3; ++d) {
        const int inner = d == 0 ? 1 : d == 1 ? n : n * n;
        mesh::apply_along(gll.derivative.data(), n, n, n * n / inner, inner, component.data(),
                          g + (3 * d + c) * points);
      }
    }
    result.spacing[e] = smallest_spacing(g, gll.points);
    for (int side = 0; side < 6; ++side) {
      const int d = side / 2;
      const std::array<int, 3> strides{1, n, n * n};
      const int stride_a = strides[d == 0 ? 1 : 0], stride_b = strides[d == 2 ? 1 : 2];
      for (std::size_t q = 0; q < face; ++q) {
        const std::size_t p = q % n * stride_a + q / n * stride_b + (side % 2) * (n - 1) * strides[d];
        const double* at = g + p;
        // The contravariant normal J grad r_d, pointing outward.
        std::array<double, 3> normal = normal_of(at, d, points);
        const double jacobian = normal[0] * at[3 * d * points] + normal[1] * at[(3 * d + 1) * points] +
                                normal[2] * at[(3 * d + 2) * points];
        const double area = std::hypot(normal[0], normal[1], normal[2]);
        double* to = result.faces.data() + ((e * 6 + side) * 4) * face + q;
        for (int c = 0; c < 3; ++c) to[c * face] = (side % 2 == 0 ? -1 : 1) * normal[c] / area;
        to[3 * face] = area / (gll.weights[0] * jacobian);
        result.areas[(e * 6 + side) * face + q] = area;
      }
    }
  }
  return result;
}

std::vector<std::int64_t> face_point_ids(const mesh::Mesh& mesh, int order) {
  const std::int64_t n = order + 1;
  std::vector<std::int64_t> ids(mesh.elements() * 6 * n * n);
  std::size_t next = 0;
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    for (int side = 0; side < 6; ++side) {
      const std::int64_t first = 1 + mesh.topology.faces[e][side] * n * n;
      const bool boundary = mesh.boundaries[e][side] != 0;
      for (int b = 0; b < n; ++b) {
        for (int a = 0; a < n; ++a) {
          const auto [p, q] = mesh::to_canonical(mesh.topology.face_orientations[e][side], a, b, order);
          ids[next++] = boundary ? 0 : first + q * n + p;
        }
      }
    }
  }
  return ids;
}

}  // namespace weft::maxwell
