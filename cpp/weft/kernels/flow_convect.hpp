// (v, u . grad f), a term of the incompressible Navier-Stokes equations, on elements [first, first + count), before
// Z^T. It is integrated with the m dealiasing points per direction of WEFT_N (element/gauss.hpp).
//
// Columns along t, then lines along r, then lines along s are interpolated to the fine points. They pass through shared
// memory. The threads of lines along s keep the velocity at the fine points. For each field, they sum the products of
// its derivatives and the velocity, and lines along s, r and t take the sums back to the coarse points. A block has
// WEFT_TILE_ELEMENTS elements, and holds WEFT_TILE_PAIRS pairs of layers of fine points at a time: a chunk. All chunks
// but the first add to `out`.
//
// Arrays: index [element][n^3] has the entry of each point in a vector; u and fields are [field][stride]; out is
// [field][out_stride], by points. The metric, at the fine points, is described in flow_metric.hpp.
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/flow_metric.hpp"

#ifndef WEFT_TILE_PAIRS
#define WEFT_TILE_PAIRS 1
#endif

namespace {

constexpr int m = (3 * n + 1) / 2;

// Values by order, found by trying, for the blocks of flow::convect_blocks.
struct Tuned {
  int registers;   // per thread: they say for how many blocks per multiprocessor the kernel is compiled
  int stashed;     // values per thread that are kept in shared memory
  int pitch, pad;  // distance of rows, and padding of layers, with the fewest bank conflicts
  int together;    // fields or derivatives that share the barriers on the way to the fine points
};
#if defined(WEFT_TARGET_GPU) || defined(WEFT_TARGET_FIBER)
constexpr Tuned tuned_double[] = {
    {80, 0, 5, 9, 3},                                // N = 1
    {sm_100 ? 128 : 96, 0, 7, 0, 3},                 // 2
    {128, 0, 12, 7, 3},                              // 3
    {sm_100 ? 168 : 128, 4, 21, 0, 3},               // 4
    {sm_100 ? 255 : 128, 6, 22, 5, 3},               // 5
    {sm_100 ? 255 : 128, 12, 13, 0, 3},              // 6
    {sm_100 ? 255 : 168, 4, 13, 0, sm_100 ? 1 : 3},  // 7
    {255, 0, 15, 0, 3},                              // 8
    {255, 4, 15, 0, 3},                              // 9
    {255, sm_100 ? 24 : 6, 19, 0, 1},                // 10
    {255, sm_100 ? 4 : 6, 19, 0, sm_100 ? 1 : 3},    // 11
    {255, sm_100 ? 3 : 0, 21, 0, 1},                 // 12
    {255, sm_100 ? 8 : 0, 21, 0, 1},                 // 13
    {255, sm_100 ? 22 : 8, 25, 0, 1},                // 14
    {255, sm_100 ? 24 : 6, 25, 8, 1},                // 15
};
constexpr Tuned tuned_float[] = {
    {56, 0, 7, 21, 3},                               // N = 1
    {sm_100 ? 80 : 64, 0, 14, 27, 3},                // 2
    {80, 0, 7, 0, 3},                                // 3
    {80, 0, 27, 0, 3},                               // 4
    {96, 0, 13, 27, 3},                              // 5
    {96, 0, 39, 0, 3},                               // 6
    {sm_100 ? 128 : 96, 0, 12, 13, 3},               // 7
    {128, 0, 15, 0, 3},                              // 8
    {sm_100 ? 168 : 128, sm_100 ? 6 : 0, 15, 0, 3},  // 9
    {128, 0, 19, 0, 3},                              // 10
    {128, sm_100 ? 4 : 0, 21, 0, 3},                 // 11
    {168, 0, 21, 0, 3},                              // 12
    {168, 6, 21, 0, 1},                              // 13
    {168, 12, 25, 0, 1},                             // 14
    {255, 14, 25, 0, 1},                             // 15
};
constexpr Tuned tuned = sizeof(real) == 8 ? tuned_double[WEFT_N - 1] : tuned_float[WEFT_N - 1];
#else
constexpr Tuned tuned{0, 0, m, 0, 3};
#endif
#if defined(__HIP__)
constexpr int stashed = tuned.stashed + (WEFT_N >= 12 ? 30 : WEFT_N == 11 ? 15 : WEFT_N >= 8 ? 12 : 0);
#else
constexpr int stashed = tuned.stashed;
#endif

// Lines are taken from n GLL points to m Gauss points and back by even-odd splitting. A matrix V of values has
// V[m-1-q][n-1-j] = V[q][j], and a matrix of slopes has the opposite sign. With e_j = f_j + f_{n-1-j} and
// o_j = f_j - f_{n-1-j}, a pair of fine points therefore takes half as many products. Row q of `even` holds
// (V[q][j] + V[q][n-1-j]) / 2, or V[q][j] for the middle column, and row q of `odd` holds (V[q][j] - V[q][n-1-j]) / 2.
constexpr int half = n / 2, rows = (n + 1) / 2, fine_half = m / 2, fine_rows = (m + 1) / 2;
struct FineLines {
  real value_even[96], slope_even[96];  // [fine_rows][rows]
  real value_odd[96], slope_odd[96];    // [fine_rows][half]
  real points[24], weights[24];
};
struct Splits {
  real even[rows], odd[half];
};
template <class Line>
WEFT_FUNCTION Splits split(const Line& line) {
  Splits s;
  WEFT_UNROLL
  for (int j = 0; j < half; ++j) {
    const real a = line(j), b = line(n - 1 - j);
    s.even[j] = a + b;
    s.odd[j] = a - b;
  }
  if (n % 2 == 1) s.even[rows - 1] = line(half);
  return s;
}
struct Pair {
  real at, mirrored;
};
// The values or slopes at fine points p and m-1-p of a line, p < fine_rows.
WEFT_FUNCTION Pair refine(const FineLines& lines, bool slope, const Splits& s, int p) {
  const real* even = (slope ? lines.slope_even : lines.value_even) + p * rows;
  const real* odd = (slope ? lines.slope_odd : lines.value_odd) + p * half;
  real a = 0, b = 0;
  WEFT_UNROLL
  for (int j = 0; j < rows; ++j) a += even[j] * s.even[j];
  WEFT_UNROLL
  for (int j = 0; j < half; ++j) b += odd[j] * s.odd[j];
  return {a + b, slope ? b - a : a - b};
}
// Calls out(j, value) with the part of V^T g that comes from the pairs of fine points first ... first + count - 1:
// pair(r) is g at pair first + r.
template <class Pairs, class Out>
WEFT_FUNCTION void coarsen(const FineLines& lines, int first, int count, const Pairs& pair, const Out& out) {
  real even[rows] = {}, odd[half] = {};
  WEFT_UNROLL
  for (int r = 0; r < count; ++r) {
    if (first + r >= fine_rows) continue;
    Pair g = pair(r);
    if (first + r >= fine_half) g.mirrored = 0;
    const real e = g.at + g.mirrored, o = g.at - g.mirrored;
    WEFT_UNROLL
    for (int j = 0; j < rows; ++j) even[j] += lines.value_even[(first + r) * rows + j] * e;
    WEFT_UNROLL
    for (int j = 0; j < half; ++j) odd[j] += lines.value_odd[(first + r) * half + j] * o;
  }
  WEFT_UNROLL
  for (int j = 0; j < half; ++j) {
    out(j, even[j] + odd[j]);
    out(n - 1 - j, even[j] - odd[j]);
  }
  if (n % 2 == 1) out(half, even[rows - 1]);
}

// In shared memory, layer k of a chunk, row j and column i is at k plane + j pitch + i. A layer has n rows. Columns
// along t fill the first n places of each row, and lines along r then fill all m. Lines along s are the columns of a
// layer.
constexpr int pairs = WEFT_TILE_PAIRS;
constexpr int chunks = (fine_rows + pairs - 1) / pairs;
constexpr int layers = chunks == 1 ? m : 2 * pairs;
constexpr int pitch = tuned.pitch, plane = n * pitch + tuned.pad;
constexpr int element_values = layers * plane;
constexpr int lanes = m * layers;  // threads of an element
constexpr int convect_threads = tile * lanes;
constexpr int together = tuned.together;

// The layer of fine points that is layer k of a chunk. Layers beyond the last pair repeat it.
WEFT_FUNCTION int pair_of(int chunk, int r) {
  const int p = chunk * pairs + r;
  return p < fine_rows ? p : fine_rows - 1;
}
WEFT_FUNCTION int fine_layer(int chunk, int k) {
  const int p = pair_of(chunk, k % pairs);
  return k < pairs ? p : m - 1 - p;
}

// A thread's part of an element: a column of coarse points, and of a layer a line along r and one along s.
struct Part {
  int e, l;
  long element;
  bool live;
};
WEFT_FUNCTION Part part_of(int block, int thread, int first, int count) {
  if (chunks > 1) thread = weft_anew(thread);  // because registers are scarce
  const int e = thread / lanes;
  return {e, thread % lanes, static_cast<long>(first) + block * tile + e, block * tile + e < count};
}

// Takes three fields to the fine points of a chunk, or the three derivatives of one field (`slopes`): the fields are
// fields(0), fields(1) and fields(2). Calls use(thread, which, place along s, value).
template <class Fields, class Use>
WEFT_FUNCTION void to_fine(int block, int first, int count, int chunk, const FineLines& lines, bool slopes,
                           const int* WEFT_RESTRICT index, const Fields& fields,
                           real (&values)[together][tile][element_values], const Use& use) {
  WEFT_UNROLL
  for (int begin = 0; begin < 3; begin += together) {
    WEFT_THREADS(thread, convect_threads) {
      const Part p = part_of(block, thread, first, count);
      WEFT_NO_UNROLL
      for (int l = p.live ? p.l : face; l < face; l += lanes) {
        const int* WEFT_RESTRICT at = (begin == 0 && !slopes ? index : weft_anew(index)) + p.element * points + l;
        WEFT_UNROLL
        for (int b = 0; b < together; ++b) {
          if (b == 1 && slopes) continue;  // as of b = 0
          const real* WEFT_RESTRICT f = fields(begin + b);
          const Splits s = split([&](int k) { return f[at[k * face]]; });
          real* to = values[b][p.e] + l / n * pitch + l % n;
          const int now = chunks == 1 ? 0 : weft_anew(chunk);
          WEFT_UNROLL
          for (int r = 0; r < pairs; ++r) {
            const Pair g = refine(lines, slopes && begin + b == 2, s, pair_of(now, r));
            to[r * plane] = g.at;
            if (pairs + r < layers) to[(pairs + r) * plane] = g.mirrored;
          }
        }
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, convect_threads) {
      const Part p = part_of(block, thread, first, count);
      if (p.l < n * layers && p.live) {
        WEFT_UNROLL
        for (int b = together - 1; b >= 0; --b) {
          const int place = p.l / n * plane + p.l % n * pitch;
          const real* from = values[b == 1 && slopes ? 0 : b][p.e] + place;
          real* line = values[b][p.e] + place;
          const Splits s = split([&](int i) { return from[i]; });
          WEFT_UNROLL
          for (int q = 0; q < fine_rows; ++q) {
            const Pair g = refine(lines, slopes && begin + b == 0, s, q);
            line[q] = g.at;
            if (q < fine_half) line[m - 1 - q] = g.mirrored;
          }
        }
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, convect_threads) {
      const Part p = part_of(block, thread, first, count);
      if (p.live) {
        WEFT_UNROLL
        for (int b = 0; b < together; ++b) {
          const real* line = values[b][p.e] + p.l / m * plane + p.l % m;
          const Splits s = split([&](int j) { return line[j * pitch]; });
          WEFT_UNROLL
          for (int q = 0; q < fine_rows; ++q) {
            const Pair g = refine(lines, slopes && begin + b == 1, s, q);
            use(thread, begin + b, q, g.at);
            if (q < fine_half) use(thread, begin + b, m - 1 - q, g.mirrored);
          }
        }
      }
    }
    if (begin + together < 3 || !slopes) WEFT_BARRIER();
  }
}

// The metric of the line along s at fine points (i, k), times their weights: a, b, c are s, t, r.
WEFT_FUNCTION LineMetric fine_line(const Metric& metric, long element, int i, int k) {
  const real* x = metric.maps + element * 24;
  const real r = metric.nodes[i], t = metric.nodes[k];
  real xs[3], xt[2][3], xr[2][3];
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) {
    xs[d] = x[6 + d] + r * x[12 + d] + t * (x[18 + d] + r * x[21 + d]);
    xr[0][d] = x[3 + d] + t * x[15 + d];
    xr[1][d] = x[12 + d] + t * x[21 + d];
    xt[0][d] = x[9 + d] + r * x[15 + d];
    xt[1][d] = x[18 + d] + r * x[21 + d];
  }
  return line_metric(xs, xt, xr, metric.nodes[m + i] * metric.nodes[m + k]);
}

// The velocity at the fine points of a thread's line. The last `stashed` of its values are in shared memory.
constexpr int kept = 3 * m - stashed;
struct Velocity {
  real* own;    // [kept]
  real* stash;  // [stashed][convect_threads], of this thread
};
WEFT_FUNCTION real& at(const Velocity& u, int component, int j) {
  const int q = component * m + j;
  return q < kept ? u.own[q] : u.stash[(q - kept) * convect_threads];
}

// Replaces u at the points of a line by u . w C_r, u . w C_s, u . w C_t.
WEFT_FUNCTION void contravariant(const Metric& metric, const FineLines& lines, long element, int i, int k,
                                 const Velocity& u) {
  if (metric.maps == nullptr) {
    WEFT_UNROLL
    for (int j = 0; j < m; ++j) {
      real c[9];
      cofactors<m>(metric, element, i, j, k, c);
      const real x = at(u, 0, j), y = at(u, 1, j), z = at(u, 2, j);
      WEFT_UNROLL
      for (int d = 0; d < 3; ++d) at(u, d, j) = dot(c + 3 * d, x, y, z);
    }
    return;
  }
  const LineMetric line = fine_line(metric, element, i, k);
  WEFT_UNROLL
  for (int j = 0; j < m; ++j) {
    const real s = lines.points[j], w = lines.weights[j];
    const real x = w * at(u, 0, j), y = w * at(u, 1, j), z = w * at(u, 2, j);
    at(u, 0, j) = dot(line.c[0], x, y, z) + s * dot(line.c[1], x, y, z);
    at(u, 1, j) = dot(line.a[0], x, y, z) + s * (dot(line.a[1], x, y, z) + s * dot(line.a[2], x, y, z));
    at(u, 2, j) = dot(line.b[0], x, y, z) + s * dot(line.b[1], x, y, z);
  }
}

}  // namespace

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<convect_threads, tuned.registers>)
WEFT_KERNEL(flow_convect, convect_threads,
            (int first, int count, Metric metric, FineLines lines, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT u, const real* WEFT_RESTRICT fields, int field_count, long stride,
             real* WEFT_RESTRICT out, long out_stride)) {
  WEFT_SHARED(real, values[together][tile][element_values]);
  WEFT_SHARED(real, stash[stashed > 0 ? stashed : 1][convect_threads]);
  real velocity[WEFT_SLOTS(convect_threads)][kept];
  real product[WEFT_SLOTS(convect_threads)][m];
  const auto velocity_of = [&](int thread) { return Velocity{velocity[WEFT_SLOT(thread)], &stash[0][thread]}; };

  WEFT_NO_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    to_fine(
        WEFT_BLOCK, first, count, chunk, lines, false, index, [&](int which) { return u + which * stride; }, values,
        [&](int thread, int which, int j, real value) { at(velocity_of(thread), which, j) = value; });
    WEFT_THREADS(thread, convect_threads) {
      const Part p = part_of(WEFT_BLOCK, thread, first, count);
      if (p.live) contravariant(metric, lines, p.element, p.l % m, fine_layer(chunk, p.l / m), velocity_of(thread));
    }
    WEFT_NO_UNROLL
    for (int field = 0; field < field_count; ++field) {
      const real* WEFT_RESTRICT f = fields + field * stride;
      to_fine(
          WEFT_BLOCK, first, count, chunk, lines, true, index, [&](int) { return f; }, values,
          [&](int thread, int which, int j, real value) {
            const real term = at(velocity_of(thread), which, j) * value;
            real& sum = product[WEFT_SLOT(thread)][j];
            sum = which == 0 ? term : sum + term;
          });
      WEFT_THREADS(thread, convect_threads) {
        const Part p = part_of(WEFT_BLOCK, thread, first, count);
        if (p.live) {
          real* line = values[0][p.e] + p.l / m * plane + p.l % m;
          const real(&own)[m] = product[WEFT_SLOT(thread)];
          coarsen(
              lines, 0, fine_rows, [&](int q) { return Pair{own[q], own[m - 1 - q]}; },
              [&](int j, real value) { line[j * pitch] = value; });
        }
      }
      WEFT_BARRIER();
      WEFT_THREADS(thread, convect_threads) {
        const Part p = part_of(WEFT_BLOCK, thread, first, count);
        if (p.l < n * layers && p.live) {
          real* line = values[0][p.e] + p.l / n * plane + p.l % n * pitch;
          coarsen(
              lines, 0, fine_rows, [&](int q) { return Pair{line[q], line[m - 1 - q]}; },
              [&](int i, real value) { line[i] = value; });
        }
      }
      WEFT_BARRIER();
      WEFT_THREADS(thread, convect_threads) {
        const Part p = part_of(WEFT_BLOCK, thread, first, count);
        WEFT_NO_UNROLL
        for (int l = p.live ? p.l : face; l < face; l += lanes) {
          const real* line = values[0][p.e] + l / n * pitch + l % n;
          real* to = out + field * out_stride + p.element * points + l;
          coarsen(
              lines, chunks == 1 ? 0 : weft_anew(chunk) * pairs, pairs,
              [&](int r) { return Pair{line[r * plane], pairs + r < layers ? line[(pairs + r) * plane] : real(0)}; },
              [&](int k, real value) { to[k * face] = chunk == 0 ? value : to[k * face] + value; });
        }
      }
      // No barrier: a thread's next column goes where it alone has just read.
    }
  }
}
