// Prefetches the data of the next block while the current one is processed.
#pragma once

#include <cstdint>

#include "weft/simd/ahead.hpp"

namespace weft::flow {

// Prefetches the entries of all vectors that are read or added to, and in addition one array.
template <class T>
struct Prefetch : simd::Ahead<T, 12> {
  const char *array = nullptr, *array_end = nullptr;
  std::int64_t array_step = 0;

  void start_array(const void* begin, std::int64_t bytes, int steps) {
    array = static_cast<const char*>(begin);
    array_end = array + bytes;
    array_step = ((bytes + steps - 1) / steps + 63) / 64 * 64;
  }
  WEFT_ALWAYS_INLINE void step() {
    simd::Ahead<T, 12>::step();
    const char* const array_stop = array_end - array < array_step ? array_end : array + array_step;
    for (; array < array_stop; array += 64) __builtin_prefetch(array, 0, 2);
  }
};

}  // namespace weft::flow
