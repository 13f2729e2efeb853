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

// *result = sum of partials[0 .. count), by one block, in a fixed order   [1]
WEFT_KERNEL(sum, vector_threads, (long count, const double* WEFT_RESTRICT partials, double* WEFT_RESTRICT result)) {
  WEFT_SHARED(double, shared[vector_threads]);
  double sums[WEFT_SLOTS(vector_threads)] = {};
  for (long begin = 0; begin < count; begin += vector_threads) {
    WEFT_THREADS(t, vector_threads) {
      if (begin + t < count) sums[WEFT_SLOT(t)] += partials[begin + t];
    }
  }
  block_sum<vector_threads>(sums, shared, result);
}
