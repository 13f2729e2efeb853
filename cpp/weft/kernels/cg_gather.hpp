// r -= alpha A p together with the last sums of A p = Z^T y_L + lambda p, so that A p is never stored: on one rank, and
// where p . A p is known from the kernel that made y_L (poisson_product.hpp).
//
// Bytes in double precision: 12 per point (value, column) and 20 per DOF (offset, r read and written), plus 8 per DOF
// for p if lambda is not 0.
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/cg_scalars.hpp"
#include "weft/kernels/gather_entries.hpp"

// partials[block] = sum of r r of the new r, partials[blocks + block] = sum of r d r, if d is not null
WEFT_FUNCTION void subtract_sums(int block, long n, long blocks, real a, const int* WEFT_RESTRICT offsets,
                                 const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points, real lambda,
                                 const real* WEFT_RESTRICT p, const real* WEFT_RESTRICT inverse_diagonal,
                                 real* WEFT_RESTRICT r, double* WEFT_RESTRICT partials) {
  static_assert(gather_threads == cg_threads, "the sums of a block are those of its threads");
  WEFT_SHARED(double, shared[2][cg_threads]);
  double norm[WEFT_SLOTS(cg_threads)] = {};
  double product[WEFT_SLOTS(cg_threads)] = {};
  const real of_p = a * lambda;
  gather_entries(
      block, 0, n, offsets, columns, points, [&](long g) { return lambda == 0 ? r[g] : r[g] - of_p * p[g]; },
      [&]([[maybe_unused]] int t, long g, real own, real sum) {
        const real next = own - a * sum;
        r[g] = next;
        const double square = static_cast<double>(next) * static_cast<double>(next);
        norm[WEFT_SLOT(t)] += square;
        if (inverse_diagonal != nullptr) product[WEFT_SLOT(t)] += square * static_cast<double>(inverse_diagonal[g]);
      });
  block_sum<cg_threads>(norm, shared[0], partials + block);
  if (inverse_diagonal != nullptr) block_sum<cg_threads>(product, shared[1], partials + blocks + block);
}

// As many blocks as of gather_product.
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for < cg_threads, sizeof(real) == 8 ? 64 : 48 >)
WEFT_KERNEL(cg_gathered_residual, cg_threads,
            (long n, long blocks, const double* WEFT_RESTRICT scalars, const int* WEFT_RESTRICT offsets,
             const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points, real lambda,
             const real* WEFT_RESTRICT p, const real* WEFT_RESTRICT inverse_diagonal, real* WEFT_RESTRICT r,
             double* WEFT_RESTRICT partials)) {
  subtract_sums(WEFT_BLOCK, n, blocks, static_cast<real>(scalars[alpha]), offsets, columns, points, lambda, p,
                inverse_diagonal, r, partials);
}

// A small problem: every block adds up the partial sums of p . A p for itself, because that takes less time than
// another launch. Where many blocks follow each other on a multiprocessor, it takes more.
WEFT_KERNEL(cg_small_gathered_residual, cg_threads,
            (long n, long blocks, long count, const double* WEFT_RESTRICT products, double* scalars,
             const int* WEFT_RESTRICT offsets, const int* WEFT_RESTRICT columns, const real* WEFT_RESTRICT points,
             real lambda, const real* WEFT_RESTRICT p, const real* WEFT_RESTRICT inverse_diagonal,
             real* WEFT_RESTRICT r, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  WEFT_SHARED(double, sums[1]);
  const double a = own_step(WEFT_BLOCK, count, products, shared, sums, scalars);
  subtract_sums(WEFT_BLOCK, n, blocks, static_cast<real>(a), offsets, columns, points, lambda, p, inverse_diagonal, r,
                partials);
}
