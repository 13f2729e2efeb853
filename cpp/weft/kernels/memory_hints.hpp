// Hints to the caches of NVIDIA GPUs; nothing elsewhere. They were chosen on an H100 (docs/backends.md).
#pragma once

#include "weft/kernels/blocks.hpp"
#include "weft/kernels/poisson_metric.hpp"

namespace {

constexpr int line_bytes = 128;  // of a cache
constexpr int multiprocessors = sm_100 ? 148 : sm_90 ? 132 : 108;

// Prefetches into the L2 the lines that hold `size` consecutive values, one line per thread.
template <int size, int threads, class T>
WEFT_FUNCTION void prefetch_lines([[maybe_unused]] const T* values, [[maybe_unused]] int thread) {
#if defined(__CUDA_ARCH__)
  constexpr int per_line = line_bytes / static_cast<int>(sizeof(T)), lines = (size - 1) / per_line + 2;
  WEFT_UNROLL
  for (int first = 0; first < lines; first += threads) {
    const int at = (first + thread) * per_line;
    if (first + thread < lines) asm volatile("prefetch.global.L2 [%0];" ::"l"(values + (at < size ? at : size - 1)));
  }
#endif
}

template <int threads>
WEFT_FUNCTION void prefetch_metric(const TrilinearColumns& geometry, int element, int thread) {
  prefetch_lines<24 * tile, threads>(geometry.maps + static_cast<long>(element) * 24, thread);
}
template <int threads>
WEFT_FUNCTION void prefetch_metric(const AffineColumns& geometry, int element, int thread) {
  prefetch_lines<6 * tile, threads>(geometry.of.metrics + static_cast<long>(element) * 6, thread);
}

// Prefetches what a later block reads first, its index and its metric: that of the block which will take the place of
// this one, if `resident` blocks are on a multiprocessor at a time. On several fields, neighbouring blocks share both.
template <int resident, int threads, class Geometry>
WEFT_FUNCTION void prefetch_for_successor(const Geometry& geometry, int block, int count, int fields, const int* index,
                                          int thread) {
  const int next = (block + resident * multiprocessors) * tile;
  if (fields > 1 || next + tile > count) return;
  prefetch_metric<threads>(geometry, next, thread);
  if (index != nullptr) prefetch_lines<points * tile, threads>(index + static_cast<long>(next) * points, thread);
}

// Loads a value; if `once`, the L2 may drop it first.
template <bool once>
WEFT_FUNCTION real load_once(const real* at) {
#if defined(__CUDA_ARCH__)
  if constexpr (once) return __ldcs(at);
#endif
  return *at;
}

}  // namespace
