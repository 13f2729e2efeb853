// Divides the elements of a rank among its threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::space {

// Where an element belongs. A thread processes its elements in groups: those that touch elements of other threads in a
// connected part of its border, then those that touch none, then other parts of the border. Blocks of one group leave
// more freedom for divide_blocks() (chunks.hpp).
struct Region {
  static constexpr int groups = 8;
  int thread, group;
  bool operator==(const Region&) const = default;
};

// The regions of `elements`, which are local elements of the mesh. The elements of a thread lie together, so that they
// have few points in common with those of other threads, and have about the same cost as theirs: the region of all
// elements is bisected across its longest side, as often as necessary. costs: of `elements`, relative times. All
// threads but the last have a multiple of `lanes` elements.
std::vector<Region> regions(const mesh::Mesh& mesh, std::span<const std::int64_t> elements, std::span<const int> costs,
                            int lanes, int threads);

}  // namespace weft::space
