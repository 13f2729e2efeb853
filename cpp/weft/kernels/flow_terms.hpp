// The element terms of the incompressible Navier-Stokes equations on elements [first, first + count), before Z^T:
//   flow_gradient         (v, dp/dx_i) = w C_i . (D_r, D_s, D_t) p
//   flow_weak_divergence  (grad q, f) = D_r^T w C_r . f + D_s^T w C_s . f + D_t^T w C_t . f
//   flow_divergence       (q, div u)
//   flow_curl             (v, curl u)
//   flow_convect_skew     ((v, u . grad f) + (v, div(u f))) / 2 on the GLL points
// C_a = J grad r_a are the cofactors of dx/dr. By summation by parts W D = E - D^T W, E picking the ends of lines, so
// div(u f) in weak form is W D W^-1 applied to the flux w C . u f: `conservative` below.
//
// A thread has a column of points along t, WEFT_TILE_ELEMENTS elements per block. All but flow_convect_skew take lines
// along r and s through shared memory (pencils.hpp); there, layers pass through shared memory, in two buffers.
//
// Arrays: index [element][n^3] entry of a vector; vectors [field][stride]; out [field][out_stride] by points;
// derivative and conservative [n][n]; the metric: flow_metric.hpp.
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/flow_metric.hpp"
#include "weft/kernels/pencils.hpp"

namespace {

// What a thread works on: the column of points l = j n + i of an element, if there is one.
struct Place {
  int e, l;
  long element;  // of all
  bool live;
};
WEFT_FUNCTION Place place_of(int block, int thread, int each, int first, int count) {
  const int e = thread / each, l = thread % each;
  return {e, l, static_cast<long>(first) + block * tile + e, l < face && block * tile + e < count};
}

struct Lines {
  Splitting d;
  real points[16], weights[16];  // GLL nodes, which all threads take along t
};
constexpr int column_threads = tile * pencils;

// Of two chunks of layers, each takes pairs k and n - 1 - k, whose derivatives along t share their sums. n: none.
WEFT_FUNCTION constexpr int layer_of(int chunk, int k) {
  const int q = chunk * layers + k;
  return chunks == 1 || q >= n ? q : q % 2 == 0 ? q / 2 : n - 1 - q / 2;
}

// If there are two chunks, the second reads columns and the metric again, from a cache, to keep registers free.
WEFT_FUNCTION Metric again(const Metric& metric) {
  return chunks == 1 ? metric : Metric{weft_anew(metric.maps), metric.nodes, metric.stored};
}

// The metric at the layers of a chunk: use(k, layer, weight, c), where weight c is w C_r, w C_s, w C_t. Of an element
// with straight edges, C_r and C_s are linear along a column, and C_t is quadratic.
template <class Use>
WEFT_FUNCTION void along_column(const Metric& metric, const Lines& lines, long element, int l, int chunk,
                                const Use& use) {
  if (metric.maps == nullptr) {
    WEFT_UNROLL
    for (int k = 0; k < layers; ++k) {
      const int at = layer_of(chunk, k);
      if (at >= n) continue;
      real c[9];
      stored_cofactors<n>(metric, element, at * face + l, c);
      use(k, at, real(1), c);
    }
    return;
  }
  const LineMetric column = column_metric<n>(metric, element, l % n, l / n);
  WEFT_UNROLL
  for (int k = 0; k < layers; ++k) {
    const int at = layer_of(chunk, k);
    if (at >= n) continue;
    const real z = lines.points[at];
    real c[9];
    WEFT_UNROLL
    for (int i = 0; i < 3; ++i) {
      c[i] = column.b[0][i] + z * column.b[1][i];
      c[3 + i] = column.c[0][i] + z * column.c[1][i];
      c[6 + i] = column.a[0][i] + z * (column.a[1][i] + z * column.a[2][i]);
    }
    use(k, at, lines.weights[at], c);
  }
}

// How many of three fields pass through shared memory at once: all where a block has room for them (48 KiB), so that
// barriers and the metric are shared.
constexpr int together = chunks == 1 && tile * 3 * element_values * sizeof(real) <= 49152 ? 3 : 1;

// The derivatives of F fields at the layers of a chunk: use(thread, k, point, D_r, D_s, D_t, weight, c), where weight c
// is w C_r, w C_s, w C_t.
template <int F, class Use>
WEFT_FUNCTION void derivatives(int block, int first, int count, int chunk, const Metric& metric, const Lines& lines,
                               const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x, long stride,
                               real (&planes)[tile][F][element_values], const Use& use) {
  real along_t[WEFT_SLOTS(column_threads)][F][n];
  WEFT_THREADS(thread, column_threads) {
    const Place p = place_of(block, thread, pencils, first, count);
    WEFT_UNROLL
    for (int f = 0; f < F; ++f) {
      real u[n];
      gather_column(p.live, p.element, p.l, 0, n, chunk == 0 ? index : weft_anew(index), x + f * stride, u);
      differentiate<false>(lines.d, u, along_t[WEFT_SLOT(thread)][f]);
      const auto [r, s] = layers_of(planes[p.e][f], p.l);
      if (p.l < face) {
        WEFT_UNROLL
        for (int k = 0; k < layers; ++k)
          if (layer_of(chunk, k) < n) r[k * n] = s[k * s_layer] = u[layer_of(chunk, k)];
      }
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, column_threads) {
    WEFT_UNROLL
    for (int f = 0; f < F; ++f)
      transform_lines(planes[thread / pencils][f], thread % pencils,
                      [&](const real(&in)[n], real(&out)[n]) { differentiate<false>(lines.d, in, out); });
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, column_threads) {
    const Place p = place_of(block, thread, pencils, first, count);
    if (p.live) {
      const Layers<const real> own = layers_of<const real>(planes[p.e][0], p.l);
      along_column(again(metric), lines, p.element, p.l, chunk, [&](int k, int at, real w, const real(&c)[9]) {
        real r[F], s[F], t[F];
        WEFT_UNROLL
        for (int f = 0; f < F; ++f) {
          r[f] = own.r[f * element_values + k * n];
          s[f] = own.s[f * element_values + k * s_layer];
          t[f] = along_t[WEFT_SLOT(thread)][f][at];
        }
        use(thread, k, p.element * points + at * face + p.l, r, s, t, w, c);
      });
    }
  }
  // No barrier: a thread's next stores go where it alone has just read.
}

// By order, for how many blocks per multiprocessor each is compiled, as registers per thread, found by trying.
struct Budgets {
  int gradient, divergence, curl, weak_divergence;
};
constexpr Budgets budgets_double[] = {
    {72, 72, 96, sm_80 ? 72 : 56},                                 // N = 1
    {72, 80, 96, 80},                                              // 2
    {72, 96, 128, 80},                                             // 3
    {80, 112, 128, 112},                                           // 4
    {80, 112, 112, 96},                                            // 5
    {96, 96, 112, 96},                                             // 6
    {96, 128, 128, 96},                                            // 7
    {112, 128, 144, 128},                                          // 8
    {sm_100 ? 112 : 96, 96, 112, 96},                              // 9
    {144, 96, sm_100 ? 144 : 112, 96},                             // 10
    {144, sm_90 ? 96 : 112, sm_90 ? 112 : 144, sm_80 ? 112 : 96},  // 11
    {255, sm_90 ? 96 : 128, 255, sm_100 ? 128 : 96},               // 12
    {168, sm_100 ? 168 : 112, 168, 112},                           // 13
    {sm_100 ? 144 : 96, sm_100 ? 144 : 96, 144, 96},               // 14
    {sm_100 ? 144 : 96, sm_90 ? 96 : 144, 144, 96},                // 15
};
constexpr Budgets budgets_float[] = {
    {56, 56, 56, 56},                              // N = 1
    {56, 72, 72, 56},                              // 2
    {56, 56, 56, 56},                              // 3
    {56, 56, 64, 56},                              // 4
    {56, 56, 64, sm_80 ? 72 : 56},                 // 5
    {64, 56, 64, 64},                              // 6
    {56, 56, 72, 56},                              // 7
    {64, 64, 72, 80},                              // 8
    {64, 64, 80, 96},                              // 9
    {64, sm_80 ? 112 : 80, 96, 96},                // 10
    {64, 96, 96, sm_80 ? 112 : 96},                // 11
    {72, 96, sm_80 ? 128 : 96, 96},                // 12
    {sm_100 ? 80 : 64, 112, 112, 64},              // 13
    {sm_100 ? 96 : 72, 96, 96, sm_100 ? 96 : 72},  // 14
    {72, 96, 96, 72},                              // 15
};
constexpr Budgets budgets = sizeof(real) == 8 ? budgets_double[WEFT_N - 1] : budgets_float[WEFT_N - 1];

}  // namespace

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<column_threads, budgets.gradient>)
WEFT_KERNEL(flow_gradient, column_threads,
            (int first, int count, Metric metric, Lines lines, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, real* WEFT_RESTRICT out, long out_stride)) {
  WEFT_SHARED(real, planes[tile][1][element_values]);
  WEFT_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk)
    derivatives(
        WEFT_BLOCK, first, count, chunk, metric, lines, index, x, 0, planes,
        [&](int, int, long p, const real(&r)[1], const real(&s)[1], const real(&t)[1], real w, const real(&c)[9]) {
          WEFT_UNROLL
          for (int i = 0; i < 3; ++i)
            out[i * out_stride + p] = c[i] * (w * r[0]) + c[3 + i] * (w * s[0]) + c[6 + i] * (w * t[0]);
        });
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<column_threads, budgets.divergence>)
WEFT_KERNEL(flow_divergence, column_threads,
            (int first, int count, Metric metric, Lines lines, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, long stride, real* WEFT_RESTRICT out)) {
  WEFT_SHARED(real, planes[tile][together][element_values]);
  real sums[WEFT_SLOTS(column_threads)][layers];
  WEFT_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WEFT_UNROLL
    for (int g = 0; g < 3; g += together)
      derivatives(WEFT_BLOCK, first, count, chunk, metric, lines, index, x + g * stride, stride, planes,
                  [&](int thread, int k, long p, const real(&r)[together], const real(&s)[together],
                      const real(&t)[together], real w, const real(&c)[9]) {
                    real sum = g == 0 ? real(0) : sums[WEFT_SLOT(thread)][k];
                    WEFT_UNROLL
                    for (int f = 0; f < together; ++f)
                      sum = sum + c[g + f] * r[f] + c[3 + g + f] * s[f] + c[6 + g + f] * t[f];
                    if (g + together < 3)
                      sums[WEFT_SLOT(thread)][k] = sum;
                    else
                      out[p] = w * sum;
                  });
  }
}

// curl u = sum_a C_a x D_a u. Component f of u is in components f + 1 and f + 2 of the result, which are stored as soon
// as they are complete.
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<column_threads, budgets.curl>)
WEFT_KERNEL(flow_curl, column_threads,
            (int first, int count, Metric metric, Lines lines, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, long stride, real* WEFT_RESTRICT out, long out_stride)) {
  WEFT_SHARED(real, planes[tile][together][element_values]);
  real sums[WEFT_SLOTS(column_threads)][layers][3];
  WEFT_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WEFT_UNROLL
    for (int g = 0; g < 3; g += together)
      derivatives(WEFT_BLOCK, first, count, chunk, metric, lines, index, x + g * stride, stride, planes,
                  [&](int thread, int k, long p, const real(&r)[together], const real(&s)[together],
                      const real(&t)[together], real w, const real(&c)[9]) {
                    real(&sum)[3] = sums[WEFT_SLOT(thread)][k];
                    WEFT_UNROLL
                    for (int f = 0; f < together; ++f) {
                      const int a = (g + f + 1) % 3, b = (g + f + 2) % 3;
                      const real to_a = c[b] * r[f] + c[3 + b] * s[f] + c[6 + b] * t[f];
                      const real from_b = c[a] * r[f] + c[3 + a] * s[f] + c[6 + a] * t[f];
                      sum[a] = g + f == 0 ? to_a : sum[a] + to_a;
                      sum[b] = g + f < 2 ? -from_b : sum[b] - from_b;
                      if (g + f > 0) out[a * out_stride + p] = w * sum[a];
                      if (g + f == 2) out[b * out_stride + p] = w * sum[b];
                    }
                  });
  }
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<column_threads, budgets.weak_divergence>)
WEFT_KERNEL(flow_weak_divergence, column_threads,
            (int first, int count, Metric metric, Lines lines, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, long stride, real* WEFT_RESTRICT out)) {
  WEFT_SHARED(real, planes[tile][element_values]);
  real along_t[WEFT_SLOTS(column_threads)][n];
  WEFT_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WEFT_THREADS(thread, column_threads) {
      const Place p = place_of(WEFT_BLOCK, thread, pencils, first, count);
      if (p.live) {
        const int* WEFT_RESTRICT own = (chunk == 0 ? index : weft_anew(index)) + p.element * points + p.l;
        const Layers<real> to = layers_of(planes[p.e], p.l);
        real flux[n];
        // Along t all layers are wanted at once. Of two chunks, the second reads its layers again, from a cache.
        WEFT_UNROLL
        for (int part = chunk; part < (chunk == 0 ? chunks : chunk + 1); ++part)
          along_column(metric, lines, p.element, p.l, part, [&](int k, int at, real w, const real(&c)[9]) {
            const long entry = own[at * face];
            const real u = x[entry], v = x[stride + entry], z = x[2 * stride + entry];
            if (part == chunk) {
              to.r[k * n] = w * dot(c, u, v, z);
              to.s[k * s_layer] = w * dot(c + 3, u, v, z);
            }
            flux[at] = w * dot(c + 6, u, v, z);
          });
        if (chunk == 0) differentiate<true>(lines.d, flux, along_t[WEFT_SLOT(thread)]);
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, column_threads) {
      const int e = thread / pencils;
      if (WEFT_BLOCK * tile + e < count)
        transform_lines(planes[e], thread % pencils,
                        [&](const real(&in)[n], real(&out)[n]) { differentiate<true>(lines.d, in, out); });
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, column_threads) {
      const Place p = place_of(WEFT_BLOCK, thread, pencils, first, count);
      if (p.live) {
        const auto [r, s] = layers_of<const real>(planes[p.e], p.l);
        WEFT_UNROLL
        for (int k = 0; k < layers; ++k) {
          const int at = layer_of(chunk, k);
          if (at < n)
            out[p.element * points + at * face + p.l] = r[k * n] + s[k * s_layer] + along_t[WEFT_SLOT(thread)][at];
        }
      }
    }
    // No barrier: a thread's next stores go where it alone has just read.
  }
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS 1
WEFT_KERNEL(flow_convect_skew, tile* face,
            (int first, int count, Metric metric, const real* WEFT_RESTRICT derivative,
             const real* WEFT_RESTRICT conservative, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT u,
             const real* WEFT_RESTRICT fields, int field_count, long stride, real* WEFT_RESTRICT out,
             long out_stride)) {
  WEFT_SHARED(real, d[n][n]);   // d[m][i] = D[i][m]
  WEFT_SHARED(real, dc[n][n]);  // of the conservative form, in the same way
  WEFT_SHARED(real, along_t[tile][n][face]);
  WEFT_SHARED(real, plane[2][3][tile][face]);  // f, its fluxes along r and s
  real column[WEFT_SLOTS(tile * face)][n];
  WEFT_THREADS(thread, tile * face) {
    if (thread < face) {
      d[thread % n][thread / n] = derivative[thread];
      dc[thread % n][thread / n] = conservative[thread];
    }
  }
  for (int field = 0; field < field_count; ++field) {
    const real* WEFT_RESTRICT f = fields + field * stride;
    WEFT_THREADS(thread, tile * face) {
      const Place p = place_of(WEFT_BLOCK, thread, face, first, count);
      WEFT_UNROLL
      for (int k = 0; k < n; ++k)
        column[WEFT_SLOT(thread)][k] = p.live ? f[index[p.element * points + k * face + p.l]] : real(0);
      WEFT_NO_UNROLL
      for (int k = 0; k < n; ++k) {
        real flux = 0;
        if (p.live) {
          const long at = index[p.element * points + k * face + p.l];
          real c[9];
          cofactors<n>(metric, p.element, p.l % n, p.l / n, k, c);
          flux = f[at] * dot(c + 6, u[at], u[stride + at], u[2 * stride + at]);
        }
        along_t[p.e][k][p.l] = flux;
      }
    }
    WEFT_NO_UNROLL
    for (int k = 0; k < n; ++k) {
      const int buffer = (field * n + k) % 2;
      real velocity[WEFT_SLOTS(tile * face)][3];
      WEFT_THREADS(thread, tile * face) {
        const Place p = place_of(WEFT_BLOCK, thread, face, first, count);
        if (p.live) {
          const long at = index[p.element * points + k * face + p.l];
          const real x = u[at], y = u[stride + at], z = u[2 * stride + at], own = f[at];
          real c[9];
          cofactors<n>(metric, p.element, p.l % n, p.l / n, k, c);
          WEFT_UNROLL
          for (int a = 0; a < 3; ++a) velocity[WEFT_SLOT(thread)][a] = dot(c + 3 * a, x, y, z);
          plane[buffer][0][p.e][p.l] = own;
          plane[buffer][1][p.e][p.l] = velocity[WEFT_SLOT(thread)][0] * own;
          plane[buffer][2][p.e][p.l] = velocity[WEFT_SLOT(thread)][1] * own;
        }
      }
      WEFT_BARRIER();
      WEFT_THREADS(thread, tile * face) {
        const Place p = place_of(WEFT_BLOCK, thread, face, first, count);
        if (p.live) {
          real r = 0, s = 0, t = 0, flux = 0;
          WEFT_UNROLL
          for (int q = 0; q < n; ++q) {
            r += d[q][p.l % n] * plane[buffer][0][p.e][p.l / n * n + q];
            s += d[q][p.l / n] * plane[buffer][0][p.e][q * n + p.l % n];
            t += d[q][k] * column[WEFT_SLOT(thread)][q];
            flux += dc[q][p.l % n] * plane[buffer][1][p.e][p.l / n * n + q] +
                    dc[q][p.l / n] * plane[buffer][2][p.e][q * n + p.l % n] + dc[q][k] * along_t[p.e][q][p.l];
          }
          const real* velocity_here = velocity[WEFT_SLOT(thread)];
          out[field * out_stride + p.element * points + k * face + p.l] =
              real(0.5) * (dot(velocity_here, r, s, t) + flux);
        }
      }
    }
  }
}
