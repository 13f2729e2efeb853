// The choice of the metric of straight elements that are no parallelepipeds: recomputed from their corners, or read
// from stored factors. Which is faster depends on the width of the processor's vectors, on its memory bandwidth per
// core, and on whether the factors fit into caches.
#pragma once

#include <cstdint>
#include <string>

#include "weft/poisson/simd_kernel.hpp"
#include "weft/space/space.hpp"

namespace weft::poisson {

struct StraightMetric {
  bool stored;
  std::string reason;  // of rank 0; empty if there was nothing to choose
};

// All ranks time the operator both ways at once, on their first blocks, because they share the memory's bandwidth; the
// slowest rank counts, and all use the same. This takes some ten milliseconds, and up to 64 MiB per rank meanwhile.
// Stored factors are not considered where they would take more than half of the free memory of a node.
// The two differ by rounding, so the choice is kept on disk (WEFT_CACHE) for this processor, order, type, number of
// threads, ranks per node and size, and runs repeat bit for bit; without that cache nothing is timed, and the metric is
// recomputed. elements: with all but the factors; blocks: those that have a choice. (collective)
template <class T>
StraightMetric choose_straight_metric(space::Space<T>& space, const SimdElements<T>& elements, std::int64_t blocks);

}  // namespace weft::poisson
