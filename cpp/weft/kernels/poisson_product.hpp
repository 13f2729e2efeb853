// x . A x beside A x: every kernel of the Poisson operator that works by columns can also sum up (Z x) . y_L of its
// block, from grad u . G grad u where the metric is applied. A GPU's kernel does so if it is compiled with
// WEFT_WITH_PRODUCT=1, because the sums take registers; elsewhere the kernel asks whether `products` is null.
#pragma once

#include "weft/kernels/block_sum.hpp"
#include "weft/kernels/element.hpp"

#ifndef WEFT_WITH_PRODUCT
#if defined(WEFT_TARGET_GPU)
#define WEFT_WITH_PRODUCT 0
#else
#define WEFT_WITH_PRODUCT 1
#endif
#endif

namespace {

constexpr bool with_product = WEFT_WITH_PRODUCT;

// apply_factors() at layer k of a column, whose value is u; adds the point's part of (Z x) . y_L to `product`.
template <class Geometry, class Column>
WEFT_FUNCTION real apply_factors_with_product(const Geometry& geometry, const Column& column, int k, real lambda,
                                              real u, real& r, real& s, real& t, real& product) {
  if (!with_product) return apply_factors(geometry, column, k, lambda, r, s, t);
  const real along_r = r, along_s = s, along_t = t;
  const real lambda_w = apply_factors(geometry, column, k, lambda, r, s, t);
  product += along_r * r + along_s * s + along_t * t + lambda_w * u * u;
  return lambda_w;
}

// products[block] = the sum of a block's parts. `used` is shared memory that the block no longer reads once its warps
// have met; a block of one warp has, in its last product of matrices.
template <int threads, class Used>
WEFT_FUNCTION void store_product(const real* parts, Used* used, int block, double* products) {
  if (!with_product || products == nullptr) return;
  if (threads > 32) WEFT_BARRIER();
  block_sum<threads>(parts, reinterpret_cast<double*>(used), products + block);
}

}  // namespace
