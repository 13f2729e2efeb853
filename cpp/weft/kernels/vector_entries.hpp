// What the streaming kernels of kernels/vector.hpp and its likes share: chunks, entries, and sums in a fixed order.
#pragma once

#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int vector_threads = 256;
constexpr int vector_chunk = 4096;

// The body of a streaming kernel: statements for every entry i of a chunk, that of the block or of another number.
#define WEFT_ENTRIES_OF(block, i, n, ...)                                       \
  for (int weft_k = 0; weft_k < vector_chunk; weft_k += vector_threads) {       \
    WEFT_THREADS(weft_t, vector_threads) {                                      \
      const long i = static_cast<long>(block) * vector_chunk + weft_k + weft_t; \
      if (i < (n)) {                                                            \
        __VA_ARGS__;                                                            \
      }                                                                         \
    }                                                                           \
  }
#define WEFT_ENTRIES(i, n, statement) WEFT_ENTRIES_OF(WEFT_BLOCK, i, n, statement)

// The sum of `sums` over the block's threads by a fixed tree, into *result.
WEFT_FUNCTION void reduce_block(const double* sums, double* shared, double* result) {
  WEFT_THREADS(t, vector_threads) { shared[t] = sums[WEFT_SLOT(t)]; }
  for (int half = vector_threads / 2; half > 0; half /= 2) {
    WEFT_BARRIER();
    WEFT_THREADS(t, half) {  // the host loops to `half` only
      if (t < half) shared[t] += shared[t + half];
    }
  }
  WEFT_THREADS(t, 1) {
    if (t == 0) *result = shared[0];
  }
}
