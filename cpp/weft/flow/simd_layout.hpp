// The layout of a block's fields in the scratch memory of a thread.
#pragma once

#include <cstdint>

#include "weft/simd/vector.hpp"

namespace weft::flow {

using simd::Vec;

// Fields of a block are kept column by column, [j n + i][k] of k < l, so that what is done along t stores in a row: a
// column has `pitch` vectors, odd, so that a plane does not fall into few sets of the first cache.
template <int l>
inline constexpr int pitch = l | 1;
template <int n, int l>
inline constexpr int field_vectors = n * n * pitch<l> + 5;

// Consecutive arrays of vectors; gaps keep one point's out of one set of the first cache.
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
