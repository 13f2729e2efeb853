// y_L = (S_L + lambda W) Z x by products of matrices, for elements whose metric is recomputed and n = 4, 8 or 16 points
// per line (poisson_layers.hpp). Arguments are those of the *_2d kernels of poisson.hpp; the index must be given.
//
// With n = 4 or 8, a warp holds a layer of points as an 8 x 8 matrix, of one element or of several next to each other;
// each thread has two neighbouring points along r. Derivatives along r and s are products of matrices, for which some
// GPUs have FP64 tensor cores; along t, each thread differentiates its own columns. Therefore lines need not pass
// through shared memory, and the warps of a block do not wait for each other.
//
//   u_r = u D^T and u_s = D u; with the fluxes f_r, f_s and f_t, y = f_r D + D^T f_s + f_t D
//
// weft_multiply_transposed takes the transpose of its right factor, so layers of u and f_s are transposed through
// shared memory.
#if WEFT_N == 15
#include "weft/kernels/poisson_layers.hpp"
#else
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/even_odd.hpp"
#include "weft/kernels/memory_hints.hpp"
#include "weft/kernels/poisson_metric.hpp"
#include "weft/kernels/poisson_product.hpp"

namespace {

constexpr int size = 8;
static_assert(size % n == 0, "elements fill the matrix");
constexpr int per_side = size / n;  // elements along each side of the matrix
constexpr int of_warp = per_side * per_side;
constexpr int warps = (tile + of_warp - 1) / of_warp;
constexpr int threads = 32 * warps;

// Two neighbouring points along r, or one point in two layers: one instruction loads or stores both.
template <class T>
struct alignas(2 * sizeof(T)) Two {
  T values[2];
};

// The element of a thread's two points, and their column and row in it. Threads without an element read the geometry of
// the first one and have u = 0.
struct Place {
  int element, i, j;
  bool live;
};
WEFT_FUNCTION Place place_of(int block, int count, int thread) {
  const int row = thread % 32 / 4, column = thread % 4 * 2;
  const int of_block = thread / 32 * of_warp + row / n * per_side + column / n, element = block * tile + of_block;
  const bool live = (tile % of_warp == 0 || of_block < tile) && element < count;
  return {live ? element : 0, column % n, row % n, live};
}
// The position of the values of the two points in layer k.
WEFT_FUNCTION long layer_of(const Place& p, int k) {
  return static_cast<long>(p.element) * points + k * face + p.j * n + p.i;
}
template <class T>
WEFT_FUNCTION Two<T> load(const T* WEFT_RESTRICT values, long at) {
  return *reinterpret_cast<const Two<T>*>(values + at);
}

// D for all elements that share a matrix: block-diagonal.
WEFT_FUNCTION real derivative(const real* d, int row, int column) {
  return row / n == column / n ? d[row % n * n + column % n] : real(0);
}

// Two layers of a warp, from which a thread takes its own points or those of the transposed layers. No access has bank
// conflicts.
struct Layers {
  Two<real> values[size][size + 1];  // by row and column
};
WEFT_FUNCTION void put(Layers& layers, int thread, const real (&first)[2], const real (&second)[2]) {
  WEFT_UNROLL
  for (int e = 0; e < 2; ++e) layers.values[thread % 32 / 4][thread % 4 * 2 + e] = {first[e], second[e]};
}
template <bool transposed>
WEFT_FUNCTION void take(const Layers& layers, int thread, real (&first)[2], real (&second)[2]) {
  WEFT_UNROLL
  for (int e = 0; e < 2; ++e) {
    const int row = thread % 32 / 4, column = thread % 4 * 2 + e;
    const Two<real> both = transposed ? layers.values[column][row] : layers.values[row][column];
    first[e] = both.values[0];
    second[e] = both.values[1];
  }
}

// apply_factors(); adds the point's part of the product. Parts are added one by one, which takes fewer registers.
template <class Geometry, class Column>
WEFT_FUNCTION void apply_metric(const Geometry& geometry, const Column& column, int k, real& r, real& s, real& t,
                                real& product) {
  const real along_r = r, along_s = s, along_t = t;
  apply_factors(geometry, column, k, real(0), r, s, t);
  if (!with_product) return;
  product += along_r * r;
  product += along_s * s;
  product += along_t * t;
}

// The number of layers in one pass of the loop over layers. With the product of parallelepipeds, compilers take far
// more registers if they see all layers at once.
template <class Geometry>
constexpr int layers_at_once = n;
template <>
constexpr int layers_at_once<AffineColumns> = with_product ? 2 : n;

template <int resident, class Geometry>
WEFT_FUNCTION void apply_matrices(int block, int count, int fields, const Splitting& d, const Geometry& geometry,
                                  const real* WEFT_RESTRICT reference, const real* WEFT_RESTRICT inverse_degree,
                                  real lambda, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x,
                                  real* WEFT_RESTRICT y, double* WEFT_RESTRICT products) {
  // Here and not in registers, which are scarce:
  WEFT_SHARED(Layers, layers[warps][n / 2]);    // u, then the flux along s, then the terms of y along r and s
  WEFT_SHARED(Two<real>, along_t[n][threads]);  // du/dt, then its flux
  real along[WEFT_SLOTS(threads)][2], back[WEFT_SLOTS(threads)][2];  // D and D^T
  decltype(column_of(geometry, 0, 0, 0)) columns[WEFT_SLOTS(threads)][2];
  real product[WEFT_SLOTS(threads)] = {};

  WEFT_THREADS(thread, threads) {
    if (thread == 0) {
      const int first = block * tile, left = count - first;
      prefetch_values(reference, reference + n * n, false);
      prefetch(geometry, first, left < tile ? left : tile);
    }
#if defined(__CUDA_ARCH__)
    __syncwarp();  // compilers would move loads ahead of the prefetches
#endif
    const Place p = place_of(block, count, thread);
    real u[n][2], slopes[2][n];
    WEFT_UNROLL
    for (int k = 0; k < n; ++k) {
      const Two<int> from = load(index, layer_of(p, k));
      WEFT_UNROLL
      for (int e = 0; e < 2; ++e) u[k][e] = p.live ? x[from.values[e]] : real(0);
    }
    WEFT_UNROLL
    for (int k = 0; k < n; k += 2) put(layers[thread / 32][k / 2], thread, u[k], u[k + 1]);
    WEFT_UNROLL
    for (int e = 0; e < 2; ++e) {
      real line[n];
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) line[k] = u[k][e];
      differentiate<false>(d, line, slopes[e]);
    }
    WEFT_UNROLL
    for (int k = 0; k < n; ++k) along_t[k][thread] = {slopes[0][k], slopes[1][k]};
    prefetch_for_successor<resident, threads>(geometry, block, count, fields, index, thread);
  }
  WEFT_WARP_BARRIER();
  WEFT_THREADS(thread, threads) {
    const Place p = place_of(block, count, thread);
    WEFT_UNROLL
    for (int e = 0; e < 2; ++e) columns[WEFT_SLOT(thread)][e] = column_of(geometry, p.element, p.i + e, p.j);
    const int lane = thread & 31, row = lane / 4;
    WEFT_UNROLL
    for (int e = 0; e < 2; ++e) {
      const int column = lane % 4 * 2 + e;
      along[WEFT_SLOT(thread)][e] = derivative(reference, row, column);
      back[WEFT_SLOT(thread)][e] = derivative(reference, column, row);
    }
  }
  WEFT_NO_UNROLL
  for (int begin = 0; begin < n; begin += layers_at_once<Geometry>) WEFT_UNROLL
  for (int first = begin; first < begin + layers_at_once<Geometry>; first += 2) {
    real own[2][WEFT_SLOTS(threads)][2], turned[2][WEFT_SLOTS(threads)][2];  // u; then y and the flux along s
    real r[2][WEFT_SLOTS(threads)][2], s[2][WEFT_SLOTS(threads)][2];
    WEFT_THREADS(thread, threads) {
      const Layers& u = layers[thread / 32][first / 2];
      take<false>(u, thread, own[0][WEFT_SLOT(thread)], own[1][WEFT_SLOT(thread)]);
      take<true>(u, thread, turned[0][WEFT_SLOT(thread)], turned[1][WEFT_SLOT(thread)]);
      WEFT_UNROLL
      for (int l = 0; l < 2; ++l) WEFT_UNROLL
      for (int e = 0; e < 2; ++e) r[l][WEFT_SLOT(thread)][e] = s[l][WEFT_SLOT(thread)][e] = 0;
    }
    WEFT_UNROLL
    for (int l = 0; l < 2; ++l) {
      weft_multiply_transposed(r[l], own[l], along);
      weft_multiply_transposed(s[l], along, turned[l]);
    }
    WEFT_THREADS(thread, threads) {
      WEFT_UNROLL
      for (int l = 0; l < 2; ++l) {
        const int k = first + l;
        Two<real> t = along_t[k][thread];
        WEFT_UNROLL
        for (int e = 0; e < 2; ++e) {
          apply_metric(geometry, columns[WEFT_SLOT(thread)][e], k, r[l][WEFT_SLOT(thread)][e],
                       s[l][WEFT_SLOT(thread)][e], t.values[e], product[WEFT_SLOT(thread)]);
          own[l][WEFT_SLOT(thread)][e] = 0;
        }
        along_t[k][thread] = t;
      }
      // All threads of the warp have taken u, since the products needed it.
      put(layers[thread / 32][first / 2], thread, s[0][WEFT_SLOT(thread)], s[1][WEFT_SLOT(thread)]);
    }
    WEFT_WARP_BARRIER();
    WEFT_THREADS(thread, threads) {
      take<true>(layers[thread / 32][first / 2], thread, turned[0][WEFT_SLOT(thread)], turned[1][WEFT_SLOT(thread)]);
    }
    WEFT_UNROLL
    for (int l = 0; l < 2; ++l) {
      weft_multiply_transposed(own[l], r[l], back);
      weft_multiply_transposed(own[l], back, turned[l]);
    }
    WEFT_THREADS(thread, threads) {
      put(layers[thread / 32][first / 2], thread, own[0][WEFT_SLOT(thread)], own[1][WEFT_SLOT(thread)]);
    }
  }
  WEFT_THREADS(thread, threads) {
    const Place p = place_of(block, count, thread);
    real out[n][2];
    WEFT_UNROLL
    for (int k = 0; k < n; k += 2) take<false>(layers[thread / 32][k / 2], thread, out[k], out[k + 1]);
    WEFT_UNROLL
    for (int e = 0; e < 2; ++e) {
      real line[n], flux[n];
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) line[k] = along_t[k][thread].values[e];
      differentiate<true>(d, line, flux);
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) out[k][e] += flux[k];
    }
    if (inverse_degree != nullptr && p.live) {  // x is read again, because registers are scarce
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) {
        const Two<int> from = load(index, layer_of(p, k));
        const Two<real> degrees = load(inverse_degree, layer_of(p, k));
        WEFT_UNROLL
        for (int e = 0; e < 2; ++e) {
          const real u = x[from.values[e]], screening = lambda * degrees.values[e] * u;
          out[k][e] += screening;
          if (with_product) product[WEFT_SLOT(thread)] += screening * u;
        }
      }
    }
    if (p.live) {
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) *reinterpret_cast<Two<real>*>(y + layer_of(p, k)) = {out[k][0], out[k][1]};
    }
  }
  if (with_product && products != nullptr) WEFT_WARP_BARRIER();
  store_product<threads>(product, layers, block, products);
}

}  // namespace
#endif

// With n = 4 or 8, a block is a single warp, of which a multiprocessor's four schedulers should have the same number.
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (n == 16 ? blocks_for < threads, sm_80 || (with_product && sm_100) ? 248 : 168 > : 16)
WEFT_KERNEL(poisson_trilinear_matrix, threads,
            (int count, Splitting d, Nodes nodes, const real* reference, const real* maps, const real* inverse_degree,
             real lambda, const int* index, int fields, long x_field, long y_field, const real* x, real* y,
             double* products)) {
  const int field = WEFT_BLOCK % fields;
  apply_matrices<(WEFT_MIN_BLOCKS)>(WEFT_BLOCK / fields, count, fields, d,
                                    TrilinearColumns{maps, reference + n * n, nodes, nullptr}, reference,
                                    inverse_degree, lambda, index, x + field * x_field, y + field * y_field, products);
}
#if WEFT_N == 15
WEFT_LAUNCH_SHARED(poisson_trilinear_matrix, launch_bytes<TrilinearColumns>);
#endif

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS \
  (n == 16 ? blocks_for < threads, sm_80 ? 248 : 168 > : with_product ? 20 : n == 4 && !sm_100 ? 28 : 24)
WEFT_KERNEL(poisson_affine_matrix, threads,
            (int count, Splitting d, Nodes nodes, const real* reference, const real* metrics,
             const real* inverse_degree, real lambda, const int* index, int fields, long x_field, long y_field,
             const real* x, real* y, double* products)) {
  const int field = WEFT_BLOCK % fields;
  apply_matrices<(WEFT_MIN_BLOCKS)>(WEFT_BLOCK / fields, count, fields, d,
                                    AffineColumns{{metrics, reference + n * n + n, nullptr}, nodes}, reference,
                                    inverse_degree, lambda, index, x + field * x_field, y + field * y_field, products);
}
#if WEFT_N == 15
WEFT_LAUNCH_SHARED(poisson_affine_matrix, launch_bytes<AffineColumns>);
#endif
