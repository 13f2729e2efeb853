// Z^T on one rank: local points summed into their degrees of freedom, and with it the inner product of x and Z^T y_L.
#include "weft/kernels/block_sum.hpp"
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int gather_threads = 256;
constexpr int gather_chunk = 1024;  // consecutive degrees of freedom of a block: its partial sum is fixed

WEFT_FUNCTION real gather_row(long g, const int* WEFT_RESTRICT offsets, const int* WEFT_RESTRICT columns,
                              const real* WEFT_RESTRICT points) {
  real sum = 0;
  for (int q = offsets[g]; q < offsets[g + 1]; ++q) sum += points[columns[q]];
  return sum;
}

// y[g] = lambda x[g] + the sum of points[columns[offsets[g] .. offsets[g + 1])] for g in [begin, end), in that order;
// without x, the sum alone. Bytes: 12 a point (value, column) and 12 a DOF (offset, y) in double, hipBone's count
// before Eq. 5, and 8 a DOF for x.
WEFT_KERNEL(gather_points, gather_threads,
            (long begin, long end, const int* WEFT_RESTRICT offsets, const int* WEFT_RESTRICT columns,
             const real* WEFT_RESTRICT points, real lambda, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  for (int k = 0; k < gather_chunk; k += gather_threads) {
    WEFT_THREADS(t, gather_threads) {
      const long g = begin + static_cast<long>(WEFT_BLOCK) * gather_chunk + k + t;
      if (g < end) {
        const real sum = gather_row(g, offsets, columns, points);
        y[g] = x == nullptr ? sum : sum + lambda * x[g];
      }
    }
  }
}

// The same of `fields` fields, points [fields][points_field], x and y [fields][entries]: offsets and columns come from
// memory once.
WEFT_KERNEL(gather_fields, gather_threads,
            (long begin, long end, int fields, long points_field, long entries, const int* WEFT_RESTRICT offsets,
             const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points, real lambda,
             const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  for (int k = 0; k < gather_chunk; k += gather_threads) {
    WEFT_THREADS(t, gather_threads) {
      const long g = begin + static_cast<long>(WEFT_BLOCK) * gather_chunk + k + t;
      if (g < end) {
        WEFT_NO_UNROLL
        for (int f = 0; f < fields; ++f) {
          const real sum = gather_row(g, offsets, columns, points + f * points_field);
          y[f * entries + g] = x == nullptr ? sum : sum + lambda * x[f * entries + g];
        }
      }
    }
  }
}

// The same as gather_points, and partials[block] = sum of x y over the block's degrees of freedom. Over all local ones,
// halo included, and all ranks these add up to x . A x before any exchange of y: every point of every rank is in one
// sum once.
WEFT_KERNEL(gather_product, gather_threads,
            (long begin, long end, const int* WEFT_RESTRICT offsets, const int* WEFT_RESTRICT columns,
             const real* WEFT_RESTRICT points, real lambda, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y,
             double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[gather_threads]);
  double sums[WEFT_SLOTS(gather_threads)] = {};
  for (int k = 0; k < gather_chunk; k += gather_threads) {
    WEFT_THREADS(t, gather_threads) {
      const long g = begin + static_cast<long>(WEFT_BLOCK) * gather_chunk + k + t;
      if (g < end) {
        const real own = x[g];
        const real value = gather_row(g, offsets, columns, points) + lambda * own;
        y[g] = value;
        sums[WEFT_SLOT(t)] += static_cast<double>(own) * static_cast<double>(value);
      }
    }
  }
  block_sum<gather_threads>(sums, shared, partials + WEFT_BLOCK);
}
