// Integrals and extrema of a flow, by element; the host adds them up. Sums and differences are kept in double for both
// precisions.
//   flow_measures   of the velocity and its gradient
//   flow_courant    of the velocity and the spacing of the points
//   flow_extrema    of any vectors, by chunks of entries
//
// They are no large part of a step, so that one instance does for all orders: a block takes an element, its threads the
// lines along r in turn, and n = N + 1 is an argument. Arrays: index [element][n^3] entry of a vector; vectors
// [field][stride]; metric as maps [element][24] (x = sum_c maps[c] r^a s^b t^c in the order 1, r, s, t, rs, rt, st,
// rst, three components each), or where maps is null as places [element][3][n^3], the coordinates of the points, which
// are differentiated anew; nodes [points, then weights]; derivative [n][n].
#include "weft/kernels/trilinear.hpp"

namespace {

using real = WEFT_REAL;
constexpr int measure_threads = 128;

struct Metric {
  const real* maps;
  const real* nodes;
  const real* places;
  const real* derivative;
};

// g = grad r_a, three components each, at point (i, j, k) of the element; the result is w J.
WEFT_FUNCTION real slopes(const Metric& metric, long element, int i, int j, int k, int n, real (&g)[9]) {
  real xr[3] = {}, xs[3] = {}, xt[3] = {};
  if (metric.maps == nullptr) {
    const long points = static_cast<long>(n) * n * n;
    const real* x = metric.places + element * 3 * points;
    for (int q = 0; q < n; ++q) {
      const real dr = metric.derivative[i * n + q], ds = metric.derivative[j * n + q],
                 dt = metric.derivative[k * n + q];
      WEFT_UNROLL
      for (int d = 0; d < 3; ++d) {
        xr[d] += dr * x[d * points + (k * n + j) * n + q];
        xs[d] += ds * x[d * points + (k * n + q) * n + i];
        xt[d] += dt * x[d * points + (q * n + j) * n + i];
      }
    }
  } else {
    trilinear_derivatives(metric.maps + element * 24, metric.nodes[i], metric.nodes[j], metric.nodes[k], xr, xs, xt);
  }
  cofactors_of(xr, xs, xt, real(1), g);
  const real jacobian = xr[0] * g[0] + xr[1] * g[1] + xr[2] * g[2];
  const real inverse = 1 / jacobian;
  WEFT_UNROLL
  for (int q = 0; q < 9; ++q) g[q] *= inverse;
  return metric.nodes[n + i] * metric.nodes[n + j] * metric.nodes[n + k] * jacobian;
}

// NaN is kept, whatever comes later.
WEFT_FUNCTION double larger(double a, double b) { return a > b || a != a ? a : b; }
WEFT_FUNCTION double smaller(double a, double b) { return a < b || a != a ? a : b; }

}  // namespace

// out [element][6]: the integrals of |omega|^2, S : S, (div u)^2, |grad u|^2 and |u|^2; the maximum of (div u)^2.
WEFT_KERNEL(flow_measures, measure_threads,
            (int n, Metric metric, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT u, long stride,
             double* WEFT_RESTRICT out)) {
  constexpr int count = 6;
  WEFT_SHARED(double, sums[count][measure_threads]);
  const long element = WEFT_BLOCK;
  const int face = n * n, points = n * face;
  const int* WEFT_RESTRICT at = index + element * points;
  WEFT_THREADS(thread, measure_threads) {
    double vorticity = 0, strain = 0, divergence = 0, all = 0, square = 0, largest = 0;
    for (int line = thread; line < face; line += measure_threads) {
      const int j = line % n, k = line / n;
      const int *row = at + line * n, *plane = at + k * face, *pillar = at + j * n;
      for (int i = 0; i < n; ++i) {
        real slope[3][3] = {};  // du_c/dr_a
        for (int q = 0; q < n; ++q) {
          const real dr = metric.derivative[i * n + q], ds = metric.derivative[j * n + q],
                     dt = metric.derivative[k * n + q];
          const real *r = u + row[q], *s = u + plane[q * n + i], *t = u + pillar[q * face + i];
          WEFT_UNROLL
          for (int c = 0; c < 3; ++c) {
            slope[c][0] += dr * r[c * stride];
            slope[c][1] += ds * s[c * stride];
            slope[c][2] += dt * t[c * stride];
          }
        }
        real a[9];
        const double wj = slopes(metric, element, i, j, k, n, a);
        double g[3][3];  // du_c/dx_d
        WEFT_UNROLL
        for (int c = 0; c < 3; ++c) {
          WEFT_UNROLL
          for (int d = 0; d < 3; ++d) g[c][d] = a[d] * slope[c][0] + a[3 + d] * slope[c][1] + a[6 + d] * slope[c][2];
        }
        WEFT_UNROLL
        for (int c = 0; c < 3; ++c) {
          const int d = (c + 1) % 3;
          const double value = u[c * stride + row[i]];
          square += wj * value * value;
          vorticity += wj * (g[c][d] - g[d][c]) * (g[c][d] - g[d][c]);
          strain += wj * (g[c][c] * g[c][c] + (g[c][d] + g[d][c]) * (g[c][d] + g[d][c]) / 2);
          all += wj * (g[c][0] * g[c][0] + g[c][1] * g[c][1] + g[c][2] * g[c][2]);
        }
        const double trace = g[0][0] + g[1][1] + g[2][2];
        divergence += wj * trace * trace;
        largest = larger(largest, trace * trace);
      }
    }
    sums[0][thread] = vorticity;
    sums[1][thread] = strain;
    sums[2][thread] = divergence;
    sums[3][thread] = all;
    sums[4][thread] = square;
    sums[5][thread] = largest;
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, measure_threads) {
    if (thread < count) {
      double sum = sums[thread][0];
      for (int t = 1; t < measure_threads; ++t)
        sum = thread == 5 ? larger(sum, sums[thread][t]) : sum + sums[thread][t];
      out[element * count + thread] = sum;
    }
  }
}

// out [element]: the maximum over the points of the sum over directions of |u . grad r_a| / (spacing of the points in
// r_a). inverse_spacing [n]
WEFT_KERNEL(flow_courant, measure_threads,
            (int n, Metric metric, const real* WEFT_RESTRICT inverse_spacing, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT u, long stride, double* WEFT_RESTRICT out)) {
  WEFT_SHARED(double, found[measure_threads]);
  const long element = WEFT_BLOCK;
  WEFT_THREADS(thread, measure_threads) {
    double largest = 0;
    for (int line = thread; line < n * n; line += measure_threads) {
      const int j = line % n, k = line / n;
      const int* row = index + (element * n * n + line) * n;
      for (int i = 0; i < n; ++i) {
        real a[9];
        slopes(metric, element, i, j, k, n, a);
        const real x = u[row[i]], y = u[stride + row[i]], z = u[2 * stride + row[i]];
        const double rate = fabs(a[0] * x + a[1] * y + a[2] * z) * inverse_spacing[i] +
                            fabs(a[3] * x + a[4] * y + a[5] * z) * inverse_spacing[j] +
                            fabs(a[6] * x + a[7] * y + a[8] * z) * inverse_spacing[k];
        largest = larger(largest, rate);
      }
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

// out [field][block][4]: the sums of m f and m f^2 over the entries of a block's chunk, with the mass m, and the
// minimum and the maximum of f.
WEFT_KERNEL(flow_extrema, measure_threads,
            (long count, long stride, int fields, long chunk, const real* WEFT_RESTRICT mass,
             const real* WEFT_RESTRICT values, double* WEFT_RESTRICT out, long blocks)) {
  WEFT_SHARED(double, sums[4][measure_threads]);
  const long begin = WEFT_BLOCK * chunk, end = begin + chunk < count ? begin + chunk : count;
  for (int field = 0; field < fields; ++field) {
    const real* WEFT_RESTRICT f = values + field * stride;
    WEFT_THREADS(thread, measure_threads) {
      double sum = 0, square = 0, low = f[begin], high = low;
      for (long p = begin + thread; p < end; p += measure_threads) {
        const double value = f[p], weighted = mass[p] * value;
        sum += weighted;
        square += weighted * value;
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
        out[(field * blocks + WEFT_BLOCK) * 4 + thread] = found;
      }
    }
    WEFT_BARRIER();
  }
}
