#include "weft/element/gauss.hpp"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "weft/element/gll.hpp"

namespace weft::element {

Gauss gauss(int points) {
  if (points < 1) throw std::invalid_argument("a Gauss rule needs at least 1 point, not " + std::to_string(points));
  using Real = long double;  // so that the tables in double are correct to the last bit
  Gauss rule{std::vector<double>(points), std::vector<double>(points)};
  for (int i = 0; i < (points + 1) / 2; ++i) {
    // Newton's method for P_points, from Tricomi's estimate of its (i + 1)-th root from the right.
    Real x = std::cos(std::numbers::pi_v<Real> * (i + 0.75L) / (points + 0.5L)), slope = 1;
    if (2 * i + 1 == points) x = 0;
    for (int iteration = 0; iteration < 50; ++iteration) {
      Real previous = 1, current = x;
      for (int n = 1; n < points; ++n) {
        const Real next = ((2 * n + 1) * x * current - n * previous) / (n + 1);
        previous = current;
        current = next;
      }
      slope = points * (previous - x * current) / (1 - x * x);
      const Real step = current / slope;
      x -= step;
      if (std::abs(step) < 1e-18L) break;
    }
    rule.points[points - 1 - i] = static_cast<double>(x);
    rule.points[i] = static_cast<double>(-x);
    rule.weights[i] = rule.weights[points - 1 - i] = static_cast<double>(2 / ((1 - x * x) * slope * slope));
  }
  return rule;
}

Dealiasing dealiasing(int order) {
  const Gll& gll = element::gll(order);
  const int n = order + 1, m = dealiasing_points(order);
  Gauss rule = gauss(m);
  std::vector<double> matrix = interpolation(gll.points, rule.points);
  // The derivative of a polynomial of degree `order` has a lower degree, so its interpolation is exact.
  std::vector<double> derivative(matrix.size(), 0.0);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < n; ++k) derivative[i * n + k] += matrix[i * n + j] * gll.derivative[j * n + k];
  return {order, m, std::move(rule.points), std::move(rule.weights), std::move(matrix), std::move(derivative)};
}

}  // namespace weft::element
