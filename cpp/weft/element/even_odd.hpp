// Even-odd decomposition of a matrix that is applied to lines of points; it halves the number of products (Solomonoff,
// J. Comput. Phys. 100, 1992).
#pragma once

#include <span>
#include <vector>

namespace weft::element {

// Appends the coefficients that simd::contract() reads for a matrix m, row-major rows x columns. Derivative matrices
// between symmetric points are antisymmetric, m[rows-1-i][columns-1-j] = -m[i][j]; interpolation matrices are
// symmetric, with a plus. For each row i < rows/2: the coefficients of the sums u[j] + u[columns-1-j], then of the
// differences, then, if `columns` is odd, that of the middle value. Then, if `rows` is odd, the nonzero coefficients of
// the middle row.
template <class T>
void append_even_odd(const std::vector<double>& m, int rows, int columns, bool symmetric, std::vector<T>& out) {
  const int h = columns / 2;
  const auto part = [&](int i, double sign) {
    for (int j = 0; j < h; ++j)
      out.push_back(static_cast<T>((m[i * columns + j] + sign * m[i * columns + columns - 1 - j]) / 2));
  };
  const auto middle = [&](int i) {
    if (columns % 2 == 1) out.push_back(static_cast<T>(m[i * columns + h]));
  };
  for (int i = 0; i < rows / 2; ++i) {
    part(i, 1);
    part(i, -1);
    middle(i);
  }
  if (rows % 2 == 0) return;
  part(rows / 2, symmetric ? 1 : -1);
  if (symmetric) middle(rows / 2);
}
// The same for a derivative matrix on n points, or its transpose.
template <class T>
void append_even_odd(const std::vector<double>& m, int n, std::vector<T>& out) {
  append_even_odd(m, n, n, false, out);
}

// The same as two matrices, for kernels that are written out by hand. matrix: [rows][columns]. even: [(rows + 1) / 2]
// [(columns + 1) / 2], (m[i][j] + m[i][columns-1-j]) / 2, or m[i][j] in the middle column; odd: [(rows + 1) / 2]
// [columns / 2], (m[i][j] - m[i][columns-1-j]) / 2.
template <class T>
void split_even_odd(std::span<const double> matrix, int rows, int columns, T* even, T* odd) {
  const int h = columns / 2, evens = (columns + 1) / 2;
  for (int i = 0; i < (rows + 1) / 2; ++i) {
    for (int j = 0; j < evens; ++j) {
      const double left = matrix[i * columns + j], right = matrix[i * columns + columns - 1 - j];
      even[i * evens + j] = static_cast<T>(j < h ? (left + right) / 2 : left);
      if (j < h) odd[i * h + j] = static_cast<T>((left - right) / 2);
    }
  }
}

}  // namespace weft::element
