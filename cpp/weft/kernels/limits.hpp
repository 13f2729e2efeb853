// The kernels that measure a GPU's limits (device/limits.hpp); the host has its own SIMD versions.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int limits_threads = 256;

// y[i] = the sum of eight words x[k n + i]: eight reads and one write   [9 words]
WEFT_KERNEL(stream, limits_threads, (long n, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  WEFT_THREADS(t, limits_threads) {
    const long i = static_cast<long>(WEFT_BLOCK) * limits_threads + t;
    if (i < n) {
      real sum = 0;
      WEFT_UNROLL
      for (int k = 0; k < 8; ++k) sum += x[k * n + i];
      y[i] = sum;
    }
  }
}

// Each thread follows `next` through memory for `steps`, from its own starting point: every step waits for the previous
// one and touches a line of its own, `stride` entries from any other's.   [steps irregular reads per thread]
WEFT_KERNEL(chase, limits_threads,
            (int lines, int stride, int steps, const int* WEFT_RESTRICT next, int* WEFT_RESTRICT last)) {
  WEFT_THREADS(t, limits_threads) {
    const long thread = static_cast<long>(WEFT_BLOCK) * limits_threads + t;
    // Multiplied by a large odd number, neighbouring threads start far apart; lines is a power of two.
    int at = static_cast<int>((thread * 2654435761L) & (lines - 1));
    for (int step = 0; step < steps; ++step) at = next[static_cast<long>(at) * stride];
    last[thread] = at;
  }
}

// Eight independent chains of `steps` multiply-adds per thread: c = a c + b, from c = chain + thread/threads. The sums
// of the chains go to y, so that no compiler can remove the work.   [16 steps flops per thread]
WEFT_KERNEL(multiply_add, limits_threads, (int steps, real a, real b, real* WEFT_RESTRICT y)) {
  WEFT_THREADS(t, limits_threads) {
    real c[8];
    WEFT_UNROLL
    for (int k = 0; k < 8; ++k) c[k] = real(k) + real(t) / real(limits_threads);
    for (int step = 0; step < steps; ++step) {
      WEFT_UNROLL
      for (int k = 0; k < 8; ++k) c[k] = a * c[k] + b;
    }
    real sum = 0;
    WEFT_UNROLL
    for (int k = 0; k < 8; ++k) sum += c[k];
    y[static_cast<long>(WEFT_BLOCK) * limits_threads + t] = sum;
  }
}
