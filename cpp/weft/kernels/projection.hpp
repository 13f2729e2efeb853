// Projections of vectors onto the span of others. Launched like kernels/vector.hpp; words moved per entry are in
// brackets.
#include "weft/kernels/vector_entries.hpp"

constexpr int max_vectors = 16;
struct Coefficients {
  double a[max_vectors];
};

// partials[k][block] = sum of basis_k y for k < count, basis [count][entries], and of y y for k = count. A chunk has
// count + 1 consecutive blocks, so that y comes from memory once.   [count + 1]
WEFT_KERNEL(projection_products, vector_threads,
            (long n, long entries, int count, const real* WEFT_RESTRICT basis, const real* WEFT_RESTRICT y,
             double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  const int k = WEFT_BLOCK % (count + 1), block = WEFT_BLOCK / (count + 1);
  const long blocks = (n + vector_chunk - 1) / vector_chunk;
  const real* const x = k < count ? basis + k * entries : y;
  double sums[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES_OF(block, i, n, sums[WEFT_SLOT(weft_t)] += static_cast<double>(x[i]) * static_cast<double>(y[i]))
  block_sum<vector_threads>(sums, shared, partials + k * blocks + block);
}

// y = scale y + sum of a_k basis_k over k < count; if scale = 0, y may hold anything.   [count + 2]
WEFT_KERNEL(projection_combine, vector_threads,
            (long n, long entries, int count, Coefficients coefficients, real scale, const real* WEFT_RESTRICT basis,
             real* WEFT_RESTRICT y)) {
  real sums[WEFT_SLOTS(vector_threads)];
  for (long begin = 0; begin < vector_chunk; begin += vector_threads) {
    const long first = static_cast<long>(WEFT_BLOCK) * vector_chunk + begin;
    WEFT_THREADS(t, vector_threads) {
      sums[WEFT_SLOT(t)] = scale == real(0) || first + t >= n ? real(0) : scale * y[first + t];
    }
    // Unrolled, because an index unknown at compile time would move the kernel's parameters to the stack.
    WEFT_UNROLL
    for (int k = 0; k < max_vectors; ++k) {
      if (k < count) {
        const real a = static_cast<real>(coefficients.a[k]);
        WEFT_THREADS(t, vector_threads) {
          if (first + t < n) sums[WEFT_SLOT(t)] += a * basis[k * entries + first + t];
        }
      }
    }
    WEFT_THREADS(t, vector_threads) {
      if (first + t < n) y[first + t] = sums[WEFT_SLOT(t)];
    }
  }
}

// The basis becomes kept <= count combinations of itself: new basis_m = sum of q[k][m] basis_k, q [count][kept]. A
// thread has its own column of the tile, so no barrier is needed.   [count + kept]
WEFT_KERNEL(projection_rotate, vector_threads,
            (long n, long entries, int count, int kept, const double* WEFT_RESTRICT q, real* basis)) {
  WEFT_SHARED(real, tile[max_vectors][vector_threads]);
  for (long begin = 0; begin < vector_chunk; begin += vector_threads) {
    const long first = static_cast<long>(WEFT_BLOCK) * vector_chunk + begin;
    for (int k = 0; k < count; ++k) {
      WEFT_THREADS(t, vector_threads) { tile[k][t] = first + t < n ? basis[k * entries + first + t] : real(0); }
    }
    for (int m = 0; m < kept; ++m) {
      real sums[WEFT_SLOTS(vector_threads)] = {};
      for (int k = 0; k < count; ++k) {
        const real a = static_cast<real>(q[k * kept + m]);
        WEFT_THREADS(t, vector_threads) { sums[WEFT_SLOT(t)] += a * tile[k][t]; }
      }
      WEFT_THREADS(t, vector_threads) {
        if (first + t < n) basis[m * entries + first + t] = sums[WEFT_SLOT(t)];
      }
    }
  }
}
