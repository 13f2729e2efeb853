// Loops shared by the terms: over the blocks of a chunk, and over the points of a plane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_cofactors.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_prefetch.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/block_index.hpp"
#include "weft/space/columns.hpp"

namespace weft::flow {

// Calls block(number, prefetch) for the blocks of a chunk. Before each call, zeroes the entries that this block is the
// first to add to.
template <int n, class T, class Block>
void run_blocks(const SimdCall<T>& c, space::Range chunk, const T* in, int fields, T* out, int outputs, int steps,
                Block&& block) {
  constexpr std::int64_t index_values = space::surface_points<n> * simd::lanes<T>;
  constexpr std::int64_t coordinate_values = 3 * space::cube(n) * simd::lanes<T>;
  Prefetch<T> ahead{{{}, 0}};
  for (int i = 0; i < fields; ++i) ahead.streams[ahead.count++] = in + i * c.entries;
  for (int i = 0; i < outputs; ++i) ahead.streams[ahead.count++] = out + i * c.entries;
  if (c.u != nullptr && in != c.u)
    for (int i = 0; i < 3; ++i) ahead.streams[ahead.count++] = c.u + i * c.entries;
  for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
    const space::Range first = c.plan.before[b];
    for (int i = 0; i < outputs; ++i)
      std::fill(out + i * c.entries + first.begin, out + i * c.entries + first.end, T{0});
    const std::int64_t next = std::min(b + 1, chunk.end - 1);
    ahead.start(c.plan.ahead[next], c.plan.ahead[next + 1], steps);
    // Columns are not read in the order of the index, so the hardware prefetcher cannot predict it.
    ahead.index.start(c.blocks.index + next * index_values, index_values, steps);
    if (c.geometry.shape[next] == Shape::curved)
      ahead.coordinates.start(c.geometry.coordinates + next * coordinate_values, coordinate_values, steps);
    else
      ahead.coordinates = {};
    block(b, ahead);
  }
}

// Calls use(point of the plane, cofactors, quadrature weight) for the points of plane k.
template <int n, class T, class Use>
WEFT_ALWAYS_INLINE void points_of_plane(const SimdCall<T>& c, Cofactors<n, T>& cofactors, Prefetch<T>& ahead, int k,
                                        Use&& use) {
  const T* const weights = c.tables.weights;
  cofactors.plane(k);
  for (int j = 0; j < n; ++j) {
    ahead.step();
    const Vec<T>* g = cofactors.row(j);
    const T line = weights[j] * weights[k];
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i, g += cofactors.step) use(j * n + i, g, line * weights[i]);
  }
}

}  // namespace weft::flow
