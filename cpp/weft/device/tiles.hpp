// The number of elements per GPU block.
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

}  // namespace weft::device
