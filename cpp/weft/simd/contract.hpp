// Applies a matrix to lines of points by even and odd parts, on SIMD vectors.
#pragma once

#include "weft/simd/vector.hpp"

namespace weft::simd {

// Calls out(i, (M u)_i) for i = 0..n-1, for a centro-antisymmetric M (M[n-1-i][n-1-m] = -M[i][m]) such as D and D^T on
// symmetric points. With e and o, the sums and differences of u[m] and u[n-1-m], this takes half the products. c: the
// coefficients in the order of element::append_even_odd().
template <int n, class T, class V, class Out>
WEFT_ALWAYS_INLINE void contract(const T* __restrict__ c, const V (&u)[n], Out&& out) {
  constexpr int h = n / 2, row = 2 * h + n % 2;
  V e[h], o[h];
  WEFT_UNROLL_ALL for (int m = 0; m < h; ++m) {
    e[m] = u[m] + u[n - 1 - m];
    o[m] = u[m] - u[n - 1 - m];
  }
  WEFT_UNROLL_ALL for (int i = 0; i < h; ++i) {
    const T* ci = c + i * row;
    V a = ci[0] * e[0], b = ci[h] * o[0];
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) {
      a += ci[m] * e[m];
      b += ci[h + m] * o[m];
    }
    if constexpr (n % 2 == 1) a += ci[2 * h] * u[h];
    out(i, b + a);
    out(n - 1 - i, b - a);
  }
  if constexpr (n % 2 == 1) {
    const T* ci = c + h * row;
    V b = ci[0] * o[0];
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) b += ci[m] * o[m];
    out(h, b);
  }
}

// The same, written to an array.
template <int n, class T, class V>
WEFT_ALWAYS_INLINE void contract(const T* __restrict__ c, const V (&u)[n], V (&out)[n]) {
  contract<n, T>(c, u, [&](int i, V v) WEFT_LAMBDA_INLINE { out[i] = v; });
}

}  // namespace weft::simd
