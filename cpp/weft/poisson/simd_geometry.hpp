// Chooses, by timing, the metric of straight elements that are not parallelepipeds: recomputed from their corners, or
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

// All ranks time both on their first blocks at the same time, because they share the memory bandwidth. The time of the
// slowest rank decides, and all ranks use the same metric. This takes some ten milliseconds and, for that time, up to
// 64 MiB per rank. Stored factors are not considered if they would take more than half of the free memory of a node.
// The two metrics differ by rounding, so the choice is kept on disk (WEFT_CACHE) for this processor, order, type,
// number of threads, ranks per node and size, so that runs can be repeated bit for bit. Without that cache nothing is
// timed, and the metric is recomputed. elements: everything except the factors. blocks: those that have a choice.
// (collective)
template <class T>
StraightMetric choose_straight_metric(space::Space<T>& space, const SimdElements<T>& elements, std::int64_t blocks);

}  // namespace weft::poisson
