// The one-dimensional reference element: Gauss-Lobatto-Legendre (GLL) points, weights and derivative matrix.
#pragma once

#include <span>
#include <vector>

namespace weft::element {

inline constexpr int min_order = 1;
inline constexpr int max_order = 15;

// For polynomials of degree `order` on [-1, 1]: n1 = order + 1 points in ascending order.
struct Gll {
  int order;
  std::vector<double> points;      // [n1]: -1, the roots of P'_order, and 1
  std::vector<double> weights;     // [n1], exact for polynomials of degree 2 order - 1
  std::vector<double> derivative;  // [n1][n1]: derivative[i * n1 + m] = l_m'(x_i)
};

// Computed once per order and cached. Throws std::invalid_argument outside [min_order, max_order].
const Gll& gll(int order);

// The values, at the points `to`, of the Lagrange polynomials on the (distinct) points `from`: row-major [to][from].
// Uses the barycentric formula (Berrut and Trefethen, SIAM Review 46, 2004); each row sums to 1.
std::vector<double> interpolation(std::span<const double> from, std::span<const double> to);

}  // namespace weft::element
