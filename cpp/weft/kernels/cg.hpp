// The work of conjugate gradients besides the operator, with the scalars in device memory so that no iteration waits
// for the host. A thread processes `rounds` entries, and so a block cg_threads * rounds consecutive ones: for the same
// number of rounds its partial sum is always the same.
//
// A null inverse_diagonal d is the identity (no preconditioner), null weights are ones (assembled vectors). squares, if
// not null, receives lambda p . p of the new p by blocks: what a product that lacks the lambda term of A still needs.
#include "weft/kernels/cg_scalars.hpp"

// r -= a Ap; partials[block] = sum of w r r, partials[blocks + block] = sum of w r d r
WEFT_FUNCTION void subtract(int block, long n, long blocks, int rounds, real a, const real* WEFT_RESTRICT ap,
                            const real* WEFT_RESTRICT inverse_diagonal, const real* WEFT_RESTRICT weights,
                            real* WEFT_RESTRICT r, double* WEFT_RESTRICT partials) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  double norm[WEFT_SLOTS(cg_threads)] = {};
  double product[WEFT_SLOTS(cg_threads)] = {};
  const long begin = static_cast<long>(block) * rounds * cg_threads;
  for (int k = 0; k < rounds; ++k) {
    WEFT_THREADS(t, cg_threads) {
      const long i = begin + k * cg_threads + t;
      if (i < n) {
        const real next = r[i] - a * ap[i];
        r[i] = next;
        double square = static_cast<double>(next) * static_cast<double>(next);
        if (weights != nullptr) square *= static_cast<double>(weights[i]);
        norm[WEFT_SLOT(t)] += square;
        if (inverse_diagonal != nullptr) product[WEFT_SLOT(t)] += square * static_cast<double>(inverse_diagonal[i]);
      }
    }
  }
  block_sum<cg_threads>(norm, shared[0], partials + block);
  if (inverse_diagonal != nullptr) block_sum<cg_threads>(product, shared[1], partials + blocks + block);
}
WEFT_KERNEL(cg_residual, cg_threads,
            (long n, long blocks, int rounds, const double* WEFT_RESTRICT scalars, const real* WEFT_RESTRICT ap,
             const real* WEFT_RESTRICT inverse_diagonal, const real* WEFT_RESTRICT weights, real* WEFT_RESTRICT r,
             double* WEFT_RESTRICT partials)) {
  subtract(WEFT_BLOCK, n, blocks, rounds, static_cast<real>(scalars[alpha]), ap, inverse_diagonal, weights, r,
           partials);
}

// x += a p unless x is null, then p = d r + b p.
WEFT_FUNCTION void advance(int block, long n, int rounds, real a, real b, double lambda,
                           const real* WEFT_RESTRICT inverse_diagonal, const real* WEFT_RESTRICT r,
                           real* WEFT_RESTRICT x, real* WEFT_RESTRICT p, double* WEFT_RESTRICT squares) {
  WEFT_SHARED(double, shared[cg_threads]);
  double square[WEFT_SLOTS(cg_threads)] = {};
  const long begin = static_cast<long>(block) * rounds * cg_threads;
  for (int k = 0; k < rounds; ++k) {
    WEFT_THREADS(t, cg_threads) {
      const long i = begin + k * cg_threads + t;
      if (i < n) {
        const real direction = p[i];
        if (x != nullptr) x[i] += a * direction;
        const real next = (inverse_diagonal == nullptr ? r[i] : inverse_diagonal[i] * r[i]) + b * direction;
        p[i] = next;
        square[WEFT_SLOT(t)] += lambda * static_cast<double>(next) * static_cast<double>(next);
      }
    }
  }
  if (squares != nullptr) block_sum<cg_threads>(square, shared, squares + block);
}
WEFT_KERNEL(cg_direction, cg_threads,
            (long n, int rounds, const double* WEFT_RESTRICT scalars, double lambda,
             const real* WEFT_RESTRICT inverse_diagonal, const real* WEFT_RESTRICT r, real* WEFT_RESTRICT p,
             double* WEFT_RESTRICT squares)) {
  advance(WEFT_BLOCK, n, rounds, real(0), static_cast<real>(scalars[beta]), lambda, inverse_diagonal, r, nullptr, p,
          squares);
}
WEFT_KERNEL(cg_update, cg_threads,
            (long n, int rounds, const double* WEFT_RESTRICT scalars, double lambda,
             const real* WEFT_RESTRICT inverse_diagonal, const real* WEFT_RESTRICT r, real* WEFT_RESTRICT x,
             real* WEFT_RESTRICT p, double* WEFT_RESTRICT squares)) {
  advance(WEFT_BLOCK, n, rounds, static_cast<real>(scalars[alpha]), static_cast<real>(scalars[beta]), lambda,
          inverse_diagonal, r, x, p, squares);
}

// Several ranks, where the host finds alpha and beta from sums over all of them. x += a p; r -= a_r Ap; p = d r + b p:
// what one iteration still has to do, and the next one first. a_r is a, or 0 if r is up to date.
WEFT_KERNEL(cg_step, cg_threads,
            (long n, int rounds, real a, real a_r, real b, const real* WEFT_RESTRICT ap,
             const real* WEFT_RESTRICT inverse_diagonal, real* WEFT_RESTRICT x, real* WEFT_RESTRICT r,
             real* WEFT_RESTRICT p)) {
  const long begin = static_cast<long>(WEFT_BLOCK) * rounds * cg_threads;
  for (int k = 0; k < rounds; ++k) {
    WEFT_THREADS(t, cg_threads) {
      const long i = begin + k * cg_threads + t;
      if (i < n) {
        const real direction = p[i], next = r[i] - a_r * ap[i];
        x[i] += a * direction;
        r[i] = next;
        p[i] = (inverse_diagonal == nullptr ? next : inverse_diagonal[i] * next) + b * direction;
      }
    }
  }
}

// partials[kind * blocks + block]: the sums of w r r, of w r d r unless d is null, of w Ap d r and of w Ap d Ap; and
// unless p is null, curvatures[block] = the sum of w p Ap.
WEFT_KERNEL(cg_products, cg_threads,
            (long n, long blocks, int rounds, const real* WEFT_RESTRICT p, const real* WEFT_RESTRICT r,
             const real* WEFT_RESTRICT ap, const real* WEFT_RESTRICT inverse_diagonal,
             const real* WEFT_RESTRICT weights, double* WEFT_RESTRICT curvatures, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[5][cg_threads]);
  double pv[WEFT_SLOTS(cg_threads)] = {}, rr[WEFT_SLOTS(cg_threads)] = {}, rz[WEFT_SLOTS(cg_threads)] = {};
  double vz[WEFT_SLOTS(cg_threads)] = {}, vv[WEFT_SLOTS(cg_threads)] = {};
  const long begin = static_cast<long>(WEFT_BLOCK) * rounds * cg_threads;
  for (int k = 0; k < rounds; ++k) {
    WEFT_THREADS(t, cg_threads) {
      const long i = begin + k * cg_threads + t;
      if (i < n) {
        const double of_r = static_cast<double>(r[i]), of_v = static_cast<double>(ap[i]);
        double w_r = of_r, w_v = of_v;
        if (weights != nullptr) {
          w_r *= static_cast<double>(weights[i]);
          w_v *= static_cast<double>(weights[i]);
        }
        if (p != nullptr) pv[WEFT_SLOT(t)] += w_v * static_cast<double>(p[i]);
        rr[WEFT_SLOT(t)] += w_r * of_r;
        if (inverse_diagonal != nullptr) {
          const double d = static_cast<double>(inverse_diagonal[i]);
          rz[WEFT_SLOT(t)] += d * w_r * of_r;
          w_v *= d;
        }
        vz[WEFT_SLOT(t)] += w_v * of_r;
        vv[WEFT_SLOT(t)] += w_v * of_v;
      }
    }
  }
  double* sums = partials + WEFT_BLOCK;
  block_sum<cg_threads>(rr, shared[0], sums);
  if (inverse_diagonal != nullptr) {
    sums += blocks;
    block_sum<cg_threads>(rz, shared[1], sums);
  }
  block_sum<cg_threads>(vz, shared[2], sums + blocks);
  block_sum<cg_threads>(vv, shared[3], sums + 2 * blocks);
  if (p != nullptr) block_sum<cg_threads>(pv, shared[4], curvatures + WEFT_BLOCK);
}

// The local sums only, for the all-reduce: sums[0] that of the first `products` partial sums, sums[1 .. kinds] those of
// the `kinds` times `count` that follow.
WEFT_KERNEL(cg_sums, cg_threads,
            (long products, long count, int kinds, const double* WEFT_RESTRICT partials, double* WEFT_RESTRICT sums)) {
  WEFT_SHARED(double, shared[5][cg_threads]);
  sum_partials(products, 1, partials, shared, sums);
  sum_partials(count, kinds, partials + products, shared + 1, sums + 1);
}

// The new residual, and the next entry (r . r, p . Ap) of the history, whose length so far is history[0].
WEFT_FUNCTION void note(double square, double* scalars, double* history) {
  const long entry = static_cast<long>(history[0]);
  scalars[residual] = square;
  if (scalars[norm_scale] * sqrt(square) <= scalars[target]) scalars[reached] = 1;
  history[1 + 2 * entry] = square;
  history[2 + 2 * entry] = scalars[curvature];
  history[0] = static_cast<double>(entry + 1);
}

// folded[block] = the sum of the block's consecutive partial sums, for where one block would take long for all.
WEFT_KERNEL(cg_fold, cg_threads, (long count, const double* WEFT_RESTRICT partials, double* WEFT_RESTRICT folded)) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  constexpr long each = sum_unroll * cg_threads;
  const long begin = WEFT_BLOCK * each, left = count - begin;
  sum_partials(left < each ? left : each, 1, partials + begin, shared, folded + WEFT_BLOCK);
}

// One rank: alpha from the partial sums of p . Ap.
WEFT_KERNEL(cg_alpha, cg_threads, (long count, const double* WEFT_RESTRICT partials, double* scalars)) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  sum_partials(count, 1, partials, shared, scalars + curvature);
  WEFT_THREADS(t, 1) {
    if (t == 0) scalars[alpha] = step_of(scalars, scalars[rho], scalars[curvature]);
  }
}

// One rank: beta, rho and the history. `kinds` is 2 with a preconditioner.
WEFT_KERNEL(cg_beta, cg_threads,
            (long count, int kinds, const double* WEFT_RESTRICT partials, double* scalars, double* history)) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  WEFT_SHARED(double, sums[2]);
  sum_partials(count, kinds, partials, shared, sums);
  WEFT_THREADS(t, 1) {
    if (t == 0) {
      scalars[beta] = beta_of(scalars, sums[kinds - 1]);
      scalars[rho] = sums[kinds - 1];
      note(sums[0], scalars, history);
    }
  }
}

// One rank and few partial sums: cg_alpha and cg_residual in one launch, and cg_beta and cg_update. Every block adds up
// the partial sums for itself, in the same order, because that takes less time than another launch. The first block
// writes only those scalars that no block of its launch reads.
WEFT_KERNEL(cg_small_residual, cg_threads,
            (long n, long blocks, int rounds, long count, const double* WEFT_RESTRICT products, double* scalars,
             const real* WEFT_RESTRICT ap, const real* WEFT_RESTRICT inverse_diagonal,
             const real* WEFT_RESTRICT weights, real* WEFT_RESTRICT r, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  WEFT_SHARED(double, sums[2]);
  const double a = own_step(WEFT_BLOCK, count, products, shared, sums, scalars);
  subtract(WEFT_BLOCK, n, blocks, rounds, static_cast<real>(a), ap, inverse_diagonal, weights, r, partials);
}
WEFT_KERNEL(cg_small_update, cg_threads,
            (long n, int rounds, long count, int kinds, const double* WEFT_RESTRICT partials, double* scalars,
             double* history, double lambda, const real* WEFT_RESTRICT inverse_diagonal, const real* WEFT_RESTRICT r,
             real* WEFT_RESTRICT x, real* WEFT_RESTRICT p, double* WEFT_RESTRICT squares)) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  WEFT_SHARED(double, sums[2]);
  sum_partials(count, kinds, partials, shared, sums);
  WEFT_BARRIER();
  const double a = scalars[alpha], b = beta_of(scalars, sums[kinds - 1]);
  WEFT_THREADS(t, 1) {
    if (t == 0 && WEFT_BLOCK == 0) {
      scalars[next_rho] = sums[kinds - 1];
      note(sums[0], scalars, history);
    }
  }
  advance(WEFT_BLOCK, n, rounds, static_cast<real>(a), static_cast<real>(b), lambda, inverse_diagonal, r, x, p,
          squares);
}
