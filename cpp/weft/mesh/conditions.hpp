// A check that the given boundary conditions match a mesh's boundaries.
#pragma once

#include <span>
#include <string>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// CollectiveError on all ranks unless every boundary with a face on any rank is in `given`, and all names in `given`
// are boundaries of the mesh. `who` begins the text ("maxwell"); `words` lists the possible conditions. (collective)
void check_conditions(const Mesh& mesh, std::span<const std::string> given, const std::string& who,
                      const std::string& words);

}  // namespace weft::mesh
