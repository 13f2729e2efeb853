#include "weft/flow/work.hpp"

#include "weft/element/gauss.hpp"

namespace weft::flow {
namespace {

// Flops of a matrix applied to a line, by even and odd parts.
double line(int rows, int columns, bool symmetric) {
  const int h = columns / 2, odd = columns % 2;
  double flops = 2 * h + rows / 2 * (4 * h + 2 * odd);
  if (rows % 2 == 1) flops += 2 * h - 1 + (symmetric ? 2 * odd : 0);
  return flops;
}

}  // namespace

Work work(Term term, int count, bool same, const WorkOptions& o) {
  const int n = o.order + 1, m = element::dealiasing_points(o.order);
  const double points = n * n * n, fine = m * m * m, elements = o.affine + o.trilinear + o.curved;
  const double D = line(n, n, false), V = line(m, n, true), S = line(m, n, false), P = line(n, m, true);
  const bool convects = term == Term::convect || term == Term::convect_skew;
  const int groups = convects ? (count + 2) / 3 : 1;  // each recomputes the velocity and the metric

  double each = 0, affine = -1, metric_points = points, metric_rows = n * n;
  double curved = 9 * n * n * D + 27 * points;
  int in = 0, out = 0;
  switch (term) {
    case Term::convect:
      each = groups * ((same ? 0 : 3 * (n * n * V + m * n * V)) + 3 * m * m * V + 15 * fine) +
             count * (n * n * (V + S + P) + m * n * (2 * V + S + P) + m * m * (2 * V + S + P) + 5 * fine);
      if (o.simd)
        affine = each - groups * 15.0 * m * m * (m - n);  // a constant metric is applied before the last interpolation
      metric_points = fine;
      metric_rows = m * m;
      curved = 3 * (n * n * (V + S) + m * n * (2 * V + S) + m * m * (2 * V + S)) + 27 * fine;
      in = count + (same ? 0 : 3);
      out = count;
      break;
    case Term::convect_skew:
      each = groups * 18 * points + count * (6 * n * n * D + 11 * points);
      in = count + (same ? 0 : 3);
      out = count;
      break;
    case Term::gradient:
      each = 3 * n * n * D + 18 * points;
      in = 1;
      out = 3;
      break;
    case Term::weak_divergence:
      each = 3 * n * n * D + 20 * points;
      in = 3;
      out = 1;
      break;
    case Term::divergence:
      each = 9 * n * n * D + 18 * points;
      if (o.simd) affine = 3 * n * n * D + 18 * points;  // a constant metric is applied before the derivatives
      in = 3;
      out = 1;
      break;
    case Term::curl:
      each = 9 * n * n * D + 36 * points;
      if (o.simd) affine = 6 * n * n * D + 36 * points;  // derivatives of covariant components
      in = 3;
      out = 3;
      break;
  }
  // Vectors are read once; those that are added to are read and written once. Indices of points on element surfaces are
  // read.
  const double word = o.scalar_bytes, surface = points - (n - 2.0) * (n - 2) * (n - 2);
  double bytes = word * (in + 2 * out) * o.unknowns, flops = elements * each;
  if (affine >= 0) flops += o.affine * (affine - each);
  if (o.simd) {
    bytes += elements * 4 * surface + word * (24 * (o.affine + o.trilinear) + 3 * points * o.curved);
    flops += groups * o.curved * curved;
  } else {  // results of elements are written by point and then gathered; a metric at each point
    bytes = word * (in + out) * o.unknowns + elements * points * (4 + 4 + word * 2 * out) + 4 * o.unknowns;
    bytes += word * (24 * (o.affine + o.trilinear) + 9 * metric_points * o.curved);
  }
  flops += groups * o.trilinear * (24 * metric_points + 93 * metric_rows);
  return {bytes, flops};
}

}  // namespace weft::flow
