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

// c = w C_r, w C_s, w C_t at point (i, j, k) of `line` points per direction.
template <int line>
WEFT_FUNCTION void cofactors(const Metric& metric, long element, int i, int j, int k, real (&c)[9]) {
  if (metric.maps == nullptr) {
    const real* g = metric.stored + element * (9 * line * line * line) + (k * line + j) * line + i;
    WEFT_UNROLL
    for (int q = 0; q < 9; ++q) c[q] = g[q * (line * line * line)];
    return;
  }
  const real w = metric.nodes[line + i] * metric.nodes[line + j] * metric.nodes[line + k];
  real xr[3], xs[3], xt[3];
  trilinear_derivatives(metric.maps + element * 24, metric.nodes[i], metric.nodes[j], metric.nodes[k], xr, xs, xt);
  cofactors_of(xr, xs, xt, w, c);
}

WEFT_FUNCTION real dot(const real* c, real x, real y, real z) { return c[0] * x + c[1] * y + c[2] * z; }

}  // namespace
