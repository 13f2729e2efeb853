// The average of (v, (u . grad) f) and its conservative form, at the GLL points.
#pragma once

#include <cstdint>

#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_cofactors.hpp"
#include "weft/flow/simd_columns.hpp"
#include "weft/flow/simd_field_groups.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_planes.hpp"
#include "weft/flow/simd_prefetch.hpp"

namespace weft::flow {

// S = du/ds in a plane of a field, where u is [n][n] columns apart.
template <int n, class T>
__attribute__((noinline)) void skew_slopes(const T* __restrict__ derivative, const Vec<T>* __restrict__ u,
                                           Vec<T>* __restrict__ S) {
  using V = Vec<T>;
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    V line[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) line[j] = u[(j * n + i) * pitch<n>];
    contract<n, T>(derivative, line, [=](int j, V v) WEFT_LAMBDA_INLINE { S[j * n + i] = v; });
  }
}
// Writes to U, row by row: both forms along r, and the advective form along s. Replaces S = du/ds by the fluxes along
// s. U is [n][n] columns apart, like u. W: [2][n][n].
template <int n, class T>
__attribute__((noinline)) void skew_rows(const T* __restrict__ derivative, const T* __restrict__ conservative,
                                         const Vec<T>* __restrict__ W, const Vec<T>* __restrict__ u,
                                         Vec<T>* __restrict__ S, Vec<T>* __restrict__ U) {
  using V = Vec<T>;
  constexpr int face = n * n, step = pitch<n>;
#pragma GCC unroll 1
  for (int j = 0; j < n; ++j, u += n * step, U += n * step, S += n, W += n) {
    V line[n], sum[n];
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) line[i] = u[i * step];
    contract<n, T>(derivative, line, [&](int i, V v) WEFT_LAMBDA_INLINE { sum[i] = W[i] * v; });
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) {
      const V s = W[face + i];
      sum[i] += s * S[i];
      S[i] = s * line[i];
      line[i] *= W[i];
    }
    contract<n, T>(conservative, line, [&](int i, V v) WEFT_LAMBDA_INLINE { U[i * step] = sum[i] + v; });
  }
}
// Adds the contribution of the fluxes S along s to u.
template <int n, class T>
__attribute__((noinline)) void add_skew_lines(const T* __restrict__ conservative, const Vec<T>* __restrict__ S,
                                              Vec<T>* __restrict__ u) {
  using V = Vec<T>;
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    V line[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) line[j] = S[j * n + i];
    contract<n, T>(conservative, line, [=](int j, V v) WEFT_LAMBDA_INLINE { u[(j * n + i) * pitch<n>] += v; });
  }
}

template <int N, class T>
void convect_skew(const SimdCall<T>& c, space::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, face = n * n, step = pitch<n>;
  groups<T>(c, [&](const T* f, int fields, T* out) {
    const bool same = f == c.u;
    run_blocks<n, T>(c, chunk, f, fields, out, fields, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
      Scratch<T> s(scratch);
      // The fields, their results except those along t, and the velocity along t.
      V *F = s.take(3 * field), *U = s.take(3 * field), *Wt = s.take(field), *own = same ? F : s.take(3 * field);
      V *W = s.take(2 * face), *S = s.take(face);
      Cofactors<n, T> cofactors(c.tables, c.geometry, block, s);
      read_values<n, T>(c.blocks, block, f, c.entries, fields, F);
      if (!same) read_values<n, T>(c.blocks, block, c.u, c.entries, 3, own);
      for (int k = 0; k < n; ++k) {
        const V *x = own + k, *y = x + field, *z = y + field;
        V* const t = Wt + k;
        points_of_plane<n, T>(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
          const T half = w / 2;  // each form counts half
          const V ux = half * x[p * step], uy = half * y[p * step], uz = half * z[p * step];
          W[p] = g[0] * ux + g[1] * uy + g[2] * uz;
          W[face + p] = g[3] * ux + g[4] * uy + g[5] * uz;
          t[p * step] = g[6] * ux + g[7] * uy + g[8] * uz;
        });
        for (int i = 0; i < fields; ++i) {
          const V* const u = F + i * field + k;
          V* const to = U + i * field + k;
          skew_slopes<n, T>(c.tables.derivative, u, S);
          skew_rows<n, T>(c.tables.derivative, c.tables.conservative, W, u, S, to);
          add_skew_lines<n, T>(c.tables.conservative, S, to);
        }
      }
      const T *derivative = c.tables.derivative, *conservative = c.tables.conservative;
      add_columns<n, T>(c.blocks, block, out, c.entries, fields, [=](int i, int ij, V(&v)[n]) WEFT_LAMBDA_INLINE {
        const V *u = F + i * field + ij * step, *to = U + i * field + ij * step, *w = Wt + ij * step;
        V line[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) line[k] = u[k];
        contract<n, T>(derivative, line, [&](int k, V d) WEFT_LAMBDA_INLINE { v[k] = to[k] + w[k] * d; });
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) line[k] *= w[k];
        contract<n, T>(conservative, line, [&](int k, V d) WEFT_LAMBDA_INLINE { v[k] += d; });
      });
    });
  });
}

}  // namespace weft::flow
