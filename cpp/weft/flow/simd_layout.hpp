// The layout of a block's fields in the scratch memory of a thread.
#pragma once

#include <cstdint>

#include "weft/simd/vector.hpp"

namespace weft::flow {

using simd::Vec;

// The fields of a block are stored column by column, [j n + i][k] with k < l, so that results along t are contiguous. A
// column takes `pitch` vectors, an odd number, so that a plane does not map to a few sets of the first-level cache.
template <int l>
inline constexpr int pitch = l | 1;
template <int n, int l>
inline constexpr int field_vectors = n * n * pitch<l> + 5;

// Hands out consecutive arrays of vectors. Gaps between them keep the values of one point from mapping to the same set
// of the first-level cache.
template <class T>
class Scratch {
 public:
  explicit Scratch(T* begin) : at_(reinterpret_cast<Vec<T>*>(begin)) {}
  Vec<T>* take(int count) {
    Vec<T>* const taken = at_;
    at_ += count + 3;
    return taken;
  }
  std::int64_t taken(const T* begin) const { return at_ - reinterpret_cast<const Vec<T>*>(begin); }

 private:
  Vec<T>* at_;
};

}  // namespace weft::flow
