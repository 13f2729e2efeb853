// Which elements make up a block: the same places of equal bricks.
//
// A brick is a grid of elements in the mesh's order, r fastest. If the lanes of a block were neighbours, each would
// share points with the next, and these points would have to be gathered. In different bricks, most lanes meet the
// points that another block has met with the same lanes. The assembly numbers these next to each other, so they are
// read and written as one vector.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::space {

// A permutation of `elements`, which fills blocks of `lanes` from the beginning. Bricks keep their order as far as
// equal ones follow each other; elements that find no partners come last. vertices: of all local elements
// (mesh::Topology).
std::vector<std::int64_t> lanes_across_bricks(std::span<const std::int64_t> elements,
                                              std::span<const std::array<std::int64_t, 8>> vertices, int lanes);

}  // namespace weft::space
