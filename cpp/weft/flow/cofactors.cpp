#include "weft/flow/cofactors.hpp"

#include <array>

#include "weft/mesh/points.hpp"
#include "weft/mesh/tensor.hpp"

namespace weft::flow {

std::vector<double> weighted_cofactors(const mesh::Mesh& mesh, int order, std::span<const double> interpolation,
                                       std::span<const double> derivative, std::span<const double> weights) {
  const std::vector<double> coordinates = mesh::point_coordinates(mesh, order);
  const int n = order + 1, m = static_cast<int>(weights.size()), points = n * n * n, fine = m * m * m;
  std::vector<double> result(static_cast<std::size_t>(mesh.elements()) * 9 * fine);
#pragma omp parallel
  {
    std::vector<double> once(m * n * n * 3), twice(m * m * n * 3);
    std::array<std::vector<double>, 3> tangents;  // dx/dr, dx/ds, dx/dt at the points, [point][3]
    for (auto& tangent : tangents) tangent.resize(3 * fine);
#pragma omp for
    for (std::int64_t e = 0; e < mesh.elements(); ++e) {
      for (int d = 0; d < 3; ++d) {
        const auto along = [&](int direction) { return direction == d ? derivative.data() : interpolation.data(); };
        mesh::apply_along(along(0), m, n, n * n, 3, coordinates.data() + e * points * 3, once.data());
        mesh::apply_along(along(1), m, n, n, m * 3, once.data(), twice.data());
        mesh::apply_along(along(2), m, n, 1, m * m * 3, twice.data(), tangents[d].data());
      }
      double* out = result.data() + e * 9 * fine;
      for (int p = 0; p < fine; ++p) {
        const double w = weights[p % m] * weights[p / m % m] * weights[p / (m * m)];
        for (int a = 0; a < 3; ++a) {  // J grad r_a = x_b x x_c, (a, b, c) cyclic
          const double *b = &tangents[(a + 1) % 3][3 * p], *c = &tangents[(a + 2) % 3][3 * p];
          for (int i = 0; i < 3; ++i)
            out[(3 * a + i) * fine + p] = w * (b[(i + 1) % 3] * c[(i + 2) % 3] - b[(i + 2) % 3] * c[(i + 1) % 3]);
        }
      }
    }
  }
  return result;
}

}  // namespace weft::flow
