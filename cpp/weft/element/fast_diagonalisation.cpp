#include "weft/element/fast_diagonalisation.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "weft/element/gll.hpp"

namespace weft::element {
namespace {

// Cyclic Jacobi (Golub and Van Loan, Matrix Computations, 8.5): afterwards a is diagonal and q holds its eigenvectors.
void diagonalise(std::vector<double>& a, std::vector<double>& q, int m) {
  q.assign(m * m, 0.0);
  for (int i = 0; i < m; ++i) q[i * m + i] = 1;
  constexpr int most_sweeps = 60;
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    double off = 0, all = 0;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) {
        all += a[i * m + j] * a[i * m + j];
        if (i != j) off += a[i * m + j] * a[i * m + j];
      }
    if (off <= 1e-30 * all) return;
    for (int i = 0; i < m; ++i) {
      for (int j = i + 1; j < m; ++j) {
        if (a[i * m + j] == 0) continue;
        const double theta = (a[j * m + j] - a[i * m + i]) / (2 * a[i * m + j]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int k = 0; k < m; ++k) {
          const double x = a[k * m + i], y = a[k * m + j];
          a[k * m + i] = c * x - s * y;
          a[k * m + j] = s * x + c * y;
        }
        for (int k = 0; k < m; ++k) {
          const double x = a[i * m + k], y = a[j * m + k];
          a[i * m + k] = c * x - s * y;
          a[j * m + k] = s * x + c * y;
          const double u = q[k * m + i], v = q[k * m + j];
          q[k * m + i] = c * u - s * v;
          q[k * m + j] = s * u + c * v;
        }
      }
    }
  }
}

}  // namespace

FastDiagonalisation fast_diagonalisation(int order, const Interval& interval) {
  const Gll& g = gll(order);
  const int n = order + 1, m = n + 2;
  std::vector<double> stiffness(n * n);  // on [-1, 1]
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      for (int p = 0; p < n; ++p)
        stiffness[i * n + j] += g.weights[p] * g.derivative[p * n + i] * g.derivative[p * n + j];

  // Lengths are in this unit, or the 1 of points that are not unknowns would hide small eigenvalues of long intervals.
  const int half = std::ilogb(interval.length) / 2;
  const double unit = std::exp2(2 * half), root = std::exp2(half);
  std::vector<double> a(m * m), b(m), q;
  // Adds points [first, last] of an interval of this length. Its point 0 is point `shift` of the subdomain.
  const auto add = [&](double length, int first, int last, int shift) {
    if (!(length > 0))
      throw std::invalid_argument("fast diagonalisation: an interval has length " + std::to_string(length));
    length /= unit;
    for (int i = first; i <= last; ++i) {
      b[shift + i] += length / 2 * g.weights[i];
      for (int j = first; j <= last; ++j) a[(shift + i) * m + shift + j] += 2 / length * stiffness[i * n + j];
    }
  };
  add(interval.length, 0, n - 1, 1);
  if (interval.left == End::neighbor) add(interval.left_length, n - 2, n - 1, 2 - n);
  if (interval.right == End::neighbor) add(interval.right_length, 0, 1, n);

  std::vector<bool> unknown(m, true);
  unknown[0] = interval.left == End::neighbor;
  unknown[1] = interval.left != End::dirichlet;
  unknown[m - 1] = interval.right == End::neighbor;
  unknown[m - 2] = interval.right != End::dirichlet;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < m; ++j)
      if (unknown[i] && unknown[j])
        a[i * m + j] /= std::sqrt(b[i] * b[j]);
      else
        a[i * m + j] = i == j ? 1 : 0;
  diagonalise(a, q, m);

  double largest = 0;
  for (int i = 0; i < m; ++i) largest = std::max(largest, a[i * m + i]);
  FastDiagonalisation result{std::vector<double>(m * m), std::vector<double>(m)};
  for (int i = 0; i < m; ++i) {
    // points that are not unknowns: eigenvalue 1, eigenvectors unchanged
    const double value = a[i * m + i];
    result.values[i] = value > 1e-12 * largest ? value / unit / unit : 0;  // exactly 0 if both ends are natural
    for (int j = 0; j < m; ++j)
      if (unknown[i] && unknown[j]) result.vectors[i * m + j] = q[i * m + j] / std::sqrt(b[i]) / root;
  }
  return result;
}

}  // namespace weft::element
