// The sums of Z^T on one rank, for kernels that use each of them in their own way.
#pragma once

#include "weft/kernels/dialect.hpp"

namespace {

using real = WEFT_REAL;
constexpr int gather_threads = 256;
constexpr int gather_chunk = 1024;  // consecutive entries per block: its partial sum is always the same

// Calls use(t, g, own, sum) for thread t and each of its entries g in the block's chunk of [begin, end): own =
// own_of(g), which is asked for early, so that what it loads arrives with the points, and sum is that of the points of
// g, in their order.
#if defined(WEFT_TARGET_GPU) || defined(WEFT_TARGET_FIBER)
// The points of a chunk are contiguous in `columns`. The threads fetch as many as fit into shared memory, all at once
// and regardless of the entries they belong to; then each thread adds up those of its entries (Greathouse and Daga,
// SC14).
constexpr int gather_rows = gather_chunk / gather_threads;  // entries per thread
constexpr int gather_loads = 10;                            // points per thread at a time: a chunk of order 3

template <class OwnOf, class Use>
WEFT_FUNCTION void gather_entries(int block, long begin, long end, const int* WEFT_RESTRICT offsets,
                                  const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points, OwnOf own_of,
                                  Use use) {
  constexpr int room = gather_loads * gather_threads;
  WEFT_SHARED(real, staged[room]);
  real own[WEFT_SLOTS(gather_threads)][gather_rows], sums[WEFT_SLOTS(gather_threads)][gather_rows];
  int next[WEFT_SLOTS(gather_threads)][gather_rows], last[WEFT_SLOTS(gather_threads)][gather_rows];
  const long first = begin + static_cast<long>(block) * gather_chunk;
  const int count = static_cast<int>(end - first < gather_chunk ? end - first : gather_chunk);
  const int* chunk = offsets + first;
  const int stop = chunk[count];
  WEFT_THREADS(t, gather_threads) {
    WEFT_UNROLL
    for (int k = 0; k < gather_rows; ++k) {
      const int i = k * gather_threads + t;
      const bool live = i < count;
      next[WEFT_SLOT(t)][k] = live ? chunk[i] : 0;
      last[WEFT_SLOT(t)][k] = live ? chunk[i + 1] : 0;
      own[WEFT_SLOT(t)][k] = live ? own_of(first + i) : real(0);
      sums[WEFT_SLOT(t)][k] = 0;
    }
  }
  WEFT_NO_UNROLL
  for (int from = chunk[0]; from < stop; from += room) {
    WEFT_THREADS(t, gather_threads) {
      real values[gather_loads];
      WEFT_UNROLL
      for (int u = 0; u < gather_loads; ++u) {
        const int q = from + u * gather_threads + t;
        values[u] = q < stop ? points[columns[q]] : 0;
      }
      WEFT_UNROLL
      for (int u = 0; u < gather_loads; ++u) staged[u * gather_threads + t] = values[u];
    }
    WEFT_BARRIER();
    WEFT_THREADS(t, gather_threads) {
      WEFT_UNROLL
      for (int k = 0; k < gather_rows; ++k) {
        int& q = next[WEFT_SLOT(t)][k];
        const int until = last[WEFT_SLOT(t)][k] < from + room ? last[WEFT_SLOT(t)][k] : from + room;
        for (; q < until; ++q) sums[WEFT_SLOT(t)][k] += staged[q - from];
      }
    }
    WEFT_BARRIER();
  }
  WEFT_THREADS(t, gather_threads) {
    WEFT_UNROLL
    for (int k = 0; k < gather_rows; ++k) {
      const int i = k * gather_threads + t;
      if (i < count) use(t, first + i, own[WEFT_SLOT(t)][k], sums[WEFT_SLOT(t)][k]);
    }
  }
}
#else
template <class OwnOf, class Use>
inline void gather_entries(int block, long begin, long end, const int* WEFT_RESTRICT offsets,
                           const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points, OwnOf own_of, Use use) {
  for (int k = 0; k < gather_chunk; k += gather_threads) {
    for (int t = 0; t < gather_threads; ++t) {
      const long g = begin + static_cast<long>(block) * gather_chunk + k + t;
      if (g < end) {
        real sum = 0;
        for (int q = offsets[g]; q < offsets[g + 1]; ++q) sum += points[columns[q]];
        use(t, g, own_of(g), sum);
      }
    }
  }
}
#endif

}  // namespace
