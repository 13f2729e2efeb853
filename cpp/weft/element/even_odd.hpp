// Even-odd splitting of a matrix along lines of points: half the products (Solomonoff, J. Comput. Phys. 100, 1992).
#pragma once

#include <vector>

namespace weft::element {

// Appends the coefficients that simd::contract() reads for a matrix m, row-major rows x columns. Derivative matrices
// between symmetric points are antisymmetric, m[rows-1-i][columns-1-j] = -m[i][j], interpolation matrices symmetric,
// with a plus. For each row i < rows/2 the coefficients of the sums u[j] + u[columns-1-j], of the differences, and for
// odd `columns` of the middle value; then for odd `rows` those of the middle row that are not zero.
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
// A derivative matrix on n points, or its transpose.
template <class T>
void append_even_odd(const std::vector<double>& m, int n, std::vector<T>& out) {
  append_even_odd(m, n, n, false, out);
}

}  // namespace weft::element
