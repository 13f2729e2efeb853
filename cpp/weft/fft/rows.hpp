// Copies rows between a panel on the host and the storage of a variable.
#pragma once

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <span>

#include "weft/fft/block.hpp"

namespace weft::fft {

// streaming: uses non-temporal stores, for data that will no longer be in cache when they are read. Otherwise each
// cache line is read before it is written, which adds half as much traffic. Call stores_done() before the data are
// read.
enum class Stores { cached, streaming };
inline void stores_done([[maybe_unused]] Stores stores) {
#if defined(__AVX__)
  if (stores == Stores::streaming) _mm_sfence();
#endif
}

// to[i] = scale from[i] for n values, one cache line at a time. `ahead` is what will be read next; it is prefetched.
template <Stores stores, class T>
inline void copy_row(T* __restrict__ to, const T* __restrict__ from, std::int64_t n, T scale, const T* ahead) {
  constexpr std::int64_t line = 64 / sizeof(T);
  typedef T Line __attribute__((vector_size(64)));
  std::int64_t i = 0;
  if constexpr (stores == Stores::streaming) {
    const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64 / sizeof(T));
    const std::int64_t head = past == 0 ? 0 : std::min(n, line - past);
    for (; i < head; ++i) to[i] = scale * from[i];
  }
  for (; i + line <= n; i += line) {
    __builtin_prefetch(ahead + i);
    Line values;
    std::memcpy(&values, from + i, sizeof values);
    values *= scale;
#if defined(__AVX512F__)
    if constexpr (stores == Stores::streaming) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), reinterpret_cast<__m512i>(values));
      continue;
    }
#elif defined(__AVX__)
    if constexpr (stores == Stores::streaming) {
      __m256i halves[2];
      std::memcpy(halves, &values, sizeof values);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), halves[0]);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i) + 1, halves[1]);
      continue;
    }
#endif
    std::memcpy(to + i, &values, sizeof values);
  }
  __builtin_prefetch(ahead + i);
  for (; i < n; ++i) to[i] = scale * from[i];
}
template <Stores stores, class T>
inline void copy_row(std::complex<T>* to, const std::complex<T>* from, std::int64_t n, T scale,
                     const std::complex<T>* ahead) {
  copy_row<stores>(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), 2 * n, scale,
                   reinterpret_cast<const T*>(ahead));
}

// kept: for each kz the number of kx, counted from 0, that may be nonzero; empty: all.
using Kept = std::span<const std::int64_t>;

// The number of values kept among the `count` values that start at x.
inline std::int64_t kept_of(Kept kept, std::int64_t z, std::int64_t x, std::int64_t count) {
  return kept.empty() ? count : std::clamp<std::int64_t>(kept[static_cast<std::size_t>(z)] - x, 0, count);
}

// Copies the intersection of two pieces of a variable from one to the other, multiplied by `scale`.
template <Stores stores, class V, class T>
void copy_common(const Piece<V>& to, const Piece<V>& from, T scale, Kept kept = {}) {
  const Box common = intersection(to.box, from.box);
  if (common.empty()) return;
  const auto [x, y, z] = common.first;
  // As many rows ahead as memory delivers during its latency.
  constexpr std::int64_t ahead_bytes = 4096, most_ahead = 8;
  const std::int64_t row_bytes = common.count[0] * static_cast<std::int64_t>(sizeof(V));
  const std::int64_t next = (common.count[1] > 1 ? from.y_stride : from.z_stride) *
                            std::clamp<std::int64_t>(ahead_bytes / row_bytes, 1, most_ahead);
  for (std::int64_t k = z; k < z + common.count[2]; ++k) {
    const std::int64_t count = kept_of(kept, k, x, common.count[0]);
    if (count == 0) continue;
    for (std::int64_t j = y; j < y + common.count[1]; ++j) {
      const V* const row = from.at(x, j, k);
      copy_row<stores>(to.at(x, j, k), row, count, scale, row + next);
    }
  }
}

template <class V>
Piece<V> piece_of(const Block<V>& block, int variable) {
  return {block.row(variable, 0, 0), block.box, block.y_stride, block.z_stride};
}

// Gathers a variable of a block from its pieces (with 0 where it is not kept), or scatters it to them.
template <class V, class T>
void load(const Block<V>& block, int variable, const Pieces<V>& pieces, T scale, Kept kept = {}) {
  for (const Piece<V>& piece : pieces) copy_common<Stores::cached>(piece_of(block, variable), piece, scale, kept);
  if (kept.empty()) return;
  for (std::int64_t z = 0; z < block.box.count[2]; ++z) {
    const std::int64_t count = kept_of(kept, block.box.first[2] + z, block.box.first[0], block.box.count[0]);
    if (count == block.box.count[0]) continue;
    for (std::int64_t y = 0; y < block.box.count[1]; ++y)
      std::fill(block.row(variable, y, z) + count, block.row(variable, y, z) + block.box.count[0], V(0));
  }
}
template <class V, class T>
void store(const Block<V>& block, int variable, const Pieces<V>& pieces, T scale, Stores stores, Kept kept = {}) {
  for (const Piece<V>& piece : pieces) {
    const Piece<V> from = piece_of(block, variable);
    if (stores == Stores::streaming) {
      copy_common<Stores::streaming>(piece, from, scale, kept);
    } else {
      copy_common<Stores::cached>(piece, from, scale, kept);
    }
  }
}

}  // namespace weft::fft
