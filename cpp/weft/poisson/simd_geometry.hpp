// The choice of the metric for straight elements that are not parallelepipeds: either recomputed from their corners, or
// read from stored factors. Which is faster depends on the width of the processor's vectors, on its memory bandwidth
// per core, and on whether the factors fit into caches.
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

// All ranks time the operator both ways at the same time, on their first blocks, because they share the memory
// bandwidth; the slowest rank counts, and all ranks use the same choice. This takes some ten milliseconds, and up to 64
// MiB per rank meanwhile. Stored factors are not considered if they would take more than half of the free memory of a
// node. The two ways differ by rounding, so the choice is kept on disk (WEFT_CACHE) for this processor, order, type,
// number of threads, ranks per node and size, to make runs bit-identical. Without that cache nothing is timed, and the
// metric is recomputed. elements: with everything but the factors. blocks: those that have a choice. (collective)
template <class T>
StraightMetric choose_straight_metric(space::Space<T>& space, const SimdElements<T>& elements, std::int64_t blocks);

}  // namespace weft::poisson
