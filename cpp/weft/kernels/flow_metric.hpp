// The metric of elements, as the flow's kernels take it.
//
// Metric: as maps [element][24] (x = sum_c maps[c] r^a s^b t^c in the order 1, r, s, t, rs, rt, st, rst, three
// components each) with nodes [points, then weights], or where maps is null as stored [element][9][points]: w C_r, w
// C_s, w C_t of x, y, z each. C_a = J grad r_a are the cofactors of dx/dr.
#pragma once
#include "weft/kernels/element.hpp"
#include "weft/kernels/trilinear.hpp"

namespace {

struct Metric {
  const real* maps;
  const real* nodes;
  const real* stored;
};

// c = w C_r, w C_s, w C_t, as they are stored, at point p of an element with `line` points per direction.
template <int line>
WEFT_FUNCTION void stored_cofactors(const Metric& metric, long element, int p, real (&c)[9]) {
  const real* g = metric.stored + element * (9 * line * line * line) + p;
  WEFT_UNROLL
  for (int q = 0; q < 9; ++q) c[q] = g[q * (line * line * line)];
}

// The same at point (i, j, k), from either.
template <int line>
WEFT_FUNCTION void cofactors(const Metric& metric, long element, int i, int j, int k, real (&c)[9]) {
  if (metric.maps == nullptr) return stored_cofactors<line>(metric, element, (k * line + j) * line + i, c);
  const real w = metric.nodes[line + i] * metric.nodes[line + j] * metric.nodes[line + k];
  real xr[3], xs[3], xt[3];
  trilinear_derivatives(metric.maps + element * 24, metric.nodes[i], metric.nodes[j], metric.nodes[k], xr, xs, xt);
  cofactors_of(xr, xs, xt, w, c);
}

// Along a line in a direction a of an element with straight edges, with (a, b, c) = (r, s, t), (s, t, r) or (t, r, s):
// J grad a is quadratic, J grad b and J grad c are linear, given by their coefficients.
struct LineMetric {
  real a[3][3], b[2][3], c[2][3];
};
// Times a weight, from dx/da = xa, dx/db = xb[0] + z xb[1] and dx/dc = xc[0] + z xc[1] at z.
WEFT_FUNCTION LineMetric line_metric(const real (&xa)[3], const real (&xb)[2][3], const real (&xc)[2][3], real weight) {
  LineMetric line;
  real square[3], other[3];
  const real along[3] = {weight * xa[0], weight * xa[1], weight * xa[2]};
  WEFT_UNROLL
  for (int q = 0; q < 2; ++q) {
    scaled_cross(xc[q], along, real(1), line.b[q]);
    scaled_cross(along, xb[q], real(1), line.c[q]);
  }
  scaled_cross(xb[0], xc[0], weight, line.a[0]);
  scaled_cross(xb[0], xc[1], weight, square);
  scaled_cross(xb[1], xc[0], weight, other);
  scaled_cross(xb[1], xc[1], weight, line.a[2]);
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) line.a[1][d] = square[d] + other[d];
  return line;
}
// Along t at (i, j), with the weights of these.
template <int line>
WEFT_FUNCTION LineMetric column_metric(const Metric& metric, long element, int i, int j) {
  const real* m = metric.maps + element * 24;
  const real r = metric.nodes[i], s = metric.nodes[j];
  real xt[3], xr[2][3], xs[2][3];
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) {
    xr[0][d] = m[3 + d] + s * m[12 + d];
    xr[1][d] = m[15 + d] + s * m[21 + d];
    xs[0][d] = m[6 + d] + r * m[12 + d];
    xs[1][d] = m[18 + d] + r * m[21 + d];
    xt[d] = m[9 + d] + r * m[15 + d] + s * xs[1][d];
  }
  return line_metric(xt, xr, xs, metric.nodes[line + i] * metric.nodes[line + j]);
}

WEFT_FUNCTION real dot(const real* c, real x, real y, real z) { return c[0] * x + c[1] * y + c[2] * z; }

}  // namespace
