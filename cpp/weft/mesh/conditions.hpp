// That a mesh's boundaries and the conditions given for them by name fit.
#pragma once

#include <span>
#include <string>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// CollectiveError on all ranks unless every boundary that some face of some rank is on is among `given`, and all of
// these are boundaries of the mesh. `who` begins the text ("maxwell"), `words` are the conditions there are.
// (collective)
void check_conditions(const Mesh& mesh, std::span<const std::string> given, const std::string& who,
                      const std::string& words);

}  // namespace weft::mesh
