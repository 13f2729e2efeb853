// The trilinear map of an element's corners as a polynomial.
#pragma once

#include <array>

namespace weft::mesh {

// Coefficients of 1, r, s, t, rs, rt, st, rst in x(r, s, t), [8][3]; corners are [8][3], r fastest.
inline std::array<double, 24> trilinear_map(const double* corners) {
  constexpr std::array<int, 8> monomials{0, 1, 2, 4, 3, 5, 6, 7};  // bit d: the monomial contains direction d
  std::array<double, 24> map{};
  for (int m = 0; m < 8; ++m) {
    for (int corner = 0; corner < 8; ++corner) {
      const int minus = monomials[m] & ~corner;  // directions in which the corner is at -1
      const double sign = __builtin_parity(static_cast<unsigned>(minus)) != 0 ? -1 : 1;
      for (int d = 0; d < 3; ++d) map[3 * m + d] += sign * corners[3 * corner + d] / 8;
    }
  }
  return map;
}

}  // namespace weft::mesh
