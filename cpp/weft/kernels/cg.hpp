// The work of conjugate gradients besides the operator, with the scalars in device memory so that no iteration waits
// for the host. A thread processes `rounds` entries, and so a block cg_threads * rounds consecutive ones: for the same
// number of rounds its partial sum is always the same.
//
// scalars: alpha, beta, rho = r . d r, p . Ap, r . r; and on one rank, where the device decides when the solve ends,
// the factor and the limit of StoppingRule's |r|, whether the limit is reached, and the next rho. A null
// inverse_diagonal d is the identity (no preconditioner), null weights are ones (assembled vectors).
#include "weft/kernels/block_sum.hpp"
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int cg_threads = 256;
constexpr int sum_unroll = 8;
constexpr int alpha = 0, beta = 1, rho = 2, curvature = 3, residual = 4, norm_scale = 5, target = 6, reached = 7;
constexpr int next_rho = 8;  // as kernels that read rho in every block cannot write it

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

// x += alpha p
WEFT_KERNEL(cg_solution, cg_threads,
            (long n, int rounds, const double* WEFT_RESTRICT scalars, const real* WEFT_RESTRICT p,
             real* WEFT_RESTRICT x)) {
  const real a = static_cast<real>(scalars[alpha]);
  const long begin = static_cast<long>(WEFT_BLOCK) * rounds * cg_threads;
  for (int k = 0; k < rounds; ++k) {
    WEFT_THREADS(t, cg_threads) {
      const long i = begin + k * cg_threads + t;
      if (i < n) x[i] += a * p[i];
    }
  }
}

// p = d r + beta p
WEFT_KERNEL(cg_direction, cg_threads,
            (long n, int rounds, const double* WEFT_RESTRICT scalars, const real* WEFT_RESTRICT inverse_diagonal,
             const real* WEFT_RESTRICT r, real* WEFT_RESTRICT p)) {
  const real b = static_cast<real>(scalars[beta]);
  const long begin = static_cast<long>(WEFT_BLOCK) * rounds * cg_threads;
  for (int k = 0; k < rounds; ++k) {
    WEFT_THREADS(t, cg_threads) {
      const long i = begin + k * cg_threads + t;
      if (i < n) p[i] = (inverse_diagonal == nullptr ? r[i] : inverse_diagonal[i] * r[i]) + b * p[i];
    }
  }
}

// Both of the above in one pass over p, for when no all-reduce remains to be hidden: five words per entry instead of
// six.
WEFT_FUNCTION void advance(int block, long n, int rounds, real a, real b, const real* WEFT_RESTRICT inverse_diagonal,
                           const real* WEFT_RESTRICT r, real* WEFT_RESTRICT x, real* WEFT_RESTRICT p) {
  const long begin = static_cast<long>(block) * rounds * cg_threads;
  for (int k = 0; k < rounds; ++k) {
    WEFT_THREADS(t, cg_threads) {
      const long i = begin + k * cg_threads + t;
      if (i < n) {
        const real direction = p[i];
        x[i] += a * direction;
        p[i] = (inverse_diagonal == nullptr ? r[i] : inverse_diagonal[i] * r[i]) + b * direction;
      }
    }
  }
}
WEFT_KERNEL(cg_update, cg_threads,
            (long n, int rounds, const double* WEFT_RESTRICT scalars, const real* WEFT_RESTRICT inverse_diagonal,
             const real* WEFT_RESTRICT r, real* WEFT_RESTRICT x, real* WEFT_RESTRICT p)) {
  advance(WEFT_BLOCK, n, rounds, static_cast<real>(scalars[alpha]), static_cast<real>(scalars[beta]), inverse_diagonal,
          r, x, p);
}

// sums[s] = sum of partials[s][0 .. count) for s < kinds (1 or 2), one block
WEFT_FUNCTION void sum_partials(long count, int kinds, const double* partials, double (*shared)[cg_threads],
                                double* sums) {
  for (int s = 0; s < kinds; ++s) {
    double mine[WEFT_SLOTS(cg_threads)] = {};
    for (long begin = 0; begin < count; begin += sum_unroll * cg_threads) {
      WEFT_THREADS(t, cg_threads) {
        double values[sum_unroll];  // loads in flight at the same time
        WEFT_UNROLL
        for (int u = 0; u < sum_unroll; ++u) {
          const long i = begin + u * cg_threads + t;
          values[u] = i < count ? partials[s * count + i] : 0;
        }
        WEFT_UNROLL
        for (int u = 0; u < sum_unroll; ++u) mine[WEFT_SLOT(t)] += values[u];
      }
    }
    block_sum<cg_threads>(mine, shared[s], sums + s);
  }
}

// The local sums only, for the all-reduce: sums[0 .. kinds).
WEFT_KERNEL(cg_sums, cg_threads,
            (long count, int kinds, const double* WEFT_RESTRICT partials, double* WEFT_RESTRICT sums)) {
  WEFT_SHARED(double, shared[2][cg_threads]);
  sum_partials(count, kinds, partials, shared, sums);
}

// alpha = rho / (p . Ap). It is 0, which leaves x and r unchanged, once the target is reached, or if p . Ap is not a
// positive number. The host finds both cases in the history.
WEFT_FUNCTION double step_of(const double* scalars, double of_rho, double of_curvature) {
  return scalars[reached] == 0 && of_curvature > 0 ? of_rho / of_curvature : 0;
}
WEFT_FUNCTION double beta_of(const double* scalars, double next) { return scalars[rho] > 0 ? next / scalars[rho] : 0; }
// The new residual, and the next entry (r . r, p . Ap) of the history, whose length so far is history[0].
WEFT_FUNCTION void note(double square, double* scalars, double* history) {
  const long entry = static_cast<long>(history[0]);
  scalars[residual] = square;
  if (scalars[norm_scale] * sqrt(square) <= scalars[target]) scalars[reached] = 1;
  history[1 + 2 * entry] = square;
  history[2 + 2 * entry] = scalars[curvature];
  history[0] = static_cast<double>(entry + 1);
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
  sum_partials(count, 1, products, shared, sums);
  WEFT_BARRIER();
  const double a = step_of(scalars, scalars[next_rho], sums[0]);
  WEFT_THREADS(t, 1) {
    if (t == 0 && WEFT_BLOCK == 0) {
      scalars[alpha] = a;
      scalars[curvature] = sums[0];
      scalars[rho] = scalars[next_rho];
    }
  }
  subtract(WEFT_BLOCK, n, blocks, rounds, static_cast<real>(a), ap, inverse_diagonal, weights, r, partials);
}
WEFT_KERNEL(cg_small_update, cg_threads,
            (long n, int rounds, long count, int kinds, const double* WEFT_RESTRICT partials, double* scalars,
             double* history, const real* WEFT_RESTRICT inverse_diagonal, const real* WEFT_RESTRICT r,
             real* WEFT_RESTRICT x, real* WEFT_RESTRICT p)) {
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
  advance(WEFT_BLOCK, n, rounds, static_cast<real>(a), static_cast<real>(b), inverse_diagonal, r, x, p);
}
