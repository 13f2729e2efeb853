#include "weft/mesh/conditions.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace weft::mesh {

void check_conditions(const Mesh& mesh, std::span<const std::string> given, const std::string& who,
                      const std::string& words) {
  std::vector<std::int64_t> used(mesh.boundary_names.size());
  for (const auto& sides : mesh.boundaries)
    for (const std::int32_t tag : sides)
      if (tag > 0) used.at(tag - 1) = 1;
  if (!used.empty()) mesh.comm.sum(used.data(), static_cast<int>(used.size()));
  mesh.comm.together([&] {
    std::string known, missing;
    for (std::size_t b = 0; b < used.size(); ++b) {
      const std::string& name = mesh.boundary_names[b];
      known += (known.empty() ? "" : ", ") + name;
      if (used[b] > 0 && std::ranges::find(given, name) == given.end())
        missing += (missing.empty() ? "\"" : ", \"") + name + "\"";
    }
    if (!missing.empty())
      throw std::invalid_argument(who + ": no condition is given for the boundary " + missing + " of " + mesh.source +
                                  "; give each boundary one of: " + words);
    for (const std::string& name : given)
      if (std::ranges::find(mesh.boundary_names, name) == mesh.boundary_names.end())
        throw std::invalid_argument(who + ": a condition is given for the boundary \"" + name + "\", which " +
                                    mesh.source + " does not have; it has: " + (known.empty() ? "none" : known));
  });
}

}  // namespace weft::mesh
