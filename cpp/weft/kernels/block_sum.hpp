// The sum over the threads of a block, in doubles, by the same tree on every target: the upper half is added to the
// lower half until one value is left. On a GPU every warp takes all steps, the last five by shuffles, so that there is
// one barrier instead of eight.
#pragma once

#include "weft/kernels/dialect.hpp"

// *result = the sum over a block of `threads`: 64, 128, 256, … `shared` has room for that many values; a barrier must
// precede its next use.
#if defined(WEFT_TARGET_GPU)
template <int threads>
WEFT_FUNCTION void block_sum(const double* sums, double* shared, double* result) {
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = sums[0];
  WEFT_BARRIER();
  double values[threads / 32];
  WEFT_UNROLL
  for (int j = 0; j < threads / 32; ++j) values[j] = shared[t % 32 + 32 * j];
  WEFT_UNROLL
  for (int half = threads / 64; half > 0; half /= 2) {
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
template <int threads>
WEFT_FUNCTION void block_sum(const double* sums, double* shared, double* result) {
  WEFT_THREADS(t, threads) { shared[t] = sums[WEFT_SLOT(t)]; }
  for (int half = threads / 2; half > 0; half /= 2) {
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
