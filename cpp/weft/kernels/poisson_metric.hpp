// The metric G of elements whose factors are not stored (mesh/shape.hpp), for kernels of the screened Poisson operator.
//
// maps: [element][24], three components of each coefficient in x = sum_c maps[c] r^a s^b t^c, in the order 1, r, s, t,
// rs, rt, st, rst. metrics: [element][6], G without the weights. nodes: the GLL points, then the weights.
#pragma once
#include "weft/kernels/element.hpp"

namespace {

// Prefetches [begin, end) into the L2 in pieces of 16 bytes, beginning with the piece that contains `begin`. A last
// piece that extends beyond `end` is included only on request, because `end` may be the end of the array.
WEFT_FUNCTION void prefetch_values(const real* begin, const real* end, bool beyond) {
  const auto first = reinterpret_cast<unsigned long>(begin) & ~15ul;
  const auto last = (reinterpret_cast<unsigned long>(end) + (beyond ? 15 : 0)) & ~15ul;
  weft_prefetch(reinterpret_cast<const void*>(first), static_cast<int>(last - first));
}
// The metric of a trilinear map x = sum_c m[c] r^a s^b t^c.
struct Trilinear {
  const real* WEFT_RESTRICT maps;
  const real* WEFT_RESTRICT nodes;           // GLL points, then weights
  const real* WEFT_RESTRICT inverse_degree;  // [element][n^3], or null: lambda is applied in the gather
};
// dx/dr, dx/ds and dx/dt along a column, where r and s are fixed. The first two are linear in t, with these slopes.
struct Tangents {
  real r[3], r_t[3], s[3], s_t[3], t[3];
};
WEFT_FUNCTION Tangents tangents(const real* m, real r, real s) {
  Tangents x;
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) {
    x.r[d] = m[3 + d] + s * m[12 + d];
    x.r_t[d] = m[15 + d] + s * m[21 + d];
    x.s[d] = m[6 + d] + r * m[12 + d];
    x.s_t[d] = m[18 + d] + r * m[21 + d];
    x.t[d] = m[9 + d] + r * m[15 + d] + s * x.s_t[d];
  }
  return x;
}

// The metric at one point: with the cofactors a = x_s x x_t, b = x_t x x_r, c = x_r x x_s of the Jacobian matrix,
// G = (w / J) [a b c]^T [a b c].
WEFT_FUNCTION real apply_factors(const Trilinear& geometry, int element, int i, int j, int k, real lambda, real& r,
                                 real& s, real& t) {
  const real* nodes = geometry.nodes;
  const Tangents x = tangents(geometry.maps + static_cast<long>(element) * 24, nodes[i], nodes[j]);
  const real z = nodes[k];
  const real xr[3] = {x.r[0] + z * x.r_t[0], x.r[1] + z * x.r_t[1], x.r[2] + z * x.r_t[2]};
  const real xs[3] = {x.s[0] + z * x.s_t[0], x.s[1] + z * x.s_t[1], x.s[2] + z * x.s_t[2]};
  const real a[3] = {xs[1] * x.t[2] - xs[2] * x.t[1], xs[2] * x.t[0] - xs[0] * x.t[2], xs[0] * x.t[1] - xs[1] * x.t[0]};
  const real b[3] = {x.t[1] * xr[2] - x.t[2] * xr[1], x.t[2] * xr[0] - x.t[0] * xr[2], x.t[0] * xr[1] - x.t[1] * xr[0]};
  const real c[3] = {xr[1] * xs[2] - xr[2] * xs[1], xr[2] * xs[0] - xr[0] * xs[2], xr[0] * xs[1] - xr[1] * xs[0]};
  const real scale =
      nodes[n + i] * nodes[n + j] * nodes[n + k] * weft_reciprocal(xr[0] * a[0] + xr[1] * a[1] + xr[2] * a[2]);
  const real v[3] = {scale * (a[0] * r + b[0] * s + c[0] * t), scale * (a[1] * r + b[1] * s + c[1] * t),
                     scale * (a[2] * r + b[2] * s + c[2] * t)};
  r = a[0] * v[0] + a[1] * v[1] + a[2] * v[2];
  s = b[0] * v[0] + b[1] * v[1] + b[2] * v[2];
  t = c[0] * v[0] + c[1] * v[1] + c[2] * v[2];
  if (geometry.inverse_degree == nullptr) return 0;
  return lambda * geometry.inverse_degree[static_cast<long>(element) * points + (k * n + j) * n + i];
}

// Along a column, x_t is constant. A reflection maps it to -l e_3. After it, x_r = (p1, p2, 0) + alpha x_t and
// x_s = (q1, q2, 0) + beta x_t, where p, q, alpha and beta are linear in t; J = l d with d = p1 q2 - p2 q1, and
//   v = (q2, -q1) (u_r - alpha u_t) + (-p2, p1) (u_s - beta u_t)
//   f_r = (w l / d) (q2 v1 - q1 v2),  f_s = (w l / d) (p1 v2 - p2 v1)
//   f_t = (w d / l) u_t - alpha f_r - beta f_s
struct Nodes {
  real points[16], weights[16];
};
struct TrilinearColumns {
  const real* WEFT_RESTRICT maps;
  const real* WEFT_RESTRICT nodes;           // GLL points, then weights: for r and s, which differ between threads
  const Nodes& along_t;                      // the same, for t
  const real* WEFT_RESTRICT inverse_degree;  // [element][n^3], or null: lambda is applied in the gather
};
// The maps of all elements, and the nodes.
WEFT_FUNCTION void prefetch(const TrilinearColumns& geometry, int element, int elements) {
  weft_prefetch(geometry.maps + static_cast<long>(element) * 24, elements * static_cast<int>(24 * sizeof(real)));
  prefetch_values(geometry.nodes, geometry.nodes + 2 * n, false);
}
struct alignas(16) Words {  // what one instruction loads
  real values[16 / sizeof(real)];
};
struct Linear {
  real at_0, slope;
};
WEFT_FUNCTION real at(const Linear& f, real z) { return f.at_0 + z * f.slope; }
struct TrilinearColumn {
  Linear p1, p2, alpha, q1, q2, beta;
  real in_plane, along;  // w l and w / l, without the weight of t
  const Nodes* nodes;
  const real* WEFT_RESTRICT inverse_degree;
};
WEFT_FUNCTION void load_map(const real* from, real (&map)[24]) {
  constexpr int each = 16 / sizeof(real);
  const auto* words = reinterpret_cast<const Words*>(from);
  WEFT_UNROLL
  for (int w = 0; w < 24 / each; ++w) {
    const Words loaded = words[w];
    WEFT_UNROLL
    for (int c = 0; c < each; ++c) map[w * each + c] = loaded.values[c];
  }
}
WEFT_FUNCTION TrilinearColumn column_of(const TrilinearColumns& geometry, int element, int i, int j) {
  real map[24];
  load_map(geometry.maps + static_cast<long>(element) * 24, map);
  const Tangents x = tangents(map, geometry.nodes[i], geometry.nodes[j]);
  const real square = x.t[0] * x.t[0] + x.t[1] * x.t[1] + x.t[2] * x.t[2];
  const real root = weft_reciprocal_root(square), inverse = x.t[2] < 0 ? -root : root, length = square * inverse;
  // H = 1 - 2 v v^T / |v|^2 with v = x_t + length e_3 has H x_t = -length e_3. The sign of length is chosen so that the
  // sum does not cancel.
  const real v3 = x.t[2] + length, twice = weft_reciprocal(square + length * x.t[2]);
  const real h1 = twice * x.t[0], h2 = twice * x.t[1], h3 = twice * v3;
  const auto reflect = [&](const real(&y)[3], real& first, real& second, real& third) {
    const real along_v = h1 * y[0] + h2 * y[1] + h3 * y[2];
    first = y[0] - along_v * x.t[0];
    second = y[1] - along_v * x.t[1];
    third = (along_v * v3 - y[2]) * inverse;
  };
  const real weight = geometry.nodes[n + i] * geometry.nodes[n + j];
  TrilinearColumn c{{}, {}, {}, {}, {}, {}, 0, 0, &geometry.along_t, geometry.inverse_degree};
  const auto reflect_all = [&](const Tangents& of) {
    reflect(of.r, c.p1.at_0, c.p2.at_0, c.alpha.at_0);
    reflect(of.r_t, c.p1.slope, c.p2.slope, c.alpha.slope);
    reflect(of.s, c.q1.at_0, c.q2.at_0, c.beta.at_0);
    reflect(of.s_t, c.q1.slope, c.q2.slope, c.beta.slope);
  };
  if constexpr (n > 13 && sizeof(real) == 8) {
    // Registers are too scarce to keep the map meanwhile: it is read once more.
    load_map(weft_anew(geometry.maps) + static_cast<long>(element) * 24, map);
    reflect_all(tangents(map, geometry.nodes[i], geometry.nodes[j]));
  } else {
    reflect_all(x);
  }
  c.in_plane = weight * length;
  c.along = weight * inverse;
  if (c.inverse_degree != nullptr) c.inverse_degree += static_cast<long>(element) * points + j * n + i;
  return c;
}
WEFT_FUNCTION real apply_factors(const TrilinearColumns&, const TrilinearColumn& c, int k, real lambda, real& r,
                                 real& s, real& t) {
  const real z = c.nodes->points[k], weight = c.nodes->weights[k];
  const real p1 = at(c.p1, z), p2 = at(c.p2, z), alpha = at(c.alpha, z);
  const real q1 = at(c.q1, z), q2 = at(c.q2, z), beta = at(c.beta, z);
  const real d = p1 * q2 - p2 * q1;
  const real scale = c.in_plane * weight * weft_reciprocal(d);
  const real in_r = r - alpha * t, in_s = s - beta * t;
  const real v1 = scale * (q2 * in_r - p2 * in_s), v2 = scale * (p1 * in_s - q1 * in_r);
  r = q2 * v1 - q1 * v2;
  s = p1 * v2 - p2 * v1;
  t = c.along * weight * (d * t) - alpha * r - beta * s;
  return c.inverse_degree == nullptr ? real(0) : lambda * c.inverse_degree[k * face];
}

// The metric of a parallelepiped: constant except for the weights.
struct Affine {
  const real* WEFT_RESTRICT metrics;
  const real* WEFT_RESTRICT weights;
  const real* WEFT_RESTRICT inverse_degree;  // [element][n^3], or null: lambda is applied in the gather
};
struct AffineColumn {
  real rr, rs, rt, ss, st, tt;  // with the weights of r and s
  const real* WEFT_RESTRICT inverse_degree;
};
WEFT_FUNCTION AffineColumn column_of(const Affine& geometry, int element, int i, int j) {
  const real* g = geometry.metrics + static_cast<long>(element) * 6;
  const real w = geometry.weights[i] * geometry.weights[j];
  AffineColumn c{w * g[0], w * g[1], w * g[2], w * g[3], w * g[4], w * g[5], geometry.inverse_degree};
  if (c.inverse_degree != nullptr) c.inverse_degree += static_cast<long>(element) * points + j * n + i;
  return c;
}
WEFT_FUNCTION real apply_factors(const AffineColumn& c, real w, int k, real lambda, real& r, real& s, real& t) {
  const real wr = w * r, ws = w * s, wt = w * t;
  r = c.rr * wr + c.rs * ws + c.rt * wt;
  s = c.rs * wr + c.ss * ws + c.st * wt;
  t = c.rt * wr + c.st * ws + c.tt * wt;
  return c.inverse_degree == nullptr ? real(0) : lambda * c.inverse_degree[k * face];
}
WEFT_FUNCTION real apply_factors(const Affine& geometry, int element, int i, int j, int k, real lambda, real& r,
                                 real& s, real& t) {
  return apply_factors(column_of(geometry, element, i, j), geometry.weights[k], k, lambda, r, s, t);
}

struct AffineColumns {
  Affine of;
  const Nodes& along_t;
};
WEFT_FUNCTION AffineColumn column_of(const AffineColumns& geometry, int element, int i, int j) {
  return column_of(geometry.of, element, i, j);
}
WEFT_FUNCTION real apply_factors(const AffineColumns& geometry, const AffineColumn& c, int k, real lambda, real& r,
                                 real& s, real& t) {
  return apply_factors(c, geometry.along_t.weights[k], k, lambda, r, s, t);
}
WEFT_FUNCTION void prefetch(const AffineColumns& geometry, int element, int elements) {
  const real* metrics = geometry.of.metrics + static_cast<long>(element) * 6;
  prefetch_values(metrics, metrics + elements * 6, false);
  prefetch_values(geometry.of.weights, geometry.of.weights + n, false);
}

}  // namespace
