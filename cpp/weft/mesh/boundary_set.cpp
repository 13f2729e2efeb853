#include "weft/mesh/boundary_set.hpp"

#include <algorithm>
#include <stdexcept>

namespace weft::mesh {

BoundarySet BoundarySet::all() {
  BoundarySet set;
  set.all_ = true;
  return set;
}

std::vector<std::uint8_t> BoundarySet::flags(const Mesh& mesh) const {
  std::vector<std::uint8_t> result(1 + mesh.boundary_names.size(), all_ ? 1 : 0);
  result[0] = 0;
  for (const std::string& name : names_) {
    const auto found = std::ranges::find(mesh.boundary_names, name);
    if (found == mesh.boundary_names.end()) {
      std::string have;
      for (const std::string& each : mesh.boundary_names) have += (have.empty() ? "" : ", ") + each;
      throw std::invalid_argument(mesh.source + ": unknown boundary \"" + name + "\"; " +
                                  (have.empty() ? "it has none" : "it has: " + have));
    }
    result[1 + static_cast<std::size_t>(found - mesh.boundary_names.begin())] = 1;
  }
  return result;
}

std::int64_t BoundarySet::faces(const Mesh& mesh) const {
  const std::vector<std::uint8_t> chosen = flags(mesh);
  std::int64_t count = 0;
  for (const auto& element : mesh.boundaries)
    count += std::ranges::count_if(element, [&](std::int32_t boundary) { return chosen[boundary] != 0; });
  mesh.comm.sum(&count, 1);
  return count;
}

}  // namespace weft::mesh
