// The vector work of smoothers and Krylov methods, in one pass each. Launched like kernels/vector.hpp, with the same
// chunks and sums; words moved per entry are in brackets.
#include "weft/kernels/vector_entries.hpp"

// r = b - y   [3]
WEFT_KERNEL(difference, vector_threads,
            (long n, const real* WEFT_RESTRICT b, const real* WEFT_RESTRICT y, real* WEFT_RESTRICT r)){
    WEFT_ENTRIES(i, n, r[i] = b[i] - y[i])}

// A Chebyshev step with a pointwise preconditioner m: z = a z + c m r, x += s z; x = s z if it starts from 0. first: z
// = c m r, whatever z holds.   [5 to 6]
WEFT_KERNEL(chebyshev_jacobi, vector_threads,
            (long n, int first, int zero, real a, real c, real s, const real* WEFT_RESTRICT m,
             const real* WEFT_RESTRICT r, real* WEFT_RESTRICT z, real* WEFT_RESTRICT x)) {
  WEFT_ENTRIES(i, n, const real d = (first ? real(0) : a * z[i]) + c * m[i] * r[i]; z[i] = d;
               x[i] = zero ? s * d : x[i] + s * d)
}

// The same if the preconditioned residual p = M r has been computed already.   [5]
WEFT_KERNEL(chebyshev_step, vector_threads,
            (long n, int first, int zero, real a, real c, real s, const real* WEFT_RESTRICT p, real* WEFT_RESTRICT z,
             real* WEFT_RESTRICT x)) {
  WEFT_ENTRIES(i, n, const real d = (first ? real(0) : a * z[i]) + c * p[i]; z[i] = d;
               x[i] = zero ? s * d : x[i] + s * d)
}

// Copies between vectors whose entries are in different orders: entry i of x or y is map[i] of the other.
WEFT_KERNEL(take_entries, vector_threads,
            (long n, const int* WEFT_RESTRICT map, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)){
    WEFT_ENTRIES(i, n, y[i] = x[map[i]])}

WEFT_KERNEL(put_entries, vector_threads,
            (long n, const int* WEFT_RESTRICT map, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)){
    WEFT_ENTRIES(i, n, y[map[i]] = x[i])}

// The same between vectors in double and in this precision.
WEFT_KERNEL(to_double, vector_threads,
            (long n, const int* WEFT_RESTRICT map, const real* WEFT_RESTRICT x, double* WEFT_RESTRICT y)){
    WEFT_ENTRIES(i, n, y[map[i]] = static_cast<double>(x[i]))}

WEFT_KERNEL(from_double, vector_threads,
            (long n, const int* WEFT_RESTRICT map, const double* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  WEFT_ENTRIES(i, n, y[i] = static_cast<real>(x[map[i]]))
}
