// Asking memory for what the next block touches while one computes.
#pragma once

#include <cstdint>

#include "weft/simd/vector.hpp"

namespace weft::flow {

// The lines to ask for while a block computes: entries the next one touches first, of every vector read or added to.
template <class T>
struct Prefetch {
  const T* streams[12];
  int count;
  std::int64_t at = 0, end = 0, per_step = 0;
  const char *array = nullptr, *array_end = nullptr;
  std::int64_t array_step = 0;

  void start(std::int64_t begin, std::int64_t stop, int steps) {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
    at = begin;
    end = stop;
    per_step = ((end - begin + steps - 1) / steps + line - 1) / line * line;
  }
  // Beside those, an array.
  void start_array(const void* begin, std::int64_t bytes, int steps) {
    array = static_cast<const char*>(begin);
    array_end = array + bytes;
    array_step = ((bytes + steps - 1) / steps + 63) / 64 * 64;
  }
  WEFT_ALWAYS_INLINE void step() {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
    const std::int64_t stop = at + per_step < end ? at + per_step : end;
    for (; at < stop; at += line)
      for (int s = 0; s < count; ++s) __builtin_prefetch(streams[s] + at, 0, 2);
    const char* const array_stop = array_end - array < array_step ? array_end : array + array_step;
    for (; array < array_stop; array += 64) __builtin_prefetch(array, 0, 2);
  }
};

}  // namespace weft::flow
