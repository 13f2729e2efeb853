// Integrals and extrema of a flow, by element; the host adds them up. Sums and differences are kept in double for both
// precisions.
//   flow_measures   of the velocity and its gradient
//   flow_courant    of the velocity and the spacing of the points
//   flow_extrema    of any vectors, by chunks of entries
//
// They are no large part of a step, so that one instance does for all orders: n = N + 1 <= 16 is an argument. A block
// takes an element, its threads take points, consecutive ones along r. Arrays: index [element][n^3] entry of a vector;
// vectors [field][stride]; metric as maps [element][24] (x = sum_c maps[c] r^a s^b t^c in the order 1, r, s, t, rs, rt,
// st, rst, three components each), or where maps is null as places [element][3][n^3], the coordinates of the points,
// which are differentiated anew; nodes [points, then weights]; transposed [n][n], the transposed derivative.
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/trilinear.hpp"

namespace {

using real = WEFT_REAL;
constexpr int measure_threads = 256;
// On GPUs, partial results are kept one per thread, and as many points as a few blocks have room for; on the host,
// fewer results, and the points of an element.
constexpr bool on_host = WEFT_SLOTS(2) == 2;
constexpr int lanes = 32, partials = on_host ? lanes : measure_threads;
constexpr int most = 16, kept_points = on_host ? most * most * most : 2 * most * most;

struct Metric {
  const real* maps;
  const real* nodes;
  const real* places;
  const real* transposed;
};

// g = grad r_a, three components each, at point (i, j, k) of the element; the result is w J.
WEFT_FUNCTION real slopes(const Metric& metric, long element, int i, int j, int k, int n, real (&g)[9]) {
  real xr[3] = {}, xs[3] = {}, xt[3] = {};
  if (metric.maps == nullptr) {
    const long points = static_cast<long>(n) * n * n;
    const real* x = metric.places + element * 3 * points;
    WEFT_NO_UNROLL
    for (int q = 0; q < n; ++q) {
      const real *row = metric.transposed + q * n, dr = row[i], ds = row[j], dt = row[k];
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
  const real inverse = weft_reciprocal(jacobian);
  WEFT_UNROLL
  for (int q = 0; q < 9; ++q) g[q] *= inverse;
  return metric.nodes[n + i] * metric.nodes[n + j] * metric.nodes[n + k] * jacobian;
}

// The place of point p of an element. A multiplication instead of a division: inverse = ceil(2^16 / n) is too large by
// less than one, which does not matter for p < 2^16 / n, and n <= 16.
struct Place {
  int i, j, k;
};
WEFT_FUNCTION int inverse_of(int n) { return (65535 + n) / n; }
WEFT_FUNCTION Place place_of(int p, int n, int inverse) {
  const int line = p * inverse >> 16, k = line * inverse >> 16;
  return {p - line * n, line - k * n, k};
}

// NaN is kept, whatever comes later.
WEFT_FUNCTION double larger(double a, double b) { return a > b || a != a ? a : b; }
WEFT_FUNCTION double smaller(double a, double b) { return a < b || a != a ? a : b; }

// out[q] = all of values[q], combined by combine(q, a, b).
template <int count, class Combine>
WEFT_FUNCTION void reduce(double (&values)[count][partials], const Combine& combine, double* out) {
  static_assert(count * lanes <= measure_threads);
  WEFT_BARRIER();
  WEFT_THREADS(t, count * lanes) {
    if (t < count * lanes) {
      const int q = t / lanes;
      double* from = values[q] + t % lanes;
      double found = from[0];
      WEFT_UNROLL
      for (int other = lanes; other < partials; other += lanes) found = combine(q, found, from[other]);
      from[0] = found;
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(q, count) {
    if (q < count) {
      double found = values[q][0];
      for (int lane = 1; lane < lanes; ++lane) found = combine(q, found, values[q][lane]);
      out[q] = found;
    }
  }
}

}  // namespace

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<measure_threads, (sm_80 ? 128 : 80)>)

// out [element][6]: the integrals of |omega|^2, S : S, (div u)^2, |grad u|^2 and |u|^2; the maximum of (div u)^2. As
// many planes at a time as have room are kept in shared memory; up to n = 8, this is all of an element.
WEFT_KERNEL(flow_measures, measure_threads,
            (int n, Metric metric, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT u, long stride,
             double* WEFT_RESTRICT out)) {
  constexpr int count = 6;
  WEFT_SHARED(real, transposed[most * most]);
  WEFT_SHARED(real, values[3][kept_points]);
  WEFT_SHARED(double, sums[count][partials]);
  const long element = WEFT_BLOCK;
  const int face = n * n, points = n * face, together = kept_points / face * face, inverse = inverse_of(n);
  const int* WEFT_RESTRICT at = index + element * points;
  double mine[WEFT_SLOTS(lanes)][count] = {};
  WEFT_STRIDED(p, face, measure_threads) transposed[p] = metric.transposed[p];
  metric.transposed = transposed;
  for (int first = 0; first < points; first += together) {
    const int size = points - first < together ? points - first : together;
    WEFT_STRIDED(p, size, measure_threads) {
      const real* from = u + at[first + p];
      WEFT_UNROLL
      for (int c = 0; c < 3; ++c) values[c][p] = from[c * stride];
    }
    WEFT_BARRIER();
    WEFT_STRIDED(p, size, measure_threads) {
      const auto [i, j, k] = place_of(first + p, n, inverse);
      const int pillar = j * n + i;
      real slope[3][3] = {};  // du_c/dr_a
      for (int q = 0; q < n; ++q) {
        const real *row = transposed + q * n, dr = row[i], ds = row[j], dt = row[k];
        const int own = q * face - first;
        real t[3];
        if (on_host || (own >= 0 && own < size)) {
          WEFT_UNROLL
          for (int c = 0; c < 3; ++c) t[c] = values[c][own + pillar];
        } else {
          const real* from = u + at[q * face + pillar];
          WEFT_UNROLL
          for (int c = 0; c < 3; ++c) t[c] = from[c * stride];
        }
        WEFT_UNROLL
        for (int c = 0; c < 3; ++c) {
          slope[c][0] += dr * values[c][p - i + q];
          slope[c][1] += ds * values[c][p + (q - j) * n];
          slope[c][2] += dt * t[c];
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
      double vorticity = 0, strain = 0, all = 0, square = 0;
      WEFT_UNROLL
      for (int c = 0; c < 3; ++c) {
        const int d = (c + 1) % 3;
        const double value = values[c][p];
        square += value * value;
        vorticity += (g[c][d] - g[d][c]) * (g[c][d] - g[d][c]);
        strain += g[c][c] * g[c][c] + (g[c][d] + g[d][c]) * (g[c][d] + g[d][c]) / 2;
        all += g[c][0] * g[c][0] + g[c][1] * g[c][1] + g[c][2] * g[c][2];
      }
      const double trace = g[0][0] + g[1][1] + g[2][2];
      double* const to = mine[WEFT_SLOT(p % lanes)];
      to[0] += wj * vorticity;
      to[1] += wj * strain;
      to[2] += wj * trace * trace;
      to[3] += wj * all;
      to[4] += wj * square;
      to[5] = larger(to[5], trace * trace);
    }
    WEFT_BARRIER();
  }
  WEFT_THREADS(thread, partials) {
    WEFT_UNROLL
    for (int q = 0; q < count; ++q) sums[q][thread] = mine[WEFT_SLOT(thread)][q];
  }
  reduce(sums, [](int q, double x, double y) { return q == 5 ? larger(x, y) : x + y; }, out + element * count);
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<measure_threads, (sm_100 ? 128 : 64)>)

// out [element]: the maximum over the points of the sum over directions of |u . grad r_a| / (spacing of the points in
// r_a). inverse_spacing [n]
WEFT_KERNEL(flow_courant, measure_threads,
            (int n, Metric metric, const real* WEFT_RESTRICT inverse_spacing, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT u, long stride, double* WEFT_RESTRICT out)) {
  WEFT_SHARED(double, found[1][partials]);
  const long element = WEFT_BLOCK;
  const int points = n * n * n, inverse = inverse_of(n);
  WEFT_THREADS(thread, partials) { found[0][thread] = 0; }
  WEFT_STRIDED(p, points, measure_threads) {
    const auto [i, j, k] = place_of(p, n, inverse);
    const real* from = u + index[element * points + p];
    const real x = from[0], y = from[stride], z = from[2 * stride];
    real a[9];
    slopes(metric, element, i, j, k, n, a);
    const double rate = fabs(a[0] * x + a[1] * y + a[2] * z) * inverse_spacing[i] +
                        fabs(a[3] * x + a[4] * y + a[5] * z) * inverse_spacing[j] +
                        fabs(a[6] * x + a[7] * y + a[8] * z) * inverse_spacing[k];
    double& largest = found[0][p % partials];
    largest = larger(largest, rate);
  }
  reduce(found, [](int, double x, double y) { return larger(x, y); }, out + element);
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS 1

// out [field][block][4]: the sums of m f and m f^2 over the entries of a block's chunk, with the mass m, and the
// minimum and the maximum of f.
WEFT_KERNEL(flow_extrema, measure_threads,
            (long count, long stride, int fields, long chunk, const real* WEFT_RESTRICT mass,
             const real* WEFT_RESTRICT values, double* WEFT_RESTRICT out, long blocks)) {
  WEFT_SHARED(double, sums[4][partials]);
  const long begin = WEFT_BLOCK * chunk, end = begin + chunk < count ? begin + chunk : count;
  for (int field = 0; field < fields; ++field) {
    const real* WEFT_RESTRICT f = values + field * stride;
    WEFT_THREADS(thread, partials) {
      double sum = 0, square = 0, low = f[begin], high = low;
      for (long p = begin + thread; p < end; p += partials) {
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
    const auto combine = [](int q, double x, double y) {
      if (q == 2) return smaller(x, y);
      return q == 3 ? larger(x, y) : x + y;
    };
    reduce(sums, combine, out + (field * blocks + WEFT_BLOCK) * 4);
    WEFT_BARRIER();
  }
}
