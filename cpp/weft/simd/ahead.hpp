// Prefetches the data that the next block of elements reads first, while the current block is processed.
#pragma once

#include <array>
#include <cstdint>

#include "weft/simd/vector.hpp"

namespace weft::simd {

// Prefetches entries [at, end) of `count` vectors (at most `most`), a few lines per step, so that memory access and
// arithmetic overlap.
template <class T, int most>
struct Ahead {
  std::array<const T*, most> streams;
  int count;
  std::int64_t at = 0, end = 0, per_step = 0;

  static constexpr int line = 64 / static_cast<int>(sizeof(T));

  void start(std::int64_t begin, std::int64_t stop, int steps) {
    at = begin;
    end = stop;
    per_step = ((end - begin + steps - 1) / steps + line - 1) / line * line;
  }
  // cache: 1 if the data fit in the first-level cache, else 2.
  template <int cache = 2>
  WEFT_ALWAYS_INLINE void step() {
    const std::int64_t stop = at + per_step < end ? at + per_step : end;
    for (; at < stop; at += line)
      for (int s = 0; s < count; ++s) __builtin_prefetch(streams[s] + at, 0, 4 - cache);
  }
};

}  // namespace weft::simd
