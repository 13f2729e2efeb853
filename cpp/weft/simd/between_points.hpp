// Applies matrices between two sets of points to lines of values, by even and odd parts, on SIMD vectors. contract.hpp
// does the same for square derivative matrices.
#pragma once

#include "weft/simd/vector.hpp"

namespace weft::simd {

// Two lines that undergo the same arithmetic, so that each coefficient is read once for both.
template <class V>
struct Two {
  V first, second;
};
template <class V>
WEFT_ALWAYS_INLINE Two<V> operator+(const Two<V>& x, const Two<V>& y) {
  return {x.first + y.first, x.second + y.second};
}
template <class V>
WEFT_ALWAYS_INLINE Two<V> operator-(const Two<V>& x, const Two<V>& y) {
  return {x.first - y.first, x.second - y.second};
}
template <class T, class V>
WEFT_ALWAYS_INLINE Two<V> operator*(T c, const Two<V>& x) {
  return {c * x.first, c * x.second};
}
template <class V>
WEFT_ALWAYS_INLINE void operator+=(Two<V>& x, const Two<V>& y) {
  x.first += y.first;
  x.second += y.second;
}

// The even and odd parts of a line of values: sums and differences of values at opposite points, and the middle value.
template <int count, class V>
struct Parts {
  V even[(count + 1) / 2], odd[count / 2];
};
template <int count, class V>
WEFT_ALWAYS_INLINE Parts<count, V> parts(const V (&u)[count]) {
  constexpr int h = count / 2;
  Parts<count, V> p;
  WEFT_UNROLL_ALL for (int m = 0; m < h; ++m) {
    p.even[m] = u[m] + u[count - 1 - m];
    p.odd[m] = u[m] - u[count - 1 - m];
  }
  if constexpr (count % 2 == 1) p.even[h] = u[h];
  return p;
}

// M u for a matrix of rows x columns that is symmetric or antisymmetric about its centre, like interpolation and
// derivative between symmetric points. This halves the number of products. out(i, a, b) for i < rows/2, where (M u)_i =
// a + b and (M u)_{rows-1-i} = a - b; middle((M u)_{rows/2}) for odd rows. c: the coefficients in the order of
// element::append_even_odd().
template <int rows, int columns, bool symmetric, class T, class V, class Out, class Middle>
WEFT_ALWAYS_INLINE void contract_parts(const T* __restrict__ c, const Parts<columns, V>& u, Out&& out,
                                       Middle&& middle) {
  constexpr int h = columns / 2, row = 2 * h + columns % 2;
  WEFT_UNROLL_ALL for (int i = 0; i < rows / 2; ++i) {
    const T* ci = c + i * row;
    V a = ci[0] * u.even[0], b = ci[h] * u.odd[0];
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) {
      a += ci[m] * u.even[m];
      b += ci[h + m] * u.odd[m];
    }
    if constexpr (columns % 2 == 1) a += ci[2 * h] * u.even[h];
    if constexpr (symmetric)
      out(i, a, b);
    else
      out(i, b, a);
  }
  if constexpr (rows % 2 == 1) {
    const T* ci = c + rows / 2 * row;
    V b = ci[0] * (symmetric ? u.even[0] : u.odd[0]);
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) b += ci[m] * (symmetric ? u.even[m] : u.odd[m]);
    if constexpr (symmetric && columns % 2 == 1) b += ci[h] * u.even[h];
    middle(b);
  }
}
// The same, calling out(i, (M u)_i) for i = 0..rows-1.
template <int rows, int columns, bool symmetric, class T, class V, class Out>
WEFT_ALWAYS_INLINE void contract(const T* __restrict__ c, const Parts<columns, V>& u, Out&& out) {
  contract_parts<rows, columns, symmetric, T>(
      c, u,
      [&](int i, const V& a, const V& b) WEFT_LAMBDA_INLINE {
        out(i, a + b);
        out(rows - 1 - i, a - b);
      },
      [&](const V& v) WEFT_LAMBDA_INLINE { out(rows / 2, v); });
}
template <int rows, int columns, bool symmetric, class T, class V, class Out>
WEFT_ALWAYS_INLINE void contract(const T* __restrict__ c, const V (&u)[columns], Out&& out) {
  contract<rows, columns, symmetric, T>(c, parts(u), out);
}

}  // namespace weft::simd
