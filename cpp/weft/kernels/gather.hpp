// Z^T on one rank: local points are summed into their degrees of freedom, optionally with the inner product of x and
// Z^T y_L.
#include "weft/kernels/block_sum.hpp"
#include "weft/kernels/gather_entries.hpp"

// y[g] = lambda x[g] + the sum of points[columns[offsets[g] .. offsets[g + 1])] for g in [begin, end), in that order;
// without x, the sum alone. Bytes in double precision: 12 per point (value, column) and 12 per DOF (offset, y), as
// hipBone counts before Eq. 5, plus 8 per DOF for x.
WEFT_KERNEL(gather_points, gather_threads,
            (long begin, long end, const int* WEFT_RESTRICT offsets, const int* WEFT_RESTRICT columns,
             const real* WEFT_RESTRICT points, real lambda, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  gather_entries(
      WEFT_BLOCK, begin, end, offsets, columns, points, [&](long g) { return x == nullptr ? real(0) : x[g]; },
      [&](int, long g, real own, real sum) { y[g] = x == nullptr ? sum : sum + lambda * own; });
}

// The same for `fields` fields, points [fields][points_field], x and y [fields][entries]: offsets and columns come from
// memory once.
WEFT_KERNEL(gather_fields, gather_threads,
            (long begin, long end, int fields, long points_field, long entries, const int* WEFT_RESTRICT offsets,
             const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points, real lambda,
             const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y)) {
  WEFT_NO_UNROLL
  for (int f = 0; f < fields; ++f) {
    const real* added = x == nullptr ? nullptr : x + f * entries;
    gather_entries(
        WEFT_BLOCK, begin, end, offsets, columns, points + f * points_field,
        [&](long g) { return x == nullptr ? real(0) : added[g]; },
        [&](int, long g, real own, real sum) { y[f * entries + g] = x == nullptr ? sum : sum + lambda * own; });
  }
}

// The same as gather_points, and partials[block] = sum of x y over the block's degrees of freedom. Summed over all
// local ones, halo included, and over all ranks, these give x . A x before any exchange of y, because every point of
// every rank is in exactly one sum.
WEFT_KERNEL(gather_product, gather_threads,
            (long begin, long end, const int* WEFT_RESTRICT offsets, const int* WEFT_RESTRICT columns,
             const real* WEFT_RESTRICT points, real lambda, const real* WEFT_RESTRICT x, real* WEFT_RESTRICT y,
             double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[gather_threads]);
  double sums[WEFT_SLOTS(gather_threads)] = {};
  gather_entries(
      WEFT_BLOCK, begin, end, offsets, columns, points, [&](long g) { return x[g]; },
      [&]([[maybe_unused]] int t, long g, real own, real sum) {
        const real value = sum + lambda * own;
        y[g] = value;
        sums[WEFT_SLOT(t)] += static_cast<double>(own) * static_cast<double>(value);
      });
  block_sum<gather_threads>(sums, shared, partials + WEFT_BLOCK);
}
