// Matrices between two sets of points, applied to lines by even and odd parts, on vectors. contract.hpp has the square
// derivatives.
#pragma once

#include "weft/simd/vector.hpp"

namespace weft::simd {

// out(i, (M u)_i) for i = 0..rows-1 and a matrix of rows x columns that is symmetric or antisymmetric about its centre,
// as interpolation and derivative between symmetric points are: with e and o the sums and differences of u[m] and
// u[columns-1-m], half the products. c: the coefficients as element::append_even_odd() orders them.
template <int rows, int columns, bool symmetric, class T, class V, class Out>
WEFT_ALWAYS_INLINE void contract(const T* __restrict__ c, const V (&u)[columns], Out&& out) {
  constexpr int h = columns / 2, row = 2 * h + columns % 2;
  V e[h], o[h];
  WEFT_UNROLL_ALL for (int m = 0; m < h; ++m) {
    e[m] = u[m] + u[columns - 1 - m];
    o[m] = u[m] - u[columns - 1 - m];
  }
  WEFT_UNROLL_ALL for (int i = 0; i < rows / 2; ++i) {
    const T* ci = c + i * row;
    V a = ci[0] * e[0], b = ci[h] * o[0];
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) {
      a += ci[m] * e[m];
      b += ci[h + m] * o[m];
    }
    if constexpr (columns % 2 == 1) a += ci[2 * h] * u[h];
    if constexpr (symmetric) {
      out(i, a + b);
      out(rows - 1 - i, a - b);
    } else {
      out(i, b + a);
      out(rows - 1 - i, b - a);
    }
  }
  if constexpr (rows % 2 == 1) {
    const T* ci = c + rows / 2 * row;
    V b = ci[0] * (symmetric ? e[0] : o[0]);
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) b += ci[m] * (symmetric ? e[m] : o[m]);
    if constexpr (symmetric && columns % 2 == 1) b += ci[h] * u[h];
    out(rows / 2, b);
  }
}

}  // namespace weft::simd
