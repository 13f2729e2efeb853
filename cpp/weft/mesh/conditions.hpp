// Checks that the boundary conditions of a case match the boundaries of its mesh.
#pragma once

#include <span>
#include <string>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// CollectiveError on all ranks unless every boundary that has a face on some rank is in `given`, and all names in
// `given` are boundaries of the mesh. `who` begins the error text ("maxwell"); `words` lists the possible conditions.
// (collective)
void check_conditions(const Mesh& mesh, std::span<const std::string> given, const std::string& who,
                      const std::string& words);

}  // namespace weft::mesh
