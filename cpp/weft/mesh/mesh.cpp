#include "weft/mesh/mesh.hpp"

#include <algorithm>
#include <stdexcept>

namespace weft::mesh {

Mesh Mesh::permuted(std::span<const std::int64_t> order) const {
  std::vector<std::uint8_t> seen(elements(), 0);
  for (std::int64_t e : order) {
    if (e < 0 || e >= elements() || seen[e]++) throw std::invalid_argument("Mesh::permuted: not a permutation");
  }
  if (std::ssize(order) != elements()) throw std::invalid_argument("Mesh::permuted: not a permutation");

  if (std::ranges::is_sorted(order)) return *this;

  auto pick = [&](const auto& from) {
    auto to = from.get();
    for (std::size_t e = 0; e < order.size(); ++e) to[e] = from[order[e]];
    return to;
  };
  const auto pick_blocks = [&](const SharedVector<double>& from) {
    std::vector<double> to(from.size());
    const std::size_t each = from.size() / std::max<std::size_t>(1, element_ids.size());
    for (std::size_t e = 0; e < order.size(); ++e)
      std::copy_n(from.begin() + order[e] * each, each, to.begin() + e * each);
    return to;
  };
  return {.comm = comm,
          .global_elements = global_elements,
          .element_ids = pick(element_ids),
          .topology = {.global_vertices = topology.global_vertices,
                       .global_edges = topology.global_edges,
                       .global_faces = topology.global_faces,
                       .vertices = pick(topology.vertices),
                       .edges = pick(topology.edges),
                       .edge_flips = pick(topology.edge_flips),
                       .faces = pick(topology.faces),
                       .face_orientations = pick(topology.face_orientations)},
          .geometry_order = geometry_order,
          .nodes = pick_blocks(nodes),
          .boundaries = pick(boundaries),
          .boundary_names = boundary_names,
          .coefficient = pick_blocks(coefficient),
          .coefficient_order = coefficient_order,
          .source = source};
}

}  // namespace weft::mesh
