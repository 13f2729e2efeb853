// Sums over a of derivatives of C_a . f along r_a: fields are multiplied by the metric, then differentiated, in two
// passes.
//   slabs of equal r: columns are read from the vectors and multiplied by the metric; the products are differentiated
//                     along t and s while the slab is in the first-level cache
//   slabs of equal s: the products are differentiated along r and added to the vectors
#pragma once

#include <cstdint>

#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_column_cofactors.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_prefetch.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/columns.hpp"

namespace weft::flow {

enum class Weights : bool { before, after };  // applied before or after the matrix

// The fluxes of a column, flux_a = C_a . f, from f [3][n]; weights [n] are applied here if they come before the matrix.
template <int n, Weights when, Shape shape, class T>
WEFT_ALWAYS_INLINE void column_fluxes(const ColumnCofactors<n, T>& cofactors, const T* weights, const Vec<T>* f,
                                      Vec<T>* to_r, Vec<T>* to_s, Vec<T>* to_t) {
  using V = Vec<T>;
  V c[9];
  if constexpr (shape == Shape::affine) cofactors.template at<shape>(0, c);
#pragma GCC unroll 1
  for (int k = 0; k < n; ++k) {
    if constexpr (shape != Shape::affine) cofactors.template at<shape>(k, c);
    V x = f[k], y = f[n + k], z = f[2 * n + k];
    if constexpr (when == Weights::before) {
      x *= weights[k];
      y *= weights[k];
      z *= weights[k];
    }
    to_r[k] = c[0] * x + c[1] * y + c[2] * z;
    to_s[k] = c[3] * x + c[4] * y + c[5] * z;
    to_t[k] = c[6] * x + c[7] * y + c[8] * z;
  }
}

// One block: with the matrix M, sum_a M_a (w C_a . f) or w sum_a M_a (C_a . f).
template <int N, Weights when, class T>
__attribute__((noinline)) void block_of_fluxes(const SimdCall<T>& c, std::int64_t block, Prefetch<T>& ahead,
                                               const T* matrix, Scratch<T> scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, step = pitch<n>;
  const SimdTables<T>& tables = c.tables;
  V *R = scratch.take(field), *A = scratch.take(field), *S = scratch.take(n * step), *Q = scratch.take(n * step),
    *f = scratch.take(3 * n), *flux = scratch.take(n);
  ColumnCofactors<n, T> cofactors(tables, c.geometry, block, scratch);
  const space::BlockColumns<n, T> columns(c.blocks, block);
  T weights[n];
  for (int i = 0; i < n; ++i) {
    cofactors.slab(i);
    for (int j = 0; j < n; ++j) {
      const int ij = j * n + i;
      ahead.step();
      for (int d = 0; d < 3; ++d) {
        V u[n];
        columns.read(c.f + d * c.entries, ij, u);
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) f[d * n + k] = u[k];
      }
      cofactors.column(j);
      if constexpr (when == Weights::before) {
        const T line = tables.weights[i] * tables.weights[j];
        for (int k = 0; k < n; ++k) weights[k] = line * tables.weights[k];
      }
      with_shape(cofactors.shape(), [&](auto shape) WEFT_LAMBDA_INLINE {
        column_fluxes<n, when, shape(), T>(cofactors, weights, f, R + ij * step, S + j * step, flux);
      });
      V u[n];
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = flux[k];
      contract<n, T>(matrix, u, [=](int k, V v) WEFT_LAMBDA_INLINE { Q[j * step + k] = v; });
    }
#pragma GCC unroll 1
    for (int k = 0; k < n; ++k) {
      V u[n];
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = S[j * step + k];
      contract<n, T>(matrix, u,
                     [=](int j, V v) WEFT_LAMBDA_INLINE { A[(j * n + i) * step + k] = v + Q[j * step + k]; });
    }
  }
  for (int j = 0; j < n; ++j) {
    const V* const from = R + j * n * step;
    const V* const rest = A + j * n * step;
#pragma GCC unroll 1
    for (int k = 0; k < n; ++k) {
      V u[n];
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = from[i * step + k];
      contract<n, T>(matrix, u, [=](int i, V v) WEFT_LAMBDA_INLINE { S[i * step + k] = v + rest[i * step + k]; });
    }
    for (int i = 0; i < n; ++i) {
      ahead.step();
      V v[n];
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] = S[i * step + k];
      if constexpr (when == Weights::after) {
        const T line = tables.weights[i] * tables.weights[j];
        for (int k = 0; k < n; ++k) weights[k] = line * tables.weights[k];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] *= weights[k];
      }
      columns.add(c.out, j * n + i, v);
    }
  }
}

}  // namespace weft::flow
