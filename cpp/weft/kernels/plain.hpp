// Processor versions of the operations that need special GPU instructions: see dialect.hpp.
#pragma once

#include <cmath>

WEFT_FUNCTION void weft_prefetch(const void*, int) {}
template <class T>
WEFT_FUNCTION T weft_anew(T value) {
  return value;
}
template <class T>
WEFT_FUNCTION T weft_reciprocal(T x) {
  return T(1) / x;
}
template <class T>
WEFT_FUNCTION T weft_reciprocal_root(T x) {
  return T(1) / std::sqrt(x);
}

// The part of c += a b^T that belongs to thread `thread`, from a and b of all threads: row-major, 64 values per warp.
template <class T>
WEFT_FUNCTION void weft_multiply_rows(const T (*a)[2], const T (*b)[2], int thread, T (&c)[2]) {
  for (int e = 0; e < 2; ++e)
    for (int k = 0; k < 8; ++k)
      c[e] += a[thread / 4 * 4 + k / 2][k % 2] * b[thread / 32 * 32 + (thread % 4 * 2 + e) * 4 + k / 2][k % 2];
}
#if defined(WEFT_TARGET_FIBER)
template <class T>
WEFT_FUNCTION void weft_multiply_transposed(T (&c)[1][2], const T (&a)[1][2], const T (&b)[1][2]) {
  static T all_a[1024][2], all_b[1024][2];
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = 0; e < 2; ++e) {
    all_a[thread][e] = a[0][e];
    all_b[thread][e] = b[0][e];
  }
  WEFT_BARRIER();
  weft_multiply_rows(all_a, all_b, thread, c[0]);
  WEFT_BARRIER();
}
#else
template <int threads, class T>
WEFT_FUNCTION void weft_multiply_transposed(T (&c)[threads][2], const T (&a)[threads][2], const T (&b)[threads][2]) {
  for (int thread = 0; thread < threads; ++thread) weft_multiply_rows(a, b, thread, c[thread]);
}
#endif
