// y_L = (S_L + lambda W) Z x: the screened Poisson operator on `count` elements of one shape, before Z^T.
//
// S_L^e = D^T G^e D (hipBone, "The Nekbone Benchmark"). Z is stored as one index per local point; if it is null, x is
// in scattered storage. W holds the inverse degrees. There are two thread shapes:
//   *_3d   one thread per point (N <= 9); the threads of an element exchange values through shared memory
//   *_2d   one thread per column of points, which also processes a line along r or s: n values in registers
// and a variant for each shape of elements (mesh/shape.hpp):
//   poisson_stored_*      G and W stored at every point: any shape
//   poisson_curved_*      the same without W, for lambda = 0
//   poisson_trilinear_*   G recomputed from the eight coefficients of a trilinear map
//   poisson_affine_*      G constant except for the quadrature weights: parallelepipeds
//   poisson_box_2d        G constant and diagonal: S_L^e is a sum of three 1-D operators
// A block works on WEFT_TILE_ELEMENTS elements. For several fields, stored x_field and y_field values apart, blocks
// that work on the same elements are neighbours, so that only the first of them reads geometry and index from memory.
//
// Arrays begin at the first element. index and y: [element][n^3]. factors: [element][7 or 6][n^3], namely G_rr, G_rs,
// G_rt, G_ss, G_st, G_tt, W, so that a block reads contiguous values of each. maps: [element][24], three components of
// each coefficient in x = sum_c maps[c] r^a s^b t^c, in the order 1, r, s, t, rs, rt, st, rst. metrics: [element][6], G
// without the weights. reference: [n*n + 2n], namely D in row-major order, the GLL points, the GLL weights. products:
// [blocks] (poisson_product.hpp), for one field.
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/launch_shared.hpp"
#include "weft/kernels/memory_hints.hpp"
#include "weft/kernels/pencils.hpp"
#include "weft/kernels/poisson_metric.hpp"
#include "weft/kernels/poisson_product.hpp"

namespace {

// K = D^T diag(weights) D, which a box applies along each direction. It is centrosymmetric: K[n-1-i][n-1-m] = K[i][m].
struct Stiffness {
  real even[64];  // [rows][rows]: (K[i][m] + K[i][n-1-m]) / 2; for the middle column, K[i][m]
  real odd[64];   // [half][half]: (K[i][m] - K[i][n-1-m]) / 2
};
// out = K line; returns line . out.
WEFT_FUNCTION real stiffen(const Stiffness& stiffness, const real (&line)[n], real (&out)[n]) {
  real e[rows], o[rows], product = 0;
  split(line, e, o);
  WEFT_UNROLL
  for (int i = 0; i < rows; ++i) {
    real a = 0, b = 0;
    WEFT_UNROLL
    for (int m = 0; m < rows; ++m) a += stiffness.even[i * rows + m] * e[m];
    if (i < half) {
      WEFT_UNROLL
      for (int m = 0; m < half; ++m) b += stiffness.odd[i * half + m] * o[m];
    }
    out[i] = a + b;
    if (i < half) out[n - 1 - i] = a - b;
    if (with_product) product += i < half ? e[i] * a + o[i] * b : e[i] * a;
  }
  return product;
}

// G stored at every point.
template <int each>  // 7, or 6 without W
struct Stored {
  const real* WEFT_RESTRICT factors;
};
template <int each>
struct StoredColumn {
  const real* WEFT_RESTRICT factors;
};
template <int each>
WEFT_FUNCTION StoredColumn<each> column_of(const Stored<each>& geometry, int element, int i, int j) {
  return {geometry.factors + static_cast<long>(element) * (each * points) + j * n + i};
}
// (r, s, t) <- G (r, s, t) at layer k of the column; returns lambda W.
template <int each>
WEFT_FUNCTION real apply_factors(const Stored<each>&, const StoredColumn<each>& c, int k, real lambda, real& r, real& s,
                                 real& t) {
  constexpr bool once = sm_90 && sizeof(real) == 8 && n == 16;  // elsewhere it costs time
  const real* g = c.factors + k * face;
  const real rr = load_once<once>(g), rs = load_once<once>(g + points), rt = load_once<once>(g + 2 * points);
  const real ss = load_once<once>(g + 3 * points), st = load_once<once>(g + 4 * points);
  const real tt = load_once<once>(g + 5 * points), w = each == 7 ? load_once<once>(g + 6 * points) : real(0);
  const real gr = rr * r + rs * s + rt * t;
  const real gs = rs * r + ss * s + st * t;
  t = rt * r + st * s + tt * t;
  r = gr;
  s = gs;
  return lambda * w;
}

template <int each>
WEFT_FUNCTION real apply_factors(const Stored<each>& geometry, int element, int i, int j, int k, real lambda, real& r,
                                 real& s, real& t) {
  return apply_factors(geometry, column_of(geometry, element, i, j), k, lambda, r, s, t);
}

// Prefetches the factors of a chunk's layers into the L2, which has a third of the latency of memory. Useful only where
// a multiprocessor holds too few blocks to hide that latency, and only just before they are read: what is prefetched
// much earlier has been dropped by then.
template <class Geometry>
WEFT_FUNCTION void prefetch_chunk(const Geometry&, int, int, int) {}
template <int each>
WEFT_FUNCTION void prefetch_chunk(const Stored<each>& geometry, int element, int first_layer, int end_layer) {
  if (tile > 1 || n <= 10) return;
  WEFT_UNROLL
  for (int f = 0; f < each; ++f) {
    const real* all = geometry.factors + (static_cast<long>(element) * each + f) * points;
    prefetch_values(all + first_layer * face, all + end_layer * face, f < each - 1);
  }
}

template <int each>
WEFT_FUNCTION void prefetch(const Stored<each>&, int, int) {}
template <int resident, int threads, int each>
WEFT_FUNCTION void prefetch_for_successor(const Stored<each>&, int, int, int, const int*, int) {}

// One thread per point.
template <class Geometry>
WEFT_FUNCTION void apply_points(int block, int count, const real* WEFT_RESTRICT reference, const Geometry& geometry,
                                real lambda, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x,
                                real* WEFT_RESTRICT y) {
  WEFT_SHARED(real, d[n][n]);   // d[m][i] = D[m][i]
  WEFT_SHARED(real, dt[n][n]);  // dt[m][i] = D[i][m]
  WEFT_SHARED(real, u[tile * face][n]);
  WEFT_SHARED(real, gr[tile * face][n]);
  WEFT_SHARED(real, gs[tile * face][n]);
  WEFT_SHARED(real, gt[tile * face][n]);
  real own[WEFT_SLOTS(tile * points)];  // lambda W u

  WEFT_THREADS_2D(i, n, q, tile * face) {
    if (q < n) {
      const real value = reference[q * n + i];
      d[q][i] = value;
      dt[i][q] = value;
    }
    const int element = block * tile + q / face;
    real value = 0;
    if (element < count) {
      const long p = static_cast<long>(element) * points + (q % face) * n + i;
      value = x[index == nullptr ? p : static_cast<long>(index[p])];
    }
    u[q][i] = value;
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, q, tile * face) {
    const int e = q / face, k = q / n % n, j = q % n;
    const int layer = q - j, column = e * face + j;
    real r = 0, s = 0, t = 0;
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) {
      r += dt[m][i] * u[q][m];
      s += dt[m][j] * u[layer + m][i];
      t += dt[m][k] * u[column + m * n][i];
    }
    if (block * tile + e < count)
      own[WEFT_SLOT(q * n + i)] = apply_factors(geometry, block * tile + e, i, j, k, lambda, r, s, t) * u[q][i];
    gr[q][i] = r;
    gs[q][i] = s;
    gt[q][i] = t;
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, q, tile * face) {
    const int e = q / face, k = q / n % n, j = q % n;
    const int layer = q - j, column = e * face + j;
    real r = 0, s = 0, t = 0;
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) {
      r += d[m][i] * gr[q][m];
      s += d[m][j] * gs[layer + m][i];
      t += d[m][k] * gt[column + m * n][i];
    }
    if (block * tile + e < count)
      y[static_cast<long>(block) * (tile * points) + q * n + i] = own[WEFT_SLOT(q * n + i)] + (r + s + t);
  }
}

// D or D^T of the lines of thread l, in place, pair by pair: n sums are in registers instead of a line and half of its
// sums. If the loop over pairs were unrolled, compilers would load the whole line ahead of it.
template <bool transposed>
WEFT_FUNCTION void differentiate_by_pairs(const Splitting& d, real* base, int l) {
  each_line(l, [&](int, int first, int stride) {
    real* line = base + first;
    real a[rows], b[rows];  // sums over e and o of even_odd.hpp, in its order
    WEFT_UNROLL
    for (int i = 0; i < rows; ++i) a[i] = b[i] = 0;
    WEFT_NO_UNROLL
    for (int m = 0; m < half; ++m) {
      const real low = line[m * stride], high = line[(n - 1 - m) * stride];
      WEFT_UNROLL
      for (int i = 0; i < rows; ++i) {
        if (i < half) a[i] += (transposed ? d.odd[m * half + i] : d.even[i * rows + m]) * (low + high);
        b[i] += (transposed ? d.even[m * rows + i] : d.odd[i * half + m]) * (low - high);
      }
    }
    WEFT_UNROLL
    for (int i = 0; i < half; ++i) {
      if (n % 2 == 1) a[i] += (transposed ? d.odd[half * half + i] : d.even[i * rows + half]) * line[half * stride];
      line[i * stride] = b[i] + a[i];
      line[(n - 1 - i) * stride] = b[i] - a[i];
    }
    if (n % 2 == 1) line[half * stride] = b[half];
  });
}
template <bool transposed, bool by_pairs>
WEFT_FUNCTION void differentiate_lines(const Splitting& d, real* base, int l) {
  if (by_pairs)
    differentiate_by_pairs<transposed>(d, base, l);
  else
    transform_lines(base, l, [&](const real(&in)[n], real(&out)[n]) { differentiate<transposed>(d, in, out); });
}

// The bytes of shared memory in which columns set aside `values` values per thread, and whether a kernel can declare so
// many beside the arrays for lines or a launch has to give them.
template <int values>
constexpr int bytes_aside = values * tile * pencils * static_cast<int>(sizeof(real));
constexpr int bytes_of_lines = tile * element_values * static_cast<int>(sizeof(real)), declarable_bytes = 48 * 1024;
template <int values>
constexpr bool aside_at_launch = weft_has_launch_shared && bytes_of_lines + bytes_aside<values> > declarable_bytes;
template <int values>
constexpr int launch_bytes = aside_at_launch<values> ? bytes_aside<values> : 0;

// One thread per column. While lines are transformed, the last `stashed` of a thread's n values of du/dt are kept in
// shared memory, to save registers. So are `kept` values of u that the current chunk does not need: the last ones of
// the second chunk during the first, and the first ones of the first chunk during the second.
template <int stashed, int kept, bool by_pairs, int resident, class Geometry>
WEFT_FUNCTION void apply_pencils(int block, int count, int fields, const Splitting& d, const Geometry& geometry,
                                 real lambda, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x,
                                 real* WEFT_RESTRICT y, double* WEFT_RESTRICT products) {
  static_assert(kept == 0 || (chunks == 2 && kept <= n - layers), "only values of the other chunk can be kept");
  constexpr int unstashed = n - stashed;
  constexpr bool at_launch = aside_at_launch<stashed + kept>;
  WEFT_SHARED(real, planes[tile][element_values]);  // of each element: layers for r, then for s
  WEFT_SHARED(real, declared_stash[at_launch || stashed == 0 ? 1 : stashed][tile * pencils]);
  WEFT_SHARED(real, declared_keep[at_launch || kept == 0 ? 1 : kept][tile * pencils]);
  using Row = real[tile * pencils];
  Row* const stash = at_launch ? weft_launch_shared<Row>() : declared_stash;  // the values of t from t[unstashed] on
  Row* const keep = at_launch ? stash + stashed : declared_keep;              // values of u
  real u[WEFT_SLOTS(tile * pencils)][n];                                      // x; later y without the term along t
  real t[WEFT_SLOTS(tile * pencils)][n];                                      // du/dt; later the flux along t
  real product[WEFT_SLOTS(tile * pencils)] = {};

  const int first = block * tile, elements = count - block * tile < tile ? count - block * tile : tile;
  WEFT_THREADS(thread, tile * pencils) {
    const int l = thread % pencils, element = block * tile + thread / pencils;
    const bool live = l < face && element < count;
    if (thread == 0) prefetch(geometry, first, elements);
    gather_column(live, element, l, 0, n, index, x, u[WEFT_SLOT(thread)]);
    prefetch_for_successor<resident, tile * pencils>(geometry, block, count, fields, index, thread);
    WEFT_UNROLL
    for (int k = 0; k < kept; ++k) keep[k][thread] = u[WEFT_SLOT(thread)][n - kept + k];
    differentiate<false>(d, u[WEFT_SLOT(thread)], t[WEFT_SLOT(thread)]);
    WEFT_UNROLL
    for (int k = 0; k < stashed; ++k) stash[k][thread] = t[WEFT_SLOT(thread)][unstashed + k];
  }
  WEFT_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WEFT_THREADS(thread, tile * pencils) {
      const int l = thread % pencils;
      const auto [r, s] = layers_of(planes[thread / pencils], l);
      if (chunk == 1) {
        WEFT_UNROLL
        for (int k = 0; k < kept; ++k) {
          const real own = u[WEFT_SLOT(thread)][k];
          u[WEFT_SLOT(thread)][n - kept + k] = keep[k][thread];
          keep[k][thread] = own;
        }
      }
      if (l < face) {
        WEFT_UNROLL
        for (int k = 0; k < layers; ++k)
          if (chunk * layers + k < n) r[k * n] = s[k * s_layer] = u[WEFT_SLOT(thread)][chunk * layers + k];
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, tile * pencils) {
      if (thread == 0) prefetch_chunk(geometry, first, chunk * layers, chunk == 0 ? layers : n);
      differentiate_lines<false, by_pairs>(d, planes[thread / pencils], thread % pencils);
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, tile * pencils) {
      const int l = thread % pencils, element = block * tile + thread / pencils;
      const auto [r, s] = layers_of(planes[thread / pencils], l);
      if (l < face && element < count) {
        const auto column = column_of(geometry, element, l % n, l / n);
        WEFT_UNROLL
        for (int k = 0; k < layers; ++k) {
          const int at = chunk * layers + k;
          if (at >= n) continue;
          real &own = u[WEFT_SLOT(thread)][at], &along_t = t[WEFT_SLOT(thread)][at];
          if (at >= unstashed) along_t = stash[at - unstashed][thread];
          own *= apply_factors_with_product(geometry, column, at, lambda, own, r[k * n], s[k * s_layer], along_t,
                                            product[WEFT_SLOT(thread)]);
          if (at >= unstashed) stash[at - unstashed][thread] = along_t;
        }
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, tile * pencils) {
      differentiate_lines<true, by_pairs>(d, planes[thread / pencils], thread % pencils);
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, tile * pencils) {
      const int l = thread % pencils;
      const auto [r, s] = layers_of<const real>(planes[thread / pencils], l);
      if (l < face) {
        WEFT_UNROLL
        for (int k = 0; k < layers; ++k)
          if (chunk * layers + k < n) u[WEFT_SLOT(thread)][chunk * layers + k] += r[k * n] + s[k * s_layer];
      }
    }
    // No barrier is needed: a thread's first stores of the next chunk go where only this thread has just read.
  }
  WEFT_THREADS(thread, tile * pencils) {
    const int l = thread % pencils, element = block * tile + thread / pencils;
    if (l < face && element < count) {
      WEFT_UNROLL
      for (int k = 0; k < stashed; ++k) t[WEFT_SLOT(thread)][unstashed + k] = stash[k][thread];
      WEFT_UNROLL
      for (int k = 0; k < kept; ++k) u[WEFT_SLOT(thread)][k] = keep[k][thread];
      real flux[n];
      differentiate<true>(d, t[WEFT_SLOT(thread)], flux);
      WEFT_UNROLL
      for (int k = 0; k < n; ++k)
        y[static_cast<long>(element) * points + k * face + l] = u[WEFT_SLOT(thread)][k] + flux[k];
    }
  }
  static_assert(sizeof planes >= block_sum_room<tile * pencils> * sizeof(double), "room for the sum");
  store_product<tile * pencils>(product, planes, block, products);
}

// Boxes: y = (g_r K x W x W + W x g_s K x W + W x W x g_t K) u, where x is the tensor product. This takes one pass over
// the lines, where the other variants take two. To save registers, the second of two chunks is gathered once more, from
// a cache, and the last `stashed` values of the term along t are kept in shared memory.
template <int stashed, int resident>
WEFT_FUNCTION void apply_boxes(int block, int count, int fields, const Stiffness& stiffness,
                               const AffineColumns& geometry, real lambda, const int* WEFT_RESTRICT index,
                               const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y, double* WEFT_RESTRICT products) {
  WEFT_SHARED(real, planes[tile][element_values]);  // of each element: layers for r, then for s
  real u[WEFT_SLOTS(tile * pencils)][n];
  real t[WEFT_SLOTS(tile * pencils)][n];  // the term along t
  constexpr int unstashed = n - stashed;
  WEFT_SHARED(real, stash[stashed > 0 ? stashed : 1][tile * pencils]);  // the values of t from t[unstashed] on
  real product[WEFT_SLOTS(tile * pencils)] = {};

  WEFT_THREADS(thread, tile * pencils) {
    const int l = thread % pencils, element = block * tile + thread / pencils;
    const bool live = l < face && element < count;
    if (thread == 0) prefetch(geometry, block * tile, count - block * tile < tile ? count - block * tile : tile);
    gather_column(live, element, l, 0, n, index, x, u[WEFT_SLOT(thread)]);
    prefetch_for_successor<resident, tile * pencils>(geometry, block, count, fields, index, thread);
    real& sum = product[WEFT_SLOT(thread)];
    sum = stiffen(stiffness, u[WEFT_SLOT(thread)], t[WEFT_SLOT(thread)]);
    if (live) {
      const real tt = geometry.of.weights[l % n] * geometry.of.weights[l / n] * geometry.of.metrics[element * 6l + 5];
      const real* w = geometry.of.inverse_degree + (static_cast<long>(element) * points + l);
      sum *= tt;
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) {
        real& out = t[WEFT_SLOT(thread)][k];
        out *= tt;
        if (geometry.of.inverse_degree != nullptr) {
          const real screening = lambda * w[k * face] * u[WEFT_SLOT(thread)][k];
          out += screening;
          if (with_product) sum += screening * u[WEFT_SLOT(thread)][k];
        }
        if (k >= unstashed) stash[k - unstashed][thread] = out;
      }
    }
  }
  WEFT_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WEFT_THREADS(thread, tile * pencils) {
      const int l = thread % pencils, element = block * tile + thread / pencils;
      const bool live = l < face && element < count;
      if (chunk > 0) gather_column(live, element, l, layers, n, weft_anew(index), weft_anew(x), u[WEFT_SLOT(thread)]);
      const auto [r, s] = layers_of(planes[thread / pencils], l);
      if (l < face) {
        WEFT_UNROLL
        for (int k = 0; k < layers; ++k)
          if (chunk * layers + k < n) r[k * n] = s[k * s_layer] = u[WEFT_SLOT(thread)][chunk * layers + k];
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, tile * pencils) {
      real* const base = planes[thread / pencils];
      const int l = thread % pencils, element = block * tile + thread / pencils;
      if constexpr (with_product) {
        each_line(l, [&](int q, int first, int stride) {
          real in[n], out[n];
          WEFT_UNROLL
          for (int m = 0; m < n; ++m) in[m] = base[first + m * stride];
          const real sum = stiffen(stiffness, in, out);
          WEFT_UNROLL
          for (int m = 0; m < n; ++m) base[first + m * stride] = out[m];
          const bool along_r = chunks == 1 ? q == 0 : l < lines;
          const int line = chunks == 1 || along_r ? l : l - lines, k = chunk * layers + line / n;
          if (element < count && k < n)
            product[WEFT_SLOT(thread)] += geometry.of.metrics[element * 6l + (along_r ? 0 : 3)] *
                                          geometry.of.weights[line % n] * geometry.of.weights[k] * sum;
        });
      } else {
        transform_lines(base, l, [&](const real(&in)[n], real(&out)[n]) { stiffen(stiffness, in, out); });
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, tile * pencils) {
      const int l = thread % pencils, element = block * tile + thread / pencils;
      const auto [r, s] = layers_of<const real>(planes[thread / pencils], l);
      if (l < face && element < count) {
        const real* g = geometry.of.metrics + static_cast<long>(element) * 6;
        const real rr = g[0] * geometry.of.weights[l / n], ss = g[3] * geometry.of.weights[l % n];
        WEFT_UNROLL
        for (int k = 0; k < layers; ++k) {
          const int at = chunk * layers + k;
          if (at >= n) continue;
          const real along_t = at < unstashed ? t[WEFT_SLOT(thread)][at] : stash[at - unstashed][thread];
          y[static_cast<long>(element) * points + at * face + l] =
              geometry.along_t.weights[at] * (rr * r[k * n] + ss * s[k * s_layer]) + along_t;
        }
      }
    }
    // No barrier is needed: a thread's first stores of the next chunk go where only this thread has just read.
  }
  static_assert(sizeof planes >= block_sum_room<tile * pencils> * sizeof(double), "room for the sum");
  store_product<tile * pencils>(product, planes, block, products);
}

}  // namespace

// The variants with one thread per column, by order: the number of registers per thread for which each is compiled, the
// numbers of values of du/dt and of u that a thread sets aside, and whether lines are differentiated by pairs. They
// were found by trying: they give the most blocks per multiprocessor without spilling, which
// tests/python/test_kernel_compile.py checks.
constexpr bool wide = sizeof(real) == 8;
struct Column {
  int registers, stash = 0, kept = 0;
  bool by_pairs = false;
};
struct Columns {
  Column stored, trilinear, affine, box;
};
constexpr Columns columns_double[] = {
    {{48}, {sm_90 ? 64 : 72}, {48}, {32}},                                                // N = 1
    {{48}, {sm_90 ? 72 : 80}, {48}, {32}},                                                // 2
    {{48}, {sm_80 ? 80 : 96}, {48}, {32}},                                                // 3
    {{56}, {104}, {56}, {56}},                                                            // 4
    {{56}, {96}, {56}, {48}},                                                             // 5
    {{sm_90 ? 56 : 64}, {96, 7}, {64}, {sm_80 ? 56 : 48}},                                // 6
    {{72}, {sm_80 ? 128 : 96}, {72}, {64}},                                               // 7
    {{sm_90 ? 80 : 72}, {104, 7}, {80}, {64}},                                            // 8
    {{sm_100 ? 104 : 80, 10}, {104, 10}, {sm_100 ? 128 : 96, 10}, {sm_90 ? 64 : 80, 4}},  // 9
    {{96, 5}, {sm_100 ? 168 : 128, 5}, {sm_100 ? 168 : 96, 5}, {sm_80 ? 96 : 72, 4}},     // 10
    {{sm_100 ? 255 : 96, 12},
     {sm_100 ? 255 : 128, sm_90 ? 7 : 12},
     {sm_100 ? 255 : 96, 12},
     {sm_90    ? 72
      : sm_100 ? 128
               : 96,
      6}},  // 11
    {{sm_90 ? 80 : 96, sm_90 ? 12 : 13, sm_90 ? 4 : 0},
     {sm_100 ? 168 : 112, sm_100 ? 13 : 10, sm_100 ? 0 : 6, !sm_100},
     {96, 13},
     {sm_90 ? 72 : 128, 6}},  // 12
    {{sm_100 ? 128 : 80, 11, 2, true},
     {sm_100 ? 168 : 128, sm_100 ? 0 : 8},
     {sm_100 ? 168 : 128, 7},
     {sm_90 ? 80 : 104, 7}},  // 13
    {{sm_90 ? 80 : 128, sm_90 ? 15 : 6, sm_90 ? 7 : 0, sm_90},
     {sm_80 ? 168 : 128, 8},
     {128, 7},
     {sm_100 ? 168 : 96}},  // 14
    {{128, sm_100 ? 8 : 6, sm_100 ? 6 : 0, true},
     {sm_90 ? 128 : 168, sm_90 ? 7 : 0},
     {sm_90 ? 128 : 168, 6},
     {96}},  // 15
};
constexpr Columns columns_float[] = {
    {{40}, {48}, {40}, {32}},                                                                       // N = 1
    {{32}, {48}, {32}, {32}},                                                                       // 2
    {{40}, {56}, {40}, {32}},                                                                       // 3
    {{40}, {56}, {40}, {40}},                                                                       // 4
    {{40}, {sm_80 ? 64 : 56}, {40}, {32}},                                                          // 5
    {{48}, {64}, {48}, {48}},                                                                       // 6
    {{64}, {64}, {64}, {32}},                                                                       // 7
    {{sm_80 ? 48 : 56}, {64}, {sm_80 ? 48 : 56}, {48}},                                             // 8
    {{48}, {sm_80 ? 72 : 64}, {48}, {40}},                                                          // 9
    {{56}, {72}, {56}, {48}},                                                                       // 10
    {{sm_90 ? 72 : 56}, {72}, {sm_90 ? 72 : 56}, {56}},                                             // 11
    {{sm_90 ? 80 : 64}, {80, 13}, {sm_90 ? 80 : 64, sm_90 ? 6 : 0}, {64}},                          // 12
    {{sm_100 ? 80 : 72, 14}, {104}, {sm_100 ? 128 : 72, 14}, {sm_90 ? 56 : 80, 10}},                // 13
    {{sm_90 ? 64 : 80, 15}, {sm_100 ? 104 : 80, 15}, {sm_90 ? 64 : 96, 15}, {sm_90 ? 56 : 80, 6}},  // 14
    {{sm_100 ? 128 : 80, 16}, {104}, {sm_100 ? 128 : 80, 16}, {sm_80 ? 72 : 56, 10}},               // 15
};
// The registers that a product takes besides.
struct Besides {
  int stored, trilinear, affine, box;
};
constexpr Besides besides_double[] = {
    {0, sm_90 ? 8 : 0, 0, 0},                 // N = 1
    {0, sm_90 ? 24 : 0, 0, 0},                // 2
    {0, sm_80 ? 16 : 0, 0, 0},                // 3
    {0, 0, 8, 0},                             // 4
    {4, 8, 12, 12},                           // 5
    {8, 0, sm_80 ? 20 : 8, sm_90 ? 24 : 12},  // 6
    {0, sm_80 ? 0 : 20, 8, 0},                // 7
    {sm_80    ? 32
     : sm_100 ? 4
              : 0,
     sm_80 ? 0 : 12, 20, 12},               // 8
    {0, 0, sm_90 ? 8 : 0, sm_90 ? 12 : 0},  // 9
    {0, 0, 0, sm_80 ? 0 : 12},              // 10
    {0, 0, sm_90 ? 8 : 0, sm_90 ? 12 : 0},  // 11
    {sm_90    ? 8
     : sm_100 ? 20
              : 0,
     sm_100 ? 0 : 4, 0, sm_90 ? 16 : 0},                   // 12
    {sm_100 ? 0 : 20, 0, sm_90 ? 20 : 0, sm_90 ? 20 : 0},  // 13
    {sm_100 ? 4 : 0, sm_100 ? 4 : 0, sm_100 ? 4 : 0, 0},   // 14
    {0, sm_90 ? 4 : 0, sm_90 ? 4 : 0, sm_80 ? 0 : 40},     // 15
};
constexpr Besides besides_float[] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0},  {0, 0, 8, 8},
                                     {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 8, 4}, {0, 0, 4, 8},  {0, 0, 0, 0},
                                     {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 4}, {0, 0, 4, 12}, {0, 0, 0, 12}};
constexpr Columns chosen = wide ? columns_double[WEFT_N - 1] : columns_float[WEFT_N - 1];
#if defined(__HIP__) || !(defined(WEFT_TARGET_GPU) || defined(WEFT_TARGET_FIBER))
// 512 registers suffice, and a host keeps everything in its caches.
constexpr Column stored{chosen.stored.registers}, trilinear{chosen.trilinear.registers},
    affine{chosen.affine.registers}, box{chosen.box.registers};
#else
constexpr Besides besides = !with_product ? Besides{} : wide ? besides_double[WEFT_N - 1] : besides_float[WEFT_N - 1];
WEFT_FUNCTION constexpr Column with(Column column, int registers) {
  column.registers += registers;
  return column;
}
constexpr Column stored = with(chosen.stored, besides.stored), trilinear = with(chosen.trilinear, besides.trilinear),
                 affine = with(chosen.affine, besides.affine), box = with(chosen.box, besides.box);
#endif

#if !defined(WEFT_TARGET_GPU) || WEFT_N <= 9  // a block has at most 1024 threads
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * points, 40>)
WEFT_KERNEL(poisson_stored_3d, tile* points,
            (int count, const real* reference, const real* factors, real lambda, const int* index, int fields,
             long x_field, long y_field, const real* x, real* y)) {
  const int field = WEFT_BLOCK % fields;
  apply_points(WEFT_BLOCK / fields, count, reference, Stored<7>{factors}, lambda, index, x + field * x_field,
               y + field * y_field);
}

WEFT_KERNEL(poisson_curved_3d, tile* points,
            (int count, const real* reference, const real* factors, real lambda, const int* index, int fields,
             long x_field, long y_field, const real* x, real* y)) {
  const int field = WEFT_BLOCK % fields;
  apply_points(WEFT_BLOCK / fields, count, reference, Stored<6>{factors}, lambda, index, x + field * x_field,
               y + field * y_field);
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * points, 64>)
WEFT_KERNEL(poisson_trilinear_3d, tile* points,
            (int count, const real* reference, const real* maps, const real* inverse_degree, real lambda,
             const int* index, int fields, long x_field, long y_field, const real* x, real* y)) {
  const int field = WEFT_BLOCK % fields;
  apply_points(WEFT_BLOCK / fields, count, reference, Trilinear{maps, reference + face, inverse_degree}, lambda, index,
               x + field * x_field, y + field * y_field);
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * points, 48>)
WEFT_KERNEL(poisson_affine_3d, tile* points,
            (int count, const real* reference, const real* metrics, const real* inverse_degree, real lambda,
             const int* index, int fields, long x_field, long y_field, const real* x, real* y)) {
  const int field = WEFT_BLOCK % fields;
  apply_points(WEFT_BLOCK / fields, count, reference, Affine{metrics, reference + face + n, inverse_degree}, lambda,
               index, x + field * x_field, y + field * y_field);
}
#endif

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * pencils, stored.registers>)
WEFT_KERNEL(poisson_stored_2d, tile* pencils,
            (int count, Splitting d, const real* factors, real lambda, const int* index, int fields, long x_field,
             long y_field, const real* x, real* y, double* products)) {
  const int field = WEFT_BLOCK % fields;
  apply_pencils<stored.stash, stored.kept, stored.by_pairs, blocks_for<tile * pencils, stored.registers>>(
      WEFT_BLOCK / fields, count, fields, d, Stored<7>{factors}, lambda, index, x + field * x_field,
      y + field * y_field, products);
}
WEFT_LAUNCH_SHARED(poisson_stored_2d, launch_bytes<stored.stash + stored.kept>);

// Without W, the compiler takes more at this order.
constexpr int curved_registers = stored.registers + (with_product && sm_90 && wide && n == 9 ? 32 : 0);
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * pencils, curved_registers>)
WEFT_KERNEL(poisson_curved_2d, tile* pencils,
            (int count, Splitting d, const real* factors, real lambda, const int* index, int fields, long x_field,
             long y_field, const real* x, real* y, double* products)) {
  const int field = WEFT_BLOCK % fields;
  apply_pencils<stored.stash, stored.kept, stored.by_pairs, blocks_for<tile * pencils, curved_registers>>(
      WEFT_BLOCK / fields, count, fields, d, Stored<6>{factors}, lambda, index, x + field * x_field,
      y + field * y_field, products);
}
WEFT_LAUNCH_SHARED(poisson_curved_2d, launch_bytes<stored.stash + stored.kept>);

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * pencils, trilinear.registers>)
WEFT_KERNEL(poisson_trilinear_2d, tile* pencils,
            (int count, Splitting d, Nodes nodes, const real* reference, const real* maps, const real* inverse_degree,
             real lambda, const int* index, int fields, long x_field, long y_field, const real* x, real* y,
             double* products)) {
  const int field = WEFT_BLOCK % fields;
  apply_pencils<trilinear.stash, trilinear.kept, trilinear.by_pairs, blocks_for<tile * pencils, trilinear.registers>>(
      WEFT_BLOCK / fields, count, fields, d, TrilinearColumns{maps, reference + face, nodes, inverse_degree}, lambda,
      index, x + field * x_field, y + field * y_field, products);
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * pencils, affine.registers>)
WEFT_KERNEL(poisson_affine_2d, tile* pencils,
            (int count, Splitting d, Nodes nodes, const real* reference, const real* metrics,
             const real* inverse_degree, real lambda, const int* index, int fields, long x_field, long y_field,
             const real* x, real* y, double* products)) {
  const int field = WEFT_BLOCK % fields;
  apply_pencils<affine.stash, affine.kept, affine.by_pairs, blocks_for<tile * pencils, affine.registers>>(
      WEFT_BLOCK / fields, count, fields, d, AffineColumns{{metrics, reference + face + n, inverse_degree}, nodes},
      lambda, index, x + field * x_field, y + field * y_field, products);
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * pencils, box.registers>)
WEFT_KERNEL(poisson_box_2d, tile* pencils,
            (int count, Stiffness stiffness, Nodes nodes, const real* reference, const real* metrics,
             const real* inverse_degree, real lambda, const int* index, int fields, long x_field, long y_field,
             const real* x, real* y, double* products)) {
  const int field = WEFT_BLOCK % fields;
  apply_boxes<box.stash, blocks_for<tile * pencils, box.registers>>(
      WEFT_BLOCK / fields, count, fields, stiffness,
      AffineColumns{{metrics, reference + face + n, inverse_degree}, nodes}, lambda, index, x + field * x_field,
      y + field * y_field, products);
}
