// The number of elements per GPU block, and of threads per element.
#pragma once

namespace weft::device {

inline constexpr int shared_bytes_of_a_block = 48 * 1024;  // available without a special request

// The number of elements per block, at least 1, that fills the lanes of the block's warps best within `most` threads
// and the available shared memory. `threads` and `shared` are per element. Blocks of less than 128 threads are chosen
// only if no larger one fits.
inline int elements_per_block(int threads, int shared, int most) {
  int best = 1;
  double best_lanes = 0;
  for (int tile = 1; tile * threads <= most && tile * shared <= shared_bytes_of_a_block - 4096; ++tile) {
    const double lanes = tile * threads / (32.0 * ((tile * threads + 31) / 32));
    if (tile * threads < 128 || lanes > best_lanes) {
      best = tile;
      best_lanes = tile * threads < 128 ? 0 : lanes;
    }
  }
  return best;
}

// Blocks that pass lines from column to column, one thread per column (kernels/poisson.hpp, kernels/flow_terms.hpp).
// Whether they transform all layers of an element at once, or half of them: must match kernels/poisson.hpp.
inline bool columns_in_one_chunk(int order, int scalar_bytes) { return order < (scalar_bytes == 8 ? 9 : 13); }
inline int column_threads_per_element(int order, int scalar_bytes) {
  const int n = order + 1;
  return columns_in_one_chunk(order, scalar_bytes) ? n * n : 2 * n * ((n + 1) / 2);
}
// Warps of a block wait for each other at barriers, so the smallest block that uses its lanes well is best.
inline int column_elements_per_block(int order, int scalar_bytes) {
  const int each = column_threads_per_element(order, scalar_bytes);
  int tile = 1;
  while (tile * each < 63 || tile * each < 25 * ((tile * each + 31) / 32)) ++tile;
  return tile;
}

}  // namespace weft::device
