// The derivative along a line of points, by even-odd decomposition.
#pragma once
#include "weft/kernels/element.hpp"

namespace {

// A line of points is transformed by even-odd decomposition: D[n-1-i][n-1-m] = -D[i][m], so that with e_m = u_m +
// u_{n-1-m}, o_m = u_m - u_{n-1-m} only half of the products are needed.
constexpr int half = n / 2;        // pairs in a line
constexpr int rows = (n + 1) / 2;  // pairs and the middle point
struct Splitting {
  real even[64];  // [half][rows]: (D[i][m] + D[i][n-1-m]) / 2, D[i][m] for the middle column
  real odd[64];   // [rows][half]: (D[i][m] - D[i][n-1-m]) / 2
};

WEFT_FUNCTION void split(const real (&line)[n], real (&e)[rows], real (&o)[rows]) {
  WEFT_UNROLL
  for (int m = 0; m < half; ++m) {
    e[m] = line[m] + line[n - 1 - m];
    o[m] = line[m] - line[n - 1 - m];
  }
  if (n % 2 == 1) e[rows - 1] = line[half];
}

// line <- D line; or D^T line, whose decomposition is (odd^T, even^T).
template <bool transposed>
WEFT_FUNCTION void differentiate(const Splitting& d, const real (&line)[n], real (&out)[n]) {
  real e[rows], o[rows];
  split(line, e, o);
  WEFT_UNROLL
  for (int i = 0; i < rows; ++i) {
    real a = 0, b = 0;
    if (i < half) {
      WEFT_UNROLL
      for (int m = 0; m < rows; ++m) a += (transposed ? d.odd[m * half + i] : d.even[i * rows + m]) * e[m];
    }
    WEFT_UNROLL
    for (int m = 0; m < half; ++m) b += (transposed ? d.even[m * rows + i] : d.odd[i * half + m]) * o[m];
    if (i < half) {
      out[i] = b + a;
      out[n - 1 - i] = b - a;
    } else {
      out[i] = b;
    }
  }
}

}  // namespace
