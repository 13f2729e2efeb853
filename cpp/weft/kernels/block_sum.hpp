// The sum over the threads of a block, in doubles, by the same tree on every target: the upper half is added to the
// lower half until one value is left. On a GPU every warp takes all steps, the last five by shuffles, so that there is
// one barrier instead of eight.
#pragma once

#include "weft/kernels/dialect.hpp"

// The leaves of the tree: the smallest power of two that is at least `threads`.
template <int threads>
constexpr int block_sum_room = 2 * block_sum_room<(threads + 1) / 2>;
template <>
constexpr int block_sum_room<1> = 1;

// *result = the sum over a block of `threads`, at least 32. `shared` has block_sum_room<threads> values; a barrier must
// precede its next use.
#if defined(WEFT_TARGET_GPU)
template <int threads, class T>
WEFT_FUNCTION void block_sum(const T* sums, double* shared, double* result) {
  constexpr int room = block_sum_room<threads>;
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = sums[0];
  if (t < room - threads) shared[threads + t] = 0;
  WEFT_BARRIER();
  if (threads % 32 != 0 && t >= 32) return;  // shuffles need whole warps
  double values[room / 32];
  WEFT_UNROLL
  for (int j = 0; j < room / 32; ++j) values[j] = shared[t % 32 + 32 * j];
  WEFT_UNROLL
  for (int half = room / 64; half > 0; half /= 2) {
    WEFT_UNROLL
    for (int j = 0; j < half; ++j) values[j] += values[j + half];
  }
  WEFT_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
#if defined(__HIP__)
    values[0] += __shfl_down(values[0], distance, 32);
#else
    values[0] += __shfl_down_sync(0xffffffffu, values[0], distance);
#endif
  }
  if (t == 0) *result = values[0];
}
#else
template <int threads, class T>
WEFT_FUNCTION void block_sum(const T* sums, double* shared, double* result) {
  constexpr int room = block_sum_room<threads>;
  WEFT_THREADS(t, threads) {
    shared[t] = sums[WEFT_SLOT(t)];
    for (int i = threads + t; i < room; i += threads) shared[i] = 0;
  }
  for (int half = room / 2; half > 0; half /= 2) {
    WEFT_BARRIER();
    WEFT_THREADS(t, half) {  // the host loops only up to `half`
      if (t < half) shared[t] += shared[t + half];
    }
  }
  WEFT_THREADS(t, 1) {
    if (t == 0) *result = shared[0];
  }
}
#endif
