// Vector kernels: streaming operations on n entries. All of them are memory-bound; words moved per entry are in
// brackets.
//
// Launch them with vector_blocks(n) blocks of vector_threads threads (device/vector.hpp). A block processes a fixed
// chunk of consecutive entries. So its partial sum, and with the sum over blocks in order every dot product, is the
// same on any number of host threads and from run to run. Sums are in double precision for both precisions.
#include "weft/kernels/vector_entries.hpp"

// x = a   [1]
WEFT_KERNEL(set, vector_threads, (long n, real a, real* WEFT_RESTRICT x)){WEFT_ENTRIES(i, n, x[i] = a)}

// y = x   [2]
WEFT_KERNEL(copy, vector_threads,
            (long n, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)){WEFT_ENTRIES(i, n, y[i] = x[i])}

// x = a x   [2]
WEFT_KERNEL(scale, vector_threads, (long n, real a, real* WEFT_RESTRICT x)){WEFT_ENTRIES(i, n, x[i] *= a)}

// x += a   [2]
WEFT_KERNEL(shift, vector_threads, (long n, real a, real* WEFT_RESTRICT x)){WEFT_ENTRIES(i, n, x[i] += a)}

// y = a x + y   [3]
WEFT_KERNEL(axpy, vector_threads,
            (long n, real a, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)){WEFT_ENTRIES(i, n, y[i] += a * x[i])}

// y = a x + b y   [3]
WEFT_KERNEL(axpby, vector_threads, (long n, real a, const real* WEFT_RESTRICT x, real b, real* WEFT_RESTRICT y)){
    WEFT_ENTRIES(i, n, y[i] = a * x[i] + b * y[i])}

// z += x y, entry by entry   [4]
WEFT_KERNEL(multiply_add, vector_threads,
            (long n, const real* WEFT_RESTRICT x, const real* WEFT_RESTRICT y, real* WEFT_RESTRICT z)){
    WEFT_ENTRIES(i, n, z[i] += x[i] * y[i])}

// z = x y, entry by entry   [3]
WEFT_KERNEL(multiply, vector_threads,
            (long n, const real* WEFT_RESTRICT x, const real* WEFT_RESTRICT y, real* WEFT_RESTRICT z)){
    WEFT_ENTRIES(i, n, z[i] = x[i] * y[i])}

// partials[block] = sum of x y over the block's entries   [2]
WEFT_KERNEL(dot, vector_threads,
            (long n, const real* WEFT_RESTRICT x, const real* WEFT_RESTRICT y, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  double sums[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES(i, n, sums[WEFT_SLOT(weft_t)] += static_cast<double>(x[i]) * static_cast<double>(y[i]))
  block_sum<vector_threads>(sums, shared, partials + WEFT_BLOCK);
}

// partials[block] = sum of w x y: the inner product of vectors that hold some points more than once   [3]
WEFT_KERNEL(weighted_dot, vector_threads,
            (long n, const real* WEFT_RESTRICT w, const real* WEFT_RESTRICT x, const real* WEFT_RESTRICT y,
             double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  double sums[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES(
      i, n,
      sums[WEFT_SLOT(weft_t)] += static_cast<double>(w[i]) * static_cast<double>(x[i]) * static_cast<double>(y[i]))
  block_sum<vector_threads>(sums, shared, partials + WEFT_BLOCK);
}

// Vectors of one launch. An index unknown at compile time would move them to the stack, so they are taken by unrolled
// loops.
constexpr int most_vectors = 16;
struct Pairs {
  const real *x[most_vectors], *y[most_vectors];
};
struct Terms {
  double a[most_vectors];
  const real* x[most_vectors];
};

// partials[k][block] = sum of x_k y_k for k < count, or of w x_k y_k unless w is null; count blocks per chunk.
// [2 count]
WEFT_KERNEL(dots, vector_threads,
            (long n, int count, Pairs pairs, const real* WEFT_RESTRICT w, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  const int k = WEFT_BLOCK % count, block = WEFT_BLOCK / count;
  const long blocks = (n + vector_chunk - 1) / vector_chunk;
  const real *x = pairs.x[0], *y = pairs.y[0];
  WEFT_UNROLL
  for (int other = 1; other < most_vectors; ++other) {
    x = other == k ? pairs.x[other] : x;
    y = other == k ? pairs.y[other] : y;
  }
  double sums[WEFT_SLOTS(vector_threads)] = {};
  if (w == nullptr) {
    WEFT_ENTRIES_OF(block, i, n, sums[WEFT_SLOT(weft_t)] += static_cast<double>(x[i]) * static_cast<double>(y[i]))
  } else {
    WEFT_ENTRIES_OF(
        block, i, n,
        sums[WEFT_SLOT(weft_t)] += static_cast<double>(w[i]) * static_cast<double>(x[i]) * static_cast<double>(y[i]))
  }
  block_sum<vector_threads>(sums, shared, partials + k * blocks + block);
}

// y += sum of a_k x_k over k < count   [count + 2]
WEFT_KERNEL(add_terms, vector_threads, (long n, int count, Terms terms, real* WEFT_RESTRICT y)) {
  real sums[WEFT_SLOTS(vector_threads)];
  for (long begin = 0; begin < vector_chunk; begin += vector_threads) {
    const long first = static_cast<long>(WEFT_BLOCK) * vector_chunk + begin;
    WEFT_THREADS(t, vector_threads) { sums[WEFT_SLOT(t)] = first + t < n ? y[first + t] : real(0); }
    WEFT_UNROLL
    for (int k = 0; k < most_vectors; ++k) {
      if (k < count) {
        const real a = static_cast<real>(terms.a[k]);
        const real* const x = terms.x[k];
        WEFT_THREADS(t, vector_threads) {
          if (first + t < n) sums[WEFT_SLOT(t)] += a * x[first + t];
        }
      }
    }
    WEFT_THREADS(t, vector_threads) {
      if (first + t < n) y[first + t] = sums[WEFT_SLOT(t)];
    }
  }
}

// partials[block] = sum of x   [1]
WEFT_KERNEL(total, vector_threads, (long n, const real* WEFT_RESTRICT x, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  double sums[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES(i, n, sums[WEFT_SLOT(weft_t)] += static_cast<double>(x[i]))
  block_sum<vector_threads>(sums, shared, partials + WEFT_BLOCK);
}

// CG's residual update with its norm: r = r - a Ap; partials[block] = sum of r r   [3]
WEFT_KERNEL(update_residual, vector_threads,
            (long n, real a, const real* WEFT_RESTRICT ap, real* WEFT_RESTRICT r, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[vector_threads]);
  double sums[WEFT_SLOTS(vector_threads)] = {};
  WEFT_ENTRIES(i, n, const real next = r[i] - a * ap[i]; r[i] = next;
               sums[WEFT_SLOT(weft_t)] += static_cast<double>(next) * static_cast<double>(next))
  block_sum<vector_threads>(sums, shared, partials + WEFT_BLOCK);
}

// sums[s] = sum of partials[s][0 .. count), one block per s, in a fixed order   [1]
WEFT_KERNEL(sum, vector_threads, (long count, const double* WEFT_RESTRICT partials, double* WEFT_RESTRICT sums)) {
  WEFT_SHARED(double, shared[vector_threads]);
  double mine[WEFT_SLOTS(vector_threads)] = {};
  for (long begin = 0; begin < count; begin += vector_threads) {
    WEFT_THREADS(t, vector_threads) {
      if (begin + t < count) mine[WEFT_SLOT(t)] += partials[WEFT_BLOCK * count + begin + t];
    }
  }
  block_sum<vector_threads>(mine, shared, sums + WEFT_BLOCK);
}
