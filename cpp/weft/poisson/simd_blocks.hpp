// What the block kernels read: arrays of SimdOperator, and the order in which blocks and vector entries are visited.
#pragma once

#include <omp.h>

#include <array>
#include <cstdint>
#include <vector>

#include "weft/simd/vector.hpp"

namespace weft::poisson {

using simd::Vec;

template <class T>
struct Ahead;
template <class T>
struct SimdBlocks;

// What a block's columns between their two passes go through: derivatives within planes and the metric, on U and Q.
template <class T>
using PlanesOfBlock = void (*)(const SimdBlocks<T>&, std::int64_t block, Ahead<T>&, Vec<T>* U, Vec<T>* Q);

// Views. n = order + 1, lanes = simd::lanes<T>; arrays that begin with [blocks] are aligned to a vector.
template <class T>
struct SimdBlocks {
  const T* forward;           // D by even and odd parts, see simd::contract()
  const T* transposed;        // D^T the same way
  const T* points;            // [n] GLL
  const T* weights;           // [n]
  const T* inverse_weights;   // [n]
  const std::int32_t* index;  // [blocks][surface points][lanes]: entry of the vector
  // [blocks]: where the block's (n - 2)^3 lanes inside points begin in the vector, if they are in a row; else
  // -1 - position in interior_index.
  const std::int64_t* interior;
  const std::int32_t* interior_index;
  const std::uint8_t* conflict;  // [blocks]: two lanes of a vector share an entry
  const T* geometry;        // stored: [blocks][n^3][6][lanes] factors; trilinear: [blocks][8][3][lanes] coefficients
  PlanesOfBlock<T> planes;  // for this kind of geometry
};

struct Range {
  std::int64_t begin, end;
};

// f(i, in, out) for the vectors of a range, one after the other: in(a + i) reads and out(a + i, v) writes as many
// entries as are left, a whole vector but for the last.
template <class T, class F>
WEFT_ALWAYS_INLINE void for_vectors(Range range, F&& f) {
  constexpr int lanes = simd::lanes<T>;
  std::int64_t i = range.begin;
  for (; i + lanes <= range.end; i += lanes)
    f(i, [](const T* a) { return simd::load(a); }, [](T* a, Vec<T> v) { simd::store(a, v); });
  if (const int count = static_cast<int>(range.end - i); count > 0)
    f(
        i, [=](const T* a) { return simd::load_first(a, count); },
        [=](T* a, Vec<T> v) { simd::store_first(a, v, count); });
}

// Who visits what when. Of the entries [shared, owned), those that one chunk of blocks touches alone are updated just
// before the first block that touches them and summed just after the last; the others ("apart": shared ones, and with
// several threads those between chunks) before and after the sweep.
struct SimdPlan {
  std::vector<Range> before;        // [blocks]: entries first touched by the block, its inside points in a row left out
  std::vector<std::int64_t> ahead;  // [blocks + 1]: entry where those first touched by the block begin, insides too
  std::vector<Range> after;         // entries last touched by a block, insides left out ...
  std::vector<std::int64_t> after_begin;  // ... [blocks + 1] into it
  std::vector<Range> apart;               // in pieces of equal work for threads
  Range halo;
  std::int64_t zero;  // the entry of masked points
  // [part][colour]: chunks of blocks that share no entry and may run at the same time.
  std::array<std::vector<std::vector<Range>>, 3> chunks;
  int threads;
};

// Runs work(range, thread) for all chunks, colour after colour.
template <class Work>
void for_chunks(const std::vector<std::vector<Range>>& colours, int threads, Work&& work) {
  for (const std::vector<Range>& chunks : colours) {
    const int count = static_cast<int>(chunks.size());
    if (threads == 1) {
      for (const Range& chunk : chunks) work(chunk, 0);
    } else {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
      for (int c = 0; c < count; ++c) work(chunks[c], omp_get_thread_num());
    }
  }
}

}  // namespace weft::poisson
