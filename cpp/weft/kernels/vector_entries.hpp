// Shared by the streaming kernels of kernels/vector.hpp and similar files: chunks and entries.
#pragma once

#include "weft/kernels/block_sum.hpp"
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int vector_threads = 256;
constexpr int vector_chunk = 4096;

// The body of a streaming kernel: statements for every entry i of a chunk, either the block's own or one given by
// number.
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
