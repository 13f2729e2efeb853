// Sums over a of products of C_a and D_a f: fields are differentiated, then multiplied by the metric, in two passes.
//   slabs of equal s: columns are read from the vectors, and differentiated along r while the slab is in first-level
//   cache slabs of equal r: fields are differentiated along s and, column by column, along t; the products are added to
//   the
//                     vectors
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

// Reads the columns of `fields` fields into U, and their derivatives along r into R.
template <int n, int fields, class T>
__attribute__((noinline)) void read_and_differentiate(const space::BlockColumns<n, T>& columns, Prefetch<T>& ahead,
                                                      const T* derivative, const T* x, std::int64_t entries, Vec<T>* U,
                                                      Vec<T>* R) {
  constexpr int field = field_vectors<n, n>, step = pitch<n>;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      ahead.step();
      for (int f = 0; f < fields; ++f) {
        Vec<T> u[n];
        columns.read(x + f * entries, j * n + i, u);
        Vec<T>* const to = U + f * field + (j * n + i) * step;
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) to[k] = u[k];
      }
    }
    for (int f = 0; f < fields; ++f) {
      const Vec<T>* const from = U + f * field + j * n * step;
      Vec<T>* const to = R + f * field + j * n * step;
#pragma GCC unroll 1
      for (int k = 0; k < n; ++k) {
        Vec<T> u[n];
        WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = from[i * step + k];
        contract<n, T>(derivative, u, [=](int i, Vec<T> v) WEFT_LAMBDA_INLINE { to[i * step + k] = v; });
      }
    }
  }
}

// Applies the matrix to the lines along s of the slab that begins at column U; writes to S, [n] columns.
template <int n, class T>
__attribute__((noinline)) void slab_along_s(const T* __restrict__ matrix, const Vec<T>* __restrict__ U,
                                            Vec<T>* __restrict__ S) {
  constexpr int step = pitch<n>;
#pragma GCC unroll 1
  for (int k = 0; k < n; ++k) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = U[j * n * step + k];
    contract<n, T>(matrix, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { S[j * step + k] = v; });
  }
}

// Calls use(cofactors, derivatives along r, s, t, weight, out) for the points of a column.
template <int n, int fields, int outputs, Shape shape, class T, class Use>
WEFT_ALWAYS_INLINE void column_products(const ColumnCofactors<n, T>& cofactors, const T* weights, const Vec<T>* R,
                                        const Vec<T>* S, const Vec<T>* Q, Vec<T>* out, const Use& use) {
  using V = Vec<T>;
  V c[9];
  if constexpr (shape == Shape::affine) cofactors.template at<shape>(0, c);
#pragma GCC unroll 1
  for (int k = 0; k < n; ++k) {
    if constexpr (shape != Shape::affine) cofactors.template at<shape>(k, c);
    V r[fields], s[fields], t[fields], v[outputs];
    WEFT_UNROLL_ALL for (int f = 0; f < fields; ++f) {
      r[f] = R[f * field_vectors<n, n> + k];
      s[f] = S[f * n * pitch<n> + k];
      t[f] = Q[f * n + k];
    }
    use(c, r, s, t, weights[k], v);
    WEFT_UNROLL_ALL for (int o = 0; o < outputs; ++o) out[o * n + k] = v[o];
  }
}

// Processes one block.
template <int N, int fields, int outputs, class T, class Use>
__attribute__((noinline)) void block_of_derivatives(const SimdCall<T>& c, std::int64_t block, Prefetch<T>& ahead,
                                                    Scratch<T> scratch, const Use& use) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, step = pitch<n>;
  const SimdTables<T>& tables = c.tables;
  V *U = scratch.take(fields * field), *R = scratch.take(fields * field), *S = scratch.take(fields * n * step),
    *Q = scratch.take(fields * n), *out = scratch.take(outputs * n);
  ColumnCofactors<n, T> cofactors(tables, c.geometry, block, scratch);
  const space::BlockColumns<n, T> columns(c.blocks, block);
  read_and_differentiate<n, fields, T>(columns, ahead, tables.derivative, c.f, c.entries, U, R);
  for (int i = 0; i < n; ++i) {
    for (int f = 0; f < fields; ++f) slab_along_s<n, T>(tables.derivative, U + f * field + i * step, S + f * n * step);
    cofactors.slab(i);
    for (int j = 0; j < n; ++j) {
      const int ij = j * n + i;
      ahead.step();
      for (int f = 0; f < fields; ++f) {
        V u[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = U[f * field + ij * step + k];
        contract<n, T>(tables.derivative, u, [=](int k, V v) WEFT_LAMBDA_INLINE { Q[f * n + k] = v; });
      }
      cofactors.column(j);
      const T line = tables.weights[i] * tables.weights[j];
      T weights[n];
      for (int k = 0; k < n; ++k) weights[k] = line * tables.weights[k];
      with_shape(cofactors.shape(), [&](auto shape) WEFT_LAMBDA_INLINE {
        column_products<n, fields, outputs, shape(), T>(cofactors, weights, R + ij * step, S + j * step, Q, out, use);
      });
      for (int o = 0; o < outputs; ++o) {
        V v[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] = out[o * n + k];
        columns.add(c.out + o * c.entries, ij, v);
      }
    }
  }
}

}  // namespace weft::flow
