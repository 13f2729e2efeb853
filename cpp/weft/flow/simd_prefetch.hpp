// Prefetches the data of the next block while the current one is processed.
#pragma once

#include <cstdint>

#include "weft/simd/ahead.hpp"

namespace weft::flow {

// Prefetches the entries of all vectors that are read or added to, and the block's index and coordinates.
template <class T>
struct Prefetch : simd::Ahead<T, 12> {
  struct Array {
    const char *at = nullptr, *end = nullptr;
    std::int64_t per_step = 0;

    // `values` values in `steps` steps.
    template <class Value>
    void start(const Value* begin, std::int64_t values, int steps) {
      const std::int64_t bytes = values * static_cast<std::int64_t>(sizeof(Value));
      at = reinterpret_cast<const char*>(begin);
      end = at + bytes;
      per_step = ((bytes + steps - 1) / steps + 63) / 64 * 64;
    }
    WEFT_ALWAYS_INLINE void step() {
      const char* const stop = end - at < per_step ? end : at + per_step;
      for (; at < stop; at += 64) __builtin_prefetch(at, 0, 2);
    }
  };
  Array index = {}, coordinates = {};

  WEFT_ALWAYS_INLINE void step() {
    simd::Ahead<T, 12>::step();
    index.step();
    coordinates.step();
  }
};

}  // namespace weft::flow
