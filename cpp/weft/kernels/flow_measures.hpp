// Integrals and extrema of a flow, by element; the host adds them up. Sums and differences are kept in double for both
// precisions.
//   flow_measures   of the velocity and its gradient
//   flow_courant    of the velocity and the spacing of the points
//   flow_extrema    of any fields
//
// They run now and then, not in every step, so that one instance does for all orders: a block takes an element, its
// threads the points in turn, and n = N + 1 is an argument. Arrays: index [element][n^3] entry of a vector; vectors
// [field][stride]; metric as maps [element][24] (x = sum_c maps[c] r^a s^b t^c in the order 1, r, s, t, rs, rt, st,
// rst, three components each), or where maps is null as stored [element][9][n^3]: w C_r, w C_s, w C_t of x, y, z each,
// with C_a = J grad r_a; nodes [points, then weights].
#include "weft/kernels/dialect.hpp"

namespace {

using real = WEFT_REAL;
constexpr int measure_threads = 128;

struct Metric {
  const real* maps;
  const real* nodes;
  const real* stored;
};

WEFT_FUNCTION void cross(const real (&a)[3], const real (&b)[3], real* out) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

// g = grad r_a, three components each, at point p of the element; the result is w J.
WEFT_FUNCTION real slopes(const Metric& metric, long element, int p, int n, real (&g)[9]) {
  const int i = p % n, j = p / n % n, k = p / (n * n);
  const real w = metric.nodes[n + i] * metric.nodes[n + j] * metric.nodes[n + k];
  real jacobian;  // J, or w J
  if (metric.maps == nullptr) {
    const long points = static_cast<long>(n) * n * n;
    WEFT_UNROLL
    for (int q = 0; q < 9; ++q) g[q] = metric.stored[(element * 9 + q) * points + p];
    // det(w C) = w^3 J^2
    const real det =
        g[0] * (g[4] * g[8] - g[5] * g[7]) + g[1] * (g[5] * g[6] - g[3] * g[8]) + g[2] * (g[3] * g[7] - g[4] * g[6]);
    jacobian = sqrt(det / w);
  } else {
    const real* a = metric.maps + element * 24;
    const real r = metric.nodes[i], s = metric.nodes[j], t = metric.nodes[k];
    real xr[3], xs[3], xt[3];
    WEFT_UNROLL
    for (int d = 0; d < 3; ++d) {
      xr[d] = a[3 + d] + s * a[12 + d] + t * (a[15 + d] + s * a[21 + d]);
      xs[d] = a[6 + d] + r * a[12 + d] + t * (a[18 + d] + r * a[21 + d]);
      xt[d] = a[9 + d] + r * a[15 + d] + s * (a[18 + d] + r * a[21 + d]);
    }
    cross(xs, xt, g);
    cross(xt, xr, g + 3);
    cross(xr, xs, g + 6);
    jacobian = xr[0] * g[0] + xr[1] * g[1] + xr[2] * g[2];
  }
  const real inverse = 1 / jacobian;
  WEFT_UNROLL
  for (int q = 0; q < 9; ++q) g[q] *= inverse;
  return metric.maps == nullptr ? jacobian : w * jacobian;
}

// Not a number stays, whatever comes later.
WEFT_FUNCTION double larger(double a, double b) { return a > b || a != a ? a : b; }
WEFT_FUNCTION double smaller(double a, double b) { return a < b || a != a ? a : b; }

}  // namespace

// out [element][5]: the integrals of |omega|^2, S : S, (div u)^2 and |grad u|^2; the largest (div u)^2.
WEFT_KERNEL(flow_measures, measure_threads,
            (int n, Metric metric, const real* WEFT_RESTRICT derivative, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT u, long stride, double* WEFT_RESTRICT out)) {
  constexpr int count = 5;
  WEFT_SHARED(double, sums[count][measure_threads]);
  const long element = WEFT_BLOCK;
  const int face = n * n, points = n * face;
  const int* WEFT_RESTRICT at = index + element * points;
  WEFT_THREADS(thread, measure_threads) {
    double vorticity = 0, strain = 0, divergence = 0, all = 0, largest = 0;
    for (int p = thread; p < points; p += measure_threads) {
      const int i = p % n, j = p / n % n, k = p / face;
      const int *row = at + p - i, *column = at + p - j * n, *pillar = at + p - k * face;
      real slope[3][3] = {};  // du_c/dr_a
      for (int q = 0; q < n; ++q) {
        const real dr = derivative[i * n + q], ds = derivative[j * n + q], dt = derivative[k * n + q];
        const real *r = u + row[q], *s = u + column[q * n], *t = u + pillar[q * face];
        WEFT_UNROLL
        for (int c = 0; c < 3; ++c) {
          slope[c][0] += dr * r[c * stride];
          slope[c][1] += ds * s[c * stride];
          slope[c][2] += dt * t[c * stride];
        }
      }
      real a[9];
      const double wj = slopes(metric, element, p, n, a);
      double g[3][3];  // du_c/dx_d
      WEFT_UNROLL
      for (int c = 0; c < 3; ++c) {
        WEFT_UNROLL
        for (int d = 0; d < 3; ++d) g[c][d] = a[d] * slope[c][0] + a[3 + d] * slope[c][1] + a[6 + d] * slope[c][2];
      }
      WEFT_UNROLL
      for (int c = 0; c < 3; ++c) {
        const int d = (c + 1) % 3;
        vorticity += wj * (g[c][d] - g[d][c]) * (g[c][d] - g[d][c]);
        strain += wj * (g[c][c] * g[c][c] + (g[c][d] + g[d][c]) * (g[c][d] + g[d][c]) / 2);
        all += wj * (g[c][0] * g[c][0] + g[c][1] * g[c][1] + g[c][2] * g[c][2]);
      }
      const double trace = g[0][0] + g[1][1] + g[2][2];
      divergence += wj * trace * trace;
      largest = larger(largest, trace * trace);
    }
    sums[0][thread] = vorticity;
    sums[1][thread] = strain;
    sums[2][thread] = divergence;
    sums[3][thread] = all;
    sums[4][thread] = largest;
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, measure_threads) {
    if (thread < count) {
      double sum = sums[thread][0];
      for (int t = 1; t < measure_threads; ++t)
        sum = thread == 4 ? larger(sum, sums[thread][t]) : sum + sums[thread][t];
      out[element * count + thread] = sum;
    }
  }
}

// out [element]: the largest sum over directions of |u . grad r_a| / (spacing of the points in r_a) at a point.
// inverse_spacing [n]
WEFT_KERNEL(flow_courant, measure_threads,
            (int n, Metric metric, const real* WEFT_RESTRICT inverse_spacing, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT u, long stride, double* WEFT_RESTRICT out)) {
  WEFT_SHARED(double, found[measure_threads]);
  const long element = WEFT_BLOCK;
  const int points = n * n * n;
  WEFT_THREADS(thread, measure_threads) {
    double largest = 0;
    for (int p = thread; p < points; p += measure_threads) {
      real a[9];
      slopes(metric, element, p, n, a);
      const long at = index[element * points + p];
      const real x = u[at], y = u[stride + at], z = u[2 * stride + at];
      const double rate = fabs(a[0] * x + a[1] * y + a[2] * z) * inverse_spacing[p % n] +
                          fabs(a[3] * x + a[4] * y + a[5] * z) * inverse_spacing[p / n % n] +
                          fabs(a[6] * x + a[7] * y + a[8] * z) * inverse_spacing[p / (n * n)];
      largest = larger(largest, rate);
    }
    found[thread] = largest;
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, measure_threads) {
    if (thread == 0) {
      double largest = 0;
      for (int t = 0; t < measure_threads; ++t) largest = larger(largest, found[t]);
      out[element] = largest;
    }
  }
}

// out [element][field][4]: the integrals of a field and of its square, its smallest and its largest value.
WEFT_KERNEL(flow_extrema, measure_threads,
            (int n, Metric metric, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT fields, int field_count,
             long stride, double* WEFT_RESTRICT out)) {
  WEFT_SHARED(double, sums[4][measure_threads]);
  const long element = WEFT_BLOCK;
  const int points = n * n * n;
  const int* WEFT_RESTRICT at = index + element * points;
  for (int field = 0; field < field_count; ++field) {
    const real* WEFT_RESTRICT f = fields + field * stride;
    WEFT_THREADS(thread, measure_threads) {
      double sum = 0, square = 0, low = f[at[0]], high = low;
      for (int p = thread; p < points; p += measure_threads) {
        real a[9];
        const double wj = slopes(metric, element, p, n, a), value = f[at[p]];
        sum += wj * value;
        square += wj * value * value;
        low = smaller(low, value);
        high = larger(high, value);
      }
      sums[0][thread] = sum;
      sums[1][thread] = square;
      sums[2][thread] = low;
      sums[3][thread] = high;
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, measure_threads) {
      if (thread < 4) {
        double found = sums[thread][0];
        for (int t = 1; t < measure_threads; ++t) {
          const double other = sums[thread][t];
          found = thread < 2 ? found + other : thread == 2 ? smaller(found, other) : larger(found, other);
        }
        out[(element * field_count + field) * 4 + thread] = found;
      }
    }
    WEFT_BARRIER();
  }
}
