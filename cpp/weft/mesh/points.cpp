#include "weft/mesh/points.hpp"

#include <algorithm>

#include "weft/element/gll.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/mesh/tensor.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::mesh {

std::int64_t global_points(const Mesh& mesh, int order) {
  element::gll(order);  // checks the range
  const std::int64_t inside = order - 1;
  const Topology& t = mesh.topology;
  return t.global_vertices + inside * (t.global_edges + inside * (t.global_faces + inside * mesh.global_elements));
}

template <class Number>
void number_points(const Mesh& mesh, int order, std::int64_t e, const FirstNumbers<Number>& first, Number* out) {
  const Topology& t = mesh.topology;
  const int n1 = order + 1, inside = order - 1;
  const std::array<int, 3> strides{1, n1, n1 * n1};
  auto corner_offset = [&](int c) {
    return order * ((c & 1) * strides[0] + (c >> 1 & 1) * strides[1] + (c >> 2) * strides[2]);
  };
  for (int c = 0; c < 8; ++c) out[corner_offset(c)] = first.vertices[c];
  if (order == 1) return;
  for (int d = 0; d < 12; ++d) {
    const int offset = corner_offset(edge_corners[d][0]), stride = strides[d / 4];
    const bool flipped = t.edge_flips[e] >> d & 1;
    for (int p = 1; p < order; ++p) out[offset + p * stride] = first.edges[d] + (flipped ? order - 1 - p : p - 1);
  }
  for (int f = 0; f < 6; ++f) {
    const int offset = corner_offset(face_corners[f][0]);
    const int stride_a = strides[f / 2 == 0 ? 1 : 0], stride_b = strides[f / 2 == 2 ? 1 : 2];
    for (int b = 1; b < order; ++b) {
      for (int a = 1; a < order; ++a) {
        const auto [p, q] = to_canonical(t.face_orientations[e][f], a, b, order);
        out[offset + a * stride_a + b * stride_b] = first.faces[f] + (q - 1) * inside + p - 1;
      }
    }
  }
  Number next = first.inside;
  for (int k = 1; k < order; ++k) {
    for (int j = 1; j < order; ++j) {
      for (int i = 1; i < order; ++i) out[i + j * strides[1] + k * strides[2]] = next++;
    }
  }
}
template void number_points(const Mesh&, int, std::int64_t, const FirstNumbers<std::int32_t>&, std::int32_t*);
template void number_points(const Mesh&, int, std::int64_t, const FirstNumbers<std::int64_t>&, std::int64_t*);

void point_ids(const Mesh& mesh, int order, std::int64_t e, std::int64_t* out) {
  const Topology& t = mesh.topology;
  const std::int64_t inside = order - 1;
  const std::int64_t first_edge = 1 + t.global_vertices;
  const std::int64_t first_face = first_edge + inside * t.global_edges;
  const std::int64_t first_inner = first_face + inside * inside * t.global_faces;
  FirstNumbers<std::int64_t> first;
  for (int c = 0; c < 8; ++c) first.vertices[c] = 1 + t.vertices[e][c];
  for (int d = 0; d < 12; ++d) first.edges[d] = first_edge + inside * t.edges[e][d];
  for (int f = 0; f < 6; ++f) first.faces[f] = first_face + inside * inside * t.faces[e][f];
  first.inside = first_inner + inside * inside * inside * mesh.element_ids[e];
  number_points(mesh, order, e, first, out);
}

std::vector<std::int64_t> point_ids(const Mesh& mesh, int order) {
  const trace::Span span("point ids", trace::Category::cpu);
  element::gll(order);
  const int n1 = order + 1;
  std::vector<std::int64_t> ids(mesh.elements() * n1 * n1 * n1);
#pragma omp parallel for
  for (std::int64_t e = 0; e < mesh.elements(); ++e) point_ids(mesh, order, e, ids.data() + e * n1 * n1 * n1);
  return ids;
}

std::vector<double> point_coordinates(const Mesh& mesh, int order) {
  const auto& to = element::gll(order);
  const int q1 = mesh.geometry_order + 1, n1 = order + 1;
  if (q1 == n1) return mesh.nodes;
  const auto matrix = element::interpolation(element::gll(mesh.geometry_order).points, to.points);
  std::vector<double> coordinates(mesh.elements() * n1 * n1 * n1 * 3);
#pragma omp parallel
  {
    std::vector<double> once(q1 * q1 * n1 * 3), twice(q1 * n1 * n1 * 3);
#pragma omp for
    for (std::int64_t e = 0; e < mesh.elements(); ++e) {
      apply_along(matrix.data(), n1, q1, q1 * q1, 3, mesh.nodes.data() + e * q1 * q1 * q1 * 3, once.data());
      apply_along(matrix.data(), n1, q1, q1, n1 * 3, once.data(), twice.data());
      apply_along(matrix.data(), n1, q1, 1, n1 * n1 * 3, twice.data(), coordinates.data() + e * n1 * n1 * n1 * 3);
    }
  }
  return coordinates;
}

std::vector<std::uint8_t> points_on_boundary(const Mesh& mesh, int order, const BoundarySet& boundaries) {
  element::gll(order);
  const std::vector<std::uint8_t> chosen = boundaries.flags(mesh);
  const int n1 = order + 1;
  std::vector<std::uint8_t> marks(mesh.elements() * n1 * n1 * n1, 0);
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    std::uint8_t* out = marks.data() + e * n1 * n1 * n1;
    for (int f = 0; f < 6; ++f) {
      if (chosen[mesh.boundaries[e][f]] == 0) continue;
      std::array<int, 3> first{0, 0, 0}, last{order, order, order};
      (f % 2 == 0 ? last : first)[f / 2] = f % 2 == 0 ? 0 : order;
      for (int k = first[2]; k <= last[2]; ++k) {
        for (int j = first[1]; j <= last[1]; ++j) {
          for (int i = first[0]; i <= last[0]; ++i) out[i + n1 * (j + n1 * k)] = 1;
        }
      }
    }
  }
  return marks;
}

}  // namespace weft::mesh
