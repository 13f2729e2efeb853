// Even-odd splitting of a matrix along lines of points: half the products (Solomonoff, J. Comput. Phys. 100, 1992).
#pragma once

#include <vector>

namespace weft::element {

// Appends what simd::contract() reads. m: row-major n x n, centro-antisymmetric, as derivative matrices
// are. For each row i < n/2 the coefficients of the sums u[j] + u[n-1-j], of the differences, and for odd n of the
// middle value; then for odd n those of the differences in the middle row.
template <class T>
void append_even_odd(const std::vector<double>& m, int n, std::vector<T>& out) {
  const int h = n / 2;
  const auto part = [&](int i, double sign) {
    for (int j = 0; j < h; ++j) out.push_back(static_cast<T>((m[i * n + j] + sign * m[i * n + n - 1 - j]) / 2));
  };
  for (int i = 0; i < h; ++i) {
    part(i, 1);
    part(i, -1);
    if (n % 2 == 1) out.push_back(static_cast<T>(m[i * n + h]));
  }
  if (n % 2 == 1) part(h, -1);
}

}  // namespace weft::element
