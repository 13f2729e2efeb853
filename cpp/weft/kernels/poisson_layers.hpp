// The part of poisson_matrix.hpp for n = 16 points per line.
//
// As in the *_2d kernels of poisson.hpp, threads have columns of points, two each: they gather x, differentiate along
// t, and apply the metric. In between, each warp takes whole layers of 16 x 16 points from shared memory and
// differentiates along r and s. The even and odd parts of the lines of half a layer are two 8 x 8 matrices, as are
// those of D (even_odd.hpp).
#pragma once
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/even_odd.hpp"
#include "weft/kernels/launch_shared.hpp"
#include "weft/kernels/memory_hints.hpp"
#include "weft/kernels/poisson_metric.hpp"
#include "weft/kernels/poisson_product.hpp"

namespace {

static_assert(n == 16 && tile == 1);
constexpr int threads = 128, columns = face / threads;  // columns of a thread
constexpr int layers_of_warp = n / (threads / 32);
constexpr int mirror = n - 1;  // m ^ mirror is the mirror image of point m of a line
// The layers and columns that a thread applies the metric to at a time. It waits less if there are several.
constexpr int at_once = with_product || sm_100 ? 1 : 4, columns_at_once = with_product ? 1 : columns;
using LayerValues = real[face];

// Where a layer has its value in row s and column r. Columns change places from row to row, so that neither rows nor
// matrices have bank conflicts. place_of(s ^ a, r ^ b) is place_of(s, r) ^ place_of(a, b).
WEFT_FUNCTION constexpr int place_of(int s, int r) { return s * n ^ r ^ (s & 5) ^ (s & 2) << 2; }

// The matrices of D for even and odd parts, or those of D^T. Also the even and odd parts of the lines of half a layer,
// and the products of both.
struct Parts {
  real even[WEFT_SLOTS(threads)][2], odd[WEFT_SLOTS(threads)][2];
};
// The matrices of D, even and odd. HIP has no room for them in shared memory, and computes them again.
using Table = real[2][n / 2][n / 2];
WEFT_FUNCTION real part_of(const real* WEFT_RESTRICT reference, int odd, int i, int m) {
  const real low = reference[i * n + m], high = reference[i * n + (m ^ mirror)];
  return real(0.5) * (odd ? low - high : low + high);
}
template <bool transposed>
WEFT_FUNCTION void load_parts(const Table& table, const real* reference, int thread, Parts& d) {
  const auto part = [&](int odd, int e) {
    const int i = thread % 32 / 4, m = thread % 4 * 2 + e, row = transposed ? m : i, column = transposed ? i : m;
    return weft_has_launch_shared ? table[odd][row][column] : part_of(reference, odd, row, column);
  };
  WEFT_UNROLL
  for (int e = 0; e < 2; ++e) {
    d.even[WEFT_SLOT(thread)][e] = part(transposed ? 1 : 0, e);
    d.odd[WEFT_SLOT(thread)][e] = part(transposed ? 0 : 1, e);
  }
}

// The parts of a layer's lines along r, and along s, transposed: [of the first half of the layer, of its mirror image].
struct Layer {
  Parts r[2], s[2];
};
// A thread's layers begin with `layer`. Of each it has the values of row i in columns 2 j and 2 j + 1, and their mirror
// images. `turned` is the place of row 2 j and column i.
struct Own {
  int layer, place, turned;
};
WEFT_FUNCTION Own own_of(int thread) {
  const int i = thread % 32 / 4, m = thread % 4 * 2;
  return {thread / 32 * layers_of_warp, place_of(i, m), place_of(m, i)};
}
WEFT_FUNCTION void take(const LayerValues& for_r, const LayerValues& for_s, const Own& own, int thread, Layer& u) {
  WEFT_UNROLL
  for (int side = 0; side < 2; ++side) WEFT_UNROLL
  for (int e = 0; e < 2; ++e) {
    const int beside = side * mirror, end = e ^ mirror;
    const real low_r = for_r[own.place ^ place_of(beside, e)], high_r = for_r[own.place ^ place_of(beside, end)];
    const real low_s = for_s[own.turned ^ place_of(e, beside)], high_s = for_s[own.turned ^ place_of(end, beside)];
    u.r[side].even[WEFT_SLOT(thread)][e] = low_r + high_r;
    u.r[side].odd[WEFT_SLOT(thread)][e] = low_r - high_r;
    u.s[side].even[WEFT_SLOT(thread)][e] = low_s + high_s;
    u.s[side].odd[WEFT_SLOT(thread)][e] = low_s - high_s;
  }
}
WEFT_FUNCTION void multiply(const Parts& d, const Layer& u, Layer& out) {
  WEFT_THREADS(thread, threads) {
    WEFT_UNROLL
    for (int side = 0; side < 2; ++side) WEFT_UNROLL
    for (int e = 0; e < 2; ++e) {
      out.r[side].even[WEFT_SLOT(thread)][e] = out.r[side].odd[WEFT_SLOT(thread)][e] = 0;
      out.s[side].even[WEFT_SLOT(thread)][e] = out.s[side].odd[WEFT_SLOT(thread)][e] = 0;
    }
  }
  WEFT_UNROLL
  for (int side = 0; side < 2; ++side) {
    weft_multiply_transposed(out.r[side].even, u.r[side].even, d.even);
    weft_multiply_transposed(out.r[side].odd, u.r[side].odd, d.odd);
    weft_multiply_transposed(out.s[side].even, d.even, u.s[side].even);
    weft_multiply_transposed(out.s[side].odd, d.odd, u.s[side].odd);
  }
}
// The derivative at a point of the first half of a line, or at its mirror image.
WEFT_FUNCTION real value_of(const Parts& of, int thread, int end, int e) {
  const real odd = of.odd[WEFT_SLOT(thread)][e], even = of.even[WEFT_SLOT(thread)][e];
  return end == 0 ? odd + even : odd - even;
}
// Calls use(place, derivative along r, along s) for each of a thread's points.
template <class Use>
WEFT_FUNCTION void each_point(const Own& own, const Layer& of, int thread, const Use& use) {
  WEFT_UNROLL
  for (int end_s = 0; end_s < 2; ++end_s) WEFT_UNROLL
  for (int end_r = 0; end_r < 2; ++end_r) WEFT_UNROLL
  for (int e = 0; e < 2; ++e)
    use(own.place ^ place_of(end_s * mirror, e ^ end_r * mirror), value_of(of.r[end_s], thread, end_r, e),
        value_of(of.s[end_r], thread, end_s, e));
}

// The number of values of du/dt that a thread keeps in shared memory for each column, to save registers, so that three
// blocks fit on a multiprocessor of sm_90.
template <class Geometry>
constexpr int stashed = 0;
template <>
constexpr int stashed<TrilinearColumns> = weft_has_launch_shared ? 5 : 0;
constexpr int declared_layers = weft_has_launch_shared ? 1 : 2 * n;
template <class Geometry>
constexpr int launch_bytes =
    weft_has_launch_shared ? (2 * n + stashed<Geometry>)*face * static_cast<int>(sizeof(real)) : 0;

template <int resident, class Geometry>
WEFT_FUNCTION void apply_matrices(int block, int count, int fields, const Splitting& d, const Geometry& geometry,
                                  const real* WEFT_RESTRICT reference, const real* WEFT_RESTRICT inverse_degree,
                                  real lambda, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x,
                                  real* WEFT_RESTRICT y, double* WEFT_RESTRICT products) {
  constexpr int unstashed = n - stashed<Geometry>;
  WEFT_SHARED(Table, table);
  WEFT_SHARED(real, declared[declared_layers][face]);
  LayerValues* const at_r = weft_has_launch_shared ? weft_launch_shared<LayerValues>() : declared;
  // at_r: u, then du/dr, its flux, and the terms of y along r and s. at_s: du/ds, then its flux.
  LayerValues *const at_s = at_r + n, *const stash = at_s + n;
  real t[columns][WEFT_SLOTS(threads)][n];  // du/dt, then its flux
  real product[WEFT_SLOTS(threads)] = {};

  WEFT_THREADS(thread, threads) {
    if (thread == 0) prefetch(geometry, block, 1);
    const long first = static_cast<long>(block) * points;
    real u[columns][n];
    WEFT_UNROLL
    for (int k = 0; k < n; ++k) WEFT_UNROLL
    for (int c = 0; c < columns; ++c) u[c][k] = x[index[first + k * face + c * threads + thread]];
    if (weft_has_launch_shared) {
      const int odd = thread / 64, i = thread / 8 % 8, m = thread % 8;
      table[odd][i][m] = part_of(reference, odd, i, m);
    }
    prefetch_for_successor<resident, threads>(geometry, block, count, fields, index, thread);
    WEFT_UNROLL
    for (int c = 0; c < columns; ++c) {
      const int l = c * threads + thread, place = place_of(l / n, l % n);
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) at_r[k][place] = u[c][k];
      differentiate<false>(d, u[c], t[c][WEFT_SLOT(thread)]);
      WEFT_UNROLL
      for (int k = unstashed; k < n; ++k) stash[k - unstashed][l] = t[c][WEFT_SLOT(thread)][k];
    }
  }
  WEFT_BARRIER();
  Parts parts;
  WEFT_THREADS(thread, threads) { load_parts<false>(table, reference, thread, parts); }
  WEFT_NO_UNROLL
  for (int l = 0; l < layers_of_warp; ++l) {
    Layer u, out;
    WEFT_THREADS(thread, threads) {
      const Own own = own_of(thread);
      take(at_r[own.layer + l], at_r[own.layer + l], own, thread, u);
    }
    multiply(parts, u, out);
    // No barrier is needed: the products have waited for all that the warp has read.
    WEFT_THREADS(thread, threads) {
      const Own own = own_of(thread);
      each_point(own, out, thread, [&](int place, real r, real s) {
        at_r[own.layer + l][place] = r;
        at_s[own.layer + l][place] = s;
      });
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, threads) {
    WEFT_UNROLL
    for (int first_column = 0; first_column < columns; first_column += columns_at_once) {
      decltype(column_of(geometry, 0, 0, 0)) metrics[columns_at_once];
      WEFT_UNROLL
      for (int c = 0; c < columns_at_once; ++c) {
        const int l = (first_column + c) * threads + thread;
        metrics[c] = column_of(geometry, block, l % n, l / n);
      }
      WEFT_UNROLL
      for (int first = 0; first < n; first += at_once) {
        real r[at_once][columns_at_once], s[at_once][columns_at_once];
        WEFT_UNROLL
        for (int a = 0; a < at_once; ++a) WEFT_UNROLL
        for (int c = 0; c < columns_at_once; ++c) {
          const int k = first + a, l = (first_column + c) * threads + thread, place = place_of(l / n, l % n);
          r[a][c] = at_r[k][place];
          s[a][c] = at_s[k][place];
          if (k >= unstashed) t[first_column + c][WEFT_SLOT(thread)][k] = stash[k - unstashed][l];
        }
        WEFT_UNROLL
        for (int a = 0; a < at_once; ++a) WEFT_UNROLL
        for (int c = 0; c < columns_at_once; ++c) {
          const int k = first + a, l = (first_column + c) * threads + thread, place = place_of(l / n, l % n);
          real& of_t = t[first_column + c][WEFT_SLOT(thread)][k];
          apply_factors_with_product(geometry, metrics[c], k, lambda, real(0), r[a][c], s[a][c], of_t,
                                     product[WEFT_SLOT(thread)]);
          at_r[k][place] = r[a][c];
          at_s[k][place] = s[a][c];
          if (k >= unstashed) stash[k - unstashed][l] = of_t;
        }
      }
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, threads) { load_parts<true>(table, reference, thread, parts); }
  WEFT_NO_UNROLL
  for (int l = 0; l < layers_of_warp; ++l) {
    Layer flux, out;
    WEFT_THREADS(thread, threads) {
      const Own own = own_of(thread);
      take(at_r[own.layer + l], at_s[own.layer + l], own, thread, flux);
    }
    multiply(parts, flux, out);
    WEFT_THREADS(thread, threads) {
      const Own own = own_of(thread);
      each_point(own, out, thread, [&](int place, real r, real s) { at_r[own.layer + l][place] = r + s; });
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, threads) {
    WEFT_UNROLL
    for (int c = 0; c < columns; ++c) {
      const int l = c * threads + thread, place = place_of(l / n, l % n);
      const long first = static_cast<long>(block) * points + l;
      WEFT_UNROLL
      for (int k = unstashed; k < n; ++k) t[c][WEFT_SLOT(thread)][k] = stash[k - unstashed][l];
      real out[n];
      differentiate<true>(d, t[c][WEFT_SLOT(thread)], out);
      if (inverse_degree != nullptr) {  // x is read again, because registers are scarce
        WEFT_UNROLL
        for (int k = 0; k < n; ++k) {
          const real u = x[index[first + k * face]], screening = lambda * inverse_degree[first + k * face] * u;
          out[k] += screening;
          if (with_product) product[WEFT_SLOT(thread)] += screening * u;
        }
      }
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) y[first + k * face] = at_r[k][place] + out[k];
    }
  }
  store_product<threads>(product, at_r, block, products);
}

}  // namespace
