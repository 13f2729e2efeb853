// Chooses, by timing, how kernels access the surface points of blocks. Which access is fastest depends on the processor
// (its gather instruction may be slower than single loads) and on how many of the points are runs.
#pragma once

#include <vector>

#include "weft/space/blocks.hpp"
#include "weft/space/numbering.hpp"

namespace weft::space {

// The kinds of access that differ on this processor.
template <class T>
std::vector<Access> access_candidates();

// Rank 0 times the candidates on its first blocks, for a few milliseconds; all ranks use its choice. cache: keep the
// choice on disk for this processor, type and order, and reuse it. (collective)
template <class T>
void choose_access(Blocks& blocks, const Numbering& numbering, bool cache);

}  // namespace weft::space
