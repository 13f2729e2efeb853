#include "weft/flow/faces.hpp"

#include "weft/element/gll.hpp"
#include "weft/kernels/cross.hpp"
#include "weft/mesh/points.hpp"

namespace weft::flow {

FaceGeometry face_geometry(const mesh::Mesh& mesh, int order, std::span<const space::BoundaryFace> faces) {
  const element::Gll& gll = element::gll(order);
  const int n = order + 1;
  const std::size_t points = static_cast<std::size_t>(n) * n;
  FaceGeometry geometry{std::vector<double>(faces.size() * 3 * points), std::vector<double>(faces.size() * 9 * points),
                        std::vector<double>(faces.size() * 6 * points)};
  if (faces.empty()) return geometry;
  const std::vector<double> coordinates = mesh::point_coordinates(mesh, order);
  for (std::size_t f = 0; f < faces.size(); ++f) {
    const int side = faces[f].side;
    const double* x = coordinates.data() + static_cast<std::size_t>(faces[f].element) * points * n * 3;
    const auto at = [&](int a, int b, int layer, int c) {
      return x[3 * space::point_of_side(side, a, b, n, layer) + c];
    };
    // The sign for which x_a x x_b points outward. With r, s, t right-handed, it is reversed for s.
    const double sense = (side % 2 == 1 ? 1 : -1) * (side / 2 == 1 ? -1 : 1);
    for (int b = 0; b < n; ++b) {
      for (int a = 0; a < n; ++a) {
        Vector xr{}, xa{}, xb{};
        for (int c = 0; c < 3; ++c) {
          for (int m = 0; m < n; ++m) {
            xr[c] += gll.derivative[m] * at(a, b, m, c);
            xa[c] += gll.derivative[a * n + m] * at(m, b, 0, c);
            xb[c] += gll.derivative[b * n + m] * at(a, m, 0, c);
          }
        }
        const Vector normal = cross(xa, xb), ra = cross(xb, xr), rb = cross(xr, xa);
        const double jacobian = xr[0] * normal[0] + xr[1] * normal[1] + xr[2] * normal[2];
        const double weight = gll.weights[a] * gll.weights[b];
        const std::size_t p = static_cast<std::size_t>(b) * n + a;
        for (int c = 0; c < 3; ++c) {
          geometry.normals[(f * 3 + c) * points + p] = sense * weight * normal[c];
          geometry.metric[(f * 9 + c) * points + p] = normal[c] / jacobian;
          geometry.metric[(f * 9 + 3 + c) * points + p] = ra[c] / jacobian;
          geometry.metric[(f * 9 + 6 + c) * points + p] = rb[c] / jacobian;
          geometry.tangents[(f * 6 + c) * points + p] = sense * weight * xb[c];
          geometry.tangents[(f * 6 + 3 + c) * points + p] = -sense * weight * xa[c];
        }
      }
    }
  }
  return geometry;
}

}  // namespace weft::flow
