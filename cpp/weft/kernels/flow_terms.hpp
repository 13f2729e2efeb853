// The element terms of the incompressible Navier-Stokes equations on elements [first, first + count), before Z^T:
//   flow_gradient         (v, dp/dx_i) = w C_i . (D_r, D_s, D_t) p
//   flow_weak_divergence  (grad q, f) = D_r^T w C_r . f + D_s^T w C_s . f + D_t^T w C_t . f
//   flow_divergence       (q, div u)
//   flow_curl             (v, curl u)
//   flow_convect_skew     ((v, u . grad f) + (v, div(u f))) / 2 on the GLL points
// C_a = J grad r_a are the cofactors of dx/dr. Summation by parts says W D = E - D^T W, where E picks the ends of
// lines. The weak form of div(u f) is therefore W D W^-1, `conservative` below, applied to the flux w C . u f.
//
// A block has WEFT_TILE_ELEMENTS elements, and a thread a column of points along t. Lines along r and s pass through
// shared memory (pencils.hpp).
//
// Arrays: index [element][n^3] has the entry of each point in a vector; vectors are [field][stride]; out is
// [field][out_stride], by points. The metric is described in flow_metric.hpp.
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/flow_metric.hpp"
#include "weft/kernels/pencils.hpp"

namespace {

// The column of points that a thread works on: column l = j n + i of element e of the block, which is number `element`
// of all elements. Threads without a column are not `live`.
struct Place {
  int e, l;
  long element;
  bool live;
};
WEFT_FUNCTION Place place_of(int block, int thread, int each, int first, int count) {
  const int e = thread / each, l = thread % each;
  return {e, l, static_cast<long>(first) + block * tile + e, l < face && block * tile + e < count};
}

struct Lines {
  Splitting d;
  real points[16], weights[16];  // GLL nodes along t, the same for all threads
};
constexpr int column_threads = tile * pencils;

// The layer of an element that is layer k of a chunk; n or more if there is none. Each of two chunks consists of pairs
// of layers q and n - 1 - q, whose derivatives along t share their sums.
WEFT_FUNCTION constexpr int layer_of(int chunk, int k) {
  const int q = chunk * layers + k;
  return chunks == 1 || q >= n ? q : q % 2 == 0 ? q / 2 : n - 1 - q / 2;
}

// To keep registers free, the second of two chunks reads columns and the metric again, from a cache.
WEFT_FUNCTION Metric again(const Metric& metric) {
  return chunks == 1 ? metric : Metric{weft_anew(metric.maps), metric.nodes, metric.stored};
}

// c at point z of a column of an element with straight edges: C_r and C_s are linear, and C_t is quadratic.
WEFT_FUNCTION void column_cofactors(const LineMetric& column, real z, real (&c)[9]) {
  WEFT_UNROLL
  for (int i = 0; i < 3; ++i) {
    c[i] = column.b[0][i] + z * column.b[1][i];
    c[3 + i] = column.c[0][i] + z * column.c[1][i];
    c[6 + i] = column.a[0][i] + z * (column.a[1][i] + z * column.a[2][i]);
  }
}

// Calls use(k, layer, weight, c) at the layers of a chunk, where weight c is w C_r, w C_s, w C_t.
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
    real c[9];
    column_cofactors(column, lines.points[at], c);
    use(k, at, lines.weights[at], c);
  }
}

// For the lines of how many fields the shared memory of a block (48 KiB) has room.
constexpr int room = 49152 / (tile * element_values * sizeof(real));

// How many of three fields pass through shared memory at once. Where all fit, they share barriers and the metric.
constexpr int together = chunks == 1 && room >= 3 ? 3 : 1;

// Calls use(thread, k, point, D_r, D_s, D_t, weight, c) with the derivatives of F fields at the layers of a chunk,
// where weight c is w C_r, w C_s, w C_t.
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

// Registers per thread, by order: they say for how many blocks per multiprocessor each kernel is compiled. Found by
// trying.
struct Budgets {
  int gradient, divergence, curl, weak_divergence, convect_skew;
};
constexpr Budgets budgets_double[] = {
    {72, 72, 96, sm_80 ? 72 : 56, 72},                                  // N = 1
    {72, 80, 96, 80, 80},                                               // 2
    {72, 96, 128, 80, 96},                                              // 3
    {80, 112, 128, 112, 112},                                           // 4
    {80, 112, 112, 96, 112},                                            // 5
    {96, 96, 112, 96, sm_100 ? 144 : 112},                              // 6
    {96, 128, 128, 96, sm_100 ? 255 : 128},                             // 7
    {112, 128, 144, 128, sm_100 ? 255 : 168},                           // 8
    {sm_100 ? 112 : 96, 96, 112, 96, sm_100 ? 255 : 144},               // 9
    {144, 96, sm_100 ? 144 : 112, 96, sm_100 ? 255 : 168},              // 10
    {144, sm_90 ? 96 : 112, sm_90 ? 112 : 144, sm_80 ? 112 : 96, 255},  // 11
    {255, sm_90 ? 96 : 128, 255, sm_100 ? 128 : 96, 255},               // 12
    {168, sm_100 ? 168 : 112, 168, 112, 255},                           // 13
    {sm_100 ? 144 : 96, sm_100 ? 144 : 96, 144, 96, 255},               // 14
    {sm_100 ? 144 : 96, sm_90 ? 96 : 144, 144, 96, 255},                // 15
};
constexpr Budgets budgets_float[] = {
    {56, 56, 56, 56, 56},                               // N = 1
    {56, 72, 72, 56, 56},                               // 2
    {56, 56, 56, 56, 64},                               // 3
    {56, 56, 64, 56, 64},                               // 4
    {56, 56, 64, sm_80 ? 72 : 56, 64},                  // 5
    {64, 56, 64, 64, 96},                               // 6
    {56, 56, 72, 56, sm_90 ? 80 : 72},                  // 7
    {64, 64, 72, 80, 112},                              // 8
    {64, 64, 80, 96, 96},                               // 9
    {64, sm_80 ? 112 : 80, 96, 96, 112},                // 10
    {64, 96, 96, sm_80 ? 112 : 96, 144},                // 11
    {72, 96, sm_80 ? 128 : 96, 96, 255},                // 12
    {sm_100 ? 80 : 64, 112, 112, 64, 168},              // 13
    {sm_100 ? 96 : 72, 96, 96, sm_100 ? 96 : 72, 255},  // 14
    {72, 96, 96, 72, 255},                              // 15
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
                  [&]([[maybe_unused]] int thread, int k, long p, const real(&r)[together], const real(&s)[together],
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

// curl u = sum_a C_a x D_a u. Component f of u contributes to components f + 1 and f + 2 of the result. These are
// stored as soon as they are complete.
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
                  [&]([[maybe_unused]] int thread, int k, long p, const real(&r)[together], const real(&s)[together],
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
        // The derivative along t needs all layers at once. The second of two chunks reads its layers again, from a
        // cache.
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

namespace {

// Both forms along a line: velocity D f + M (velocity f). Rows come in pairs, so that few values live at a time.
WEFT_FUNCTION void convect_line(const Splitting& advective, const Splitting& conservative, const real (&velocity)[n],
                                const real (&f)[n], real (&out)[n]) {
  real flux[n], e[rows], o[rows], flux_e[rows], flux_o[rows];
  WEFT_UNROLL
  for (int m = 0; m < n; ++m) flux[m] = velocity[m] * f[m];
  split(flux, flux_e, flux_o);
  split(f, e, o);
  WEFT_UNROLL
  for (int i = 0; i < rows; ++i) {
    real a = 0, b = 0, flux_a = 0, flux_b = 0;
    WEFT_UNROLL
    for (int m = 0; m < rows && i < half; ++m) {
      a += advective.even[i * rows + m] * e[m];
      flux_a += conservative.even[i * rows + m] * flux_e[m];
    }
    WEFT_UNROLL
    for (int m = 0; m < half; ++m) {
      b += advective.odd[i * half + m] * o[m];
      flux_b += conservative.odd[i * half + m] * flux_o[m];
    }
    out[i] = velocity[i] * (b + a) + (flux_b + flux_a);
    if (i < half) out[n - 1 - i] = velocity[n - 1 - i] * (b - a) + (flux_b - flux_a);
  }
}

// w C_t . u of a column, at any layer: from the stored metric, or from that of the column of a straight element.
struct VelocityAlongT {
  bool straight;
  const real* stored;
  LineMetric column;
};
WEFT_FUNCTION VelocityAlongT velocity_along_t(const Metric& metric, long element, int l) {
  VelocityAlongT along{metric.maps != nullptr, metric.stored + (element * 9 + 6) * points + l, {}};
  if (along.straight) along.column = column_metric<n>(metric, element, l % n, l / n);
  return along;
}
WEFT_FUNCTION real velocity_at(const VelocityAlongT& along, const Lines& lines, int at, real x, real y, real z) {
  if (!along.straight) {
    const real* c = along.stored + at * face;
    return c[0] * x + c[points] * y + c[2 * points] * z;
  }
  real c[9];
  column_cofactors(along.column, lines.points[at], c);
  return lines.weights[at] * dot(c + 6, x, y, z);
}

// The same along t, at the layers of a chunk, from velocity and f there. If there are two chunks, the layers of both
// are needed: to keep registers free, values(layer, f, velocity) finds them pair by pair.
template <int size, class Values>
WEFT_FUNCTION void convect_column(const Splitting& advective, const Splitting& conservative, int chunk,
                                  const real (&velocity)[size], const real (&f)[size], const Values& values,
                                  real (&out)[size]) {
  if constexpr (size == n) {
    convect_line(advective, conservative, velocity, f, out);
    return;
  }
  constexpr int some = layers / 2 + 1;  // at most so many rows have layers of the chunk
  const int first_row = chunk * layers / 2;
  real a[some] = {}, b[some] = {}, flux_a[some] = {}, flux_b[some] = {};
  WEFT_NO_UNROLL
  for (int m = 0; m < half; ++m) {
    real g[2], v[2];
    values(m, g[0], v[0]);
    values(n - 1 - m, g[1], v[1]);
    const real e = g[0] + g[1], o = g[0] - g[1];
    const real flux_e = v[0] * g[0] + v[1] * g[1], flux_o = v[0] * g[0] - v[1] * g[1];
    WEFT_UNROLL
    for (int q = 0; q < some; ++q) {
      const int i = first_row + q;
      if (i < half) {
        a[q] += advective.even[i * rows + m] * e;
        flux_a[q] += conservative.even[i * rows + m] * flux_e;
      }
      if (i < rows) {
        b[q] += advective.odd[i * half + m] * o;
        flux_b[q] += conservative.odd[i * half + m] * flux_o;
      }
    }
  }
  if (n % 2 == 1) {
    real g, v;
    values(half, g, v);
    WEFT_UNROLL
    for (int q = 0; q < some && first_row + q < half; ++q) {
      a[q] += advective.even[(first_row + q) * rows + half] * g;
      flux_a[q] += conservative.even[(first_row + q) * rows + half] * (v * g);
    }
  }
  WEFT_UNROLL
  for (int k = 0; k < layers; ++k) {
    const int at = layer_of(chunk, k);
    if (at >= n) continue;
    const int q = (at < rows ? at : n - 1 - at) - first_row;
    out[k] = at < rows ? velocity[k] * (b[q] + a[q]) + (flux_b[q] + flux_a[q])
                       : velocity[k] * (b[q] - a[q]) + (flux_b[q] - flux_a[q]);
  }
}

// The velocity along lines stays in shared memory, in planes of its own, if these fit. Otherwise it passes through
// those of f once, and stays in registers of the threads that have the lines.
constexpr bool velocity_shared = room >= 2;
constexpr int velocity_planes = velocity_shared ? 1 : 0;

}  // namespace

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<column_threads, budgets.convect_skew>)
WEFT_KERNEL(flow_convect_skew, column_threads,
            (int first, int count, Metric metric, Lines lines, Splitting conservative, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT u, const real* WEFT_RESTRICT fields, int field_count, long stride,
             real* WEFT_RESTRICT out, long out_stride)) {
  WEFT_SHARED(real, planes[velocity_planes + 1][tile][element_values]);
  real velocity_t[WEFT_SLOTS(column_threads)][layers];
  real velocity_lines[WEFT_SLOTS(column_threads)][lines_per_thread][n];  // unless in shared memory
  real sums[WEFT_SLOTS(column_threads)][layers];
  WEFT_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WEFT_THREADS(thread, column_threads) {
      const Place p = place_of(WEFT_BLOCK, thread, pencils, first, count);
      if (p.live) {
        const int* WEFT_RESTRICT own = (chunk == 0 ? index : weft_anew(index)) + p.element * points + p.l;
        const Layers<real> to = layers_of(planes[velocity_planes][p.e], p.l);
        along_column(again(metric), lines, p.element, p.l, chunk, [&](int k, int at, real w, const real(&c)[9]) {
          const long entry = own[at * face];
          const real x = w * u[entry], y = w * u[stride + entry], z = w * u[2 * stride + entry];
          to.r[k * n] = dot(c, x, y, z);
          to.s[k * s_layer] = dot(c + 3, x, y, z);
          velocity_t[WEFT_SLOT(thread)][k] = dot(c + 6, x, y, z);
        });
      }
    }
    if (!velocity_shared) {
      WEFT_BARRIER();
      WEFT_THREADS(thread, column_threads) {
        const int e = thread / pencils;
        if (WEFT_BLOCK * tile + e < count)
          each_line(thread % pencils, [&](int q, int begin, int step) {
            WEFT_UNROLL
            for (int m = 0; m < n; ++m) velocity_lines[WEFT_SLOT(thread)][q][m] = planes[0][e][begin + m * step];
          });
      }
      WEFT_BARRIER();
    }
    // weft_anew keeps the places of threads from staying in registers from one field to the next.
    WEFT_NO_UNROLL
    for (int field = 0; field < field_count; ++field) {
      WEFT_THREADS(thread, column_threads) {
        const Place p = place_of(WEFT_BLOCK, weft_anew(thread), pencils, first, count);
        if (p.live) {
          const int* WEFT_RESTRICT own = weft_anew(index) + p.element * points + p.l;
          const real* WEFT_RESTRICT x = fields + field * stride;
          const auto [r, s] = layers_of(planes[0][p.e], p.l);
          real f[layers];
          WEFT_UNROLL
          for (int k = 0; k < layers; ++k) {
            const int at = layer_of(chunk, k);
            if (at < n) r[k * n] = s[k * s_layer] = f[k] = x[own[at * face]];
          }
          const VelocityAlongT along = velocity_along_t(again(metric), p.element, p.l);
          convect_column(
              lines.d, conservative, chunk, velocity_t[WEFT_SLOT(thread)], f,
              [&](int at, real& value, real& velocity) {
                const long entry = own[at * face];
                value = x[entry];
                velocity = velocity_at(along, lines, at, u[entry], u[stride + entry], u[2 * stride + entry]);
              },
              sums[WEFT_SLOT(thread)]);
        }
      }
      WEFT_BARRIER();
      WEFT_THREADS(thread, column_threads) {
        const int anew = weft_anew(thread), e = anew / pencils;
        if (WEFT_BLOCK * tile + e < count)
          each_line(anew % pencils, [&](int q, int begin, int step) {
            real* line = planes[0][e] + begin;
            real f[n], velocity[n], both[n];
            WEFT_UNROLL
            for (int m = 0; m < n; ++m) {
              f[m] = line[m * step];
              velocity[m] = velocity_shared ? planes[velocity_planes][e][begin + m * step]
                                            : velocity_lines[WEFT_SLOT(thread)][q][m];
            }
            convect_line(lines.d, conservative, velocity, f, both);
            WEFT_UNROLL
            for (int m = 0; m < n; ++m) line[m * step] = both[m];
          });
      }
      WEFT_BARRIER();
      WEFT_THREADS(thread, column_threads) {
        const Place p = place_of(WEFT_BLOCK, weft_anew(thread), pencils, first, count);
        if (p.live) {
          const auto [r, s] = layers_of<const real>(planes[0][p.e], p.l);
          WEFT_UNROLL
          for (int k = 0; k < layers; ++k) {
            const int at = layer_of(chunk, k);
            if (at < n)
              out[field * out_stride + p.element * points + at * face + p.l] =
                  r[k * n] + s[k * s_layer] + sums[WEFT_SLOT(thread)][k];
          }
        }
      }
      // No barrier: a thread's next stores go where it alone has just read.
    }
  }
}
