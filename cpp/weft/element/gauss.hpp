// Gauss-Legendre points, and the interpolation matrices from GLL points to them, for over-integration.
#pragma once

#include <vector>

namespace weft::element {

struct Gauss {
  std::vector<double> points;   // ascending, in (-1, 1)
  std::vector<double> weights;  // exact for polynomials of degree 2 points - 1
};
// std::invalid_argument for less than one point.
Gauss gauss(int points);

// The 3/2 rule: the number of points per direction that integrates products of three polynomials of degree `order`
// exactly.
constexpr int dealiasing_points(int order) { return (3 * (order + 1) + 1) / 2; }

// Matrices from the n = order + 1 GLL points to the m = dealiasing_points(order) Gauss points, row-major [m][n].
struct Dealiasing {
  int order, points;
  std::vector<double> nodes, weights;  // [m] Gauss points and weights
  std::vector<double> interpolation;   // to values
  std::vector<double> derivative;      // to derivatives
};
// std::invalid_argument for an order outside 1..15.
Dealiasing dealiasing(int order);

}  // namespace weft::element
