// Copies with non-temporal stores, for arrays that leave the caches before they are read. The destination is not read
// first, which saves a third of the memory traffic of a copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "weft/simd/vector.hpp"

namespace weft::simd {

// Call past_caches_done() before another thread reads the data.
inline void past_caches_done() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Prefetches the lines of `to` that a later copy_past_caches will write only in part.
template <class T>
inline void expect_copy_past_caches(T* to, std::int64_t n) {
  __builtin_prefetch(to, 1);
  __builtin_prefetch(to + n - 1, 1);
}

// to[i] = from[i] for i < n, with non-temporal stores for whole lines of `to`.
template <class T>
inline void copy_past_caches(T* __restrict__ to, const T* __restrict__ from, std::int64_t n) {
#if defined(__SSE2__)
  constexpr std::int64_t line_bytes = 64, line = line_bytes / sizeof(T);
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % line_bytes / sizeof(T));
  const std::int64_t head = past == 0 ? 0 : std::min(n, line - past);
  std::memcpy(to, from, static_cast<std::size_t>(head) * sizeof(T));
  std::int64_t i = head;
  for (; i + line <= n; i += line) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
#else
    for (std::int64_t part = 0; part < line_bytes; part += 16) {
      const auto* at = reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(from + i) + part);
      _mm_stream_si128(reinterpret_cast<__m128i*>(reinterpret_cast<char*>(to + i) + part), _mm_loadu_si128(at));
    }
#endif
  }
  if (i < n) std::memcpy(to + i, from + i, static_cast<std::size_t>(n - i) * sizeof(T));
#else
  std::copy_n(from, n, to);
#endif
}

}  // namespace weft::simd
