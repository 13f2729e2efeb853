#include "weft/element/gll.hpp"

#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace weft::element {
namespace {

using Real = long double;  // so that the tables in double are correct to the last bit

// P_order(x) and P_{order-1}(x) by the three-term recurrence.
std::array<Real, 2> legendre(int order, Real x) {
  Real previous = 1, current = x;
  for (int n = 1; n < order; ++n) {
    const Real next = ((2 * n + 1) * x * current - n * previous) / (n + 1);
    previous = current;
    current = next;
  }
  return {current, previous};
}

// The i-th GLL point: Newton's method for (1 - x^2) P'_N(x) = N (P_{N-1}(x) - x P_N(x)), with derivative -N (N+1)
// P_N(x).
Real point(int order, int i) {
  if (i == 0) return -1;
  if (i == order) return 1;
  if (2 * i == order) return 0;
  Real x = -std::cos(std::numbers::pi_v<Real> * i / order);
  for (int iteration = 0; iteration < 50; ++iteration) {
    const auto [p, q] = legendre(order, x);
    const Real step = (q - x * p) / ((order + 1) * p);
    x += step;
    if (std::abs(step) < 1e-18L) break;
  }
  return x;
}

Gll make(int order) {
  const int n1 = order + 1;
  std::vector<Real> x(n1), p(n1);
  for (int i = 0; i < n1; ++i) {
    x[i] = i > order / 2 ? -x[order - i] : point(order, i);
    p[i] = legendre(order, x[i])[0];
  }
  Gll result{order, std::vector<double>(n1), std::vector<double>(n1), std::vector<double>(n1 * n1)};
  for (int i = 0; i < n1; ++i) {
    result.points[i] = static_cast<double>(x[i]);
    result.weights[i] = static_cast<double>(2 / (Real(order) * n1 * p[i] * p[i]));
    for (int m = 0; m < n1; ++m) {
      if (m != i) result.derivative[i * n1 + m] = static_cast<double>(p[i] / (p[m] * (x[i] - x[m])));
    }
  }
  result.derivative.front() = -0.25 * order * n1;
  result.derivative.back() = 0.25 * order * n1;
  return result;
}

}  // namespace

const Gll& gll(int order) {
  static const std::vector<Gll> tables = [] {
    std::vector<Gll> all;
    for (int n = min_order; n <= max_order; ++n) all.push_back(make(n));
    return all;
  }();
  if (order < min_order || order > max_order) {
    throw std::invalid_argument("polynomial order " + std::to_string(order) + " is not available: it must be between " +
                                std::to_string(min_order) + " and " + std::to_string(max_order));
  }
  return tables[order - min_order];
}

std::vector<double> interpolation(std::span<const double> from, std::span<const double> to) {
  const std::size_t n = from.size();
  std::vector<Real> weights(n, 1);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < n; ++k) {
      if (k != j) weights[j] /= Real(from[j]) - Real(from[k]);
    }
  }
  std::vector<double> matrix(to.size() * n, 0.0);
  std::vector<Real> terms(n);
  for (std::size_t i = 0; i < to.size(); ++i) {
    Real sum = 0;
    std::size_t hit = n;
    for (std::size_t j = 0; j < n; ++j) {
      if (to[i] == from[j])
        hit = j;
      else
        sum += terms[j] = weights[j] / (Real(to[i]) - Real(from[j]));
    }
    if (hit < n) {
      matrix[i * n + hit] = 1.0;
    } else {
      for (std::size_t j = 0; j < n; ++j) matrix[i * n + j] = static_cast<double>(terms[j] / sum);
    }
  }
  return matrix;
}

}  // namespace weft::element
