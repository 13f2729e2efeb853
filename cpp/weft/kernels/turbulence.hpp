// The rows of turbulence_rows.hpp as kernels: one block per row of kx at a (y, z); in physical space a block does
// several rows.
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/turbulence_rows.hpp"

using real = WEFT_REAL;
using complex = complex_value<real>;
constexpr int mode_threads = 256;

WEFT_KERNEL(velocity_products, row_threads, (products_arguments<real> a, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[row_threads]);
  real largest[WEFT_SLOTS(row_threads)] = {};
  const long rows = static_cast<long>(a.block.count_y) * a.block.count_z;
  for (int r = 0; r < rows_per_block; ++r) {
    const long row = static_cast<long>(WEFT_BLOCK) * rows_per_block + r;
    if (row < rows)
      largest[WEFT_SLOT(0)] = products_row(a, static_cast<int>(row % a.block.count_y),
                                           static_cast<int>(row / a.block.count_y), largest[WEFT_SLOT(0)]);
  }
  WEFT_THREADS(t, row_threads) { shared[t] = static_cast<double>(largest[WEFT_SLOT(t)]); }
  for (int half = row_threads / 2; half > 0; half /= 2) {
    WEFT_BARRIER();
    WEFT_THREADS(t, half) {
      // Not "less than", so that NaN is kept.
      if (t < half && !(shared[t + half] <= shared[t]) && shared[t] == shared[t]) shared[t] = shared[t + half];
    }
  }
  WEFT_THREADS(t, 1) {
    if (t == 0) partials[WEFT_BLOCK] = shared[0];
  }
}

WEFT_KERNEL(combine_products, row_threads, (combine_arguments<real> a)) {
  combine_row(a, WEFT_BLOCK % a.block.count_y, WEFT_BLOCK / a.block.count_y);
}

WEFT_KERNEL(shift_modes, row_threads, (shift_arguments<real> a)) {
  shift_row(a, WEFT_BLOCK % a.block.count_y, WEFT_BLOCK / a.block.count_y);
}

constexpr int advance_budget = sizeof(real) == 8 ? 96 : 64;  // registers per thread: the fewest without spills
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<row_threads, advance_budget>)
WEFT_KERNEL(advance_velocity, row_threads, (advance_arguments<real> a)) {
  advance_row(a, WEFT_BLOCK % a.block.count_y, WEFT_BLOCK / a.block.count_y);
}
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS 1

WEFT_KERNEL(advance_scalar, row_threads, (scalar_arguments<real> a)) {
  scalar_row(a, WEFT_BLOCK % a.block.count_y, WEFT_BLOCK / a.block.count_y);
}

WEFT_KERNEL(mean_gradient, row_threads, (gradient_arguments<real> a)) {
  gradient_row(a, WEFT_BLOCK % a.block.count_y, WEFT_BLOCK / a.block.count_y);
}

WEFT_KERNEL(clean_modes, row_threads, (clean_arguments<real> a)) {
  clean_row(a, WEFT_BLOCK % a.block.count_y, WEFT_BLOCK / a.block.count_y);
}

// values[f n + i] = mode place[i] of field f, and back.
WEFT_KERNEL(gather_modes, mode_threads,
            (long n, int fields, const long* WEFT_RESTRICT place, const complex* WEFT_RESTRICT from, long field,
             complex* WEFT_RESTRICT values)) {
  WEFT_THREADS(t, mode_threads) {
    const long i = static_cast<long>(WEFT_BLOCK) * mode_threads + t;
    if (i < n) {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) values[f * n + i] = from[f * field + place[i]];
    }
  }
}

WEFT_KERNEL(scatter_modes, mode_threads,
            (long n, int fields, const long* WEFT_RESTRICT place, const complex* WEFT_RESTRICT values,
             complex* WEFT_RESTRICT to, long field)) {
  WEFT_THREADS(t, mode_threads) {
    const long i = static_cast<long>(WEFT_BLOCK) * mode_threads + t;
    if (i < n) {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) to[f * field + place[i]] = values[f * n + i];
    }
  }
}
