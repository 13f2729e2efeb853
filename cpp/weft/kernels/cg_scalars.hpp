// The scalars of conjugate gradients in device memory, and how kernels find them.
//
// scalars: alpha, beta, rho = r . d r, p . Ap, r . r; and on one rank, where the device decides when the solve ends,
// the factor and the limit of StoppingRule's |r|, whether the limit is reached, and the next rho.
#pragma once

#include "weft/kernels/block_sum.hpp"
#include "weft/kernels/dialect.hpp"

namespace {

using real = WEFT_REAL;
constexpr int cg_threads = 256;
constexpr int sum_unroll = 8;
constexpr int alpha = 0, beta = 1, rho = 2, curvature = 3, residual = 4, norm_scale = 5, target = 6, reached = 7;
constexpr int next_rho = 8;  // as kernels that read rho in every block cannot write it

// sums[s] = sum of partials[s][0 .. count) for s < kinds (at most 4), one block
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

// alpha = rho / (p . Ap). It is 0, which leaves x and r unchanged, once the target is reached, or if p . Ap is not a
// positive number. The host finds both cases in the history.
WEFT_FUNCTION double step_of(const double* scalars, double of_rho, double of_curvature) {
  return scalars[reached] == 0 && of_curvature > 0 ? of_rho / of_curvature : 0;
}
// alpha in every block of a launch, from all partial sums of p . Ap. The first block writes only those scalars that no
// block of its launch reads.
WEFT_FUNCTION double own_step(int block, long count, const double* products, double (*shared)[cg_threads], double* sums,
                              double* scalars) {
  sum_partials(count, 1, products, shared, sums);
  WEFT_BARRIER();
  const double a = step_of(scalars, scalars[next_rho], sums[0]);
  WEFT_THREADS(t, 1) {
    if (t == 0 && block == 0) {
      scalars[alpha] = a;
      scalars[curvature] = sums[0];
      scalars[rho] = scalars[next_rho];
    }
  }
  return a;
}
WEFT_FUNCTION double beta_of(const double* scalars, double next) { return scalars[rho] > 0 ? next / scalars[rho] : 0; }

}  // namespace
