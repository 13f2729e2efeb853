// (v, (u . grad) f) on the dealiasing points.
#pragma once

#include <cstdint>

#include "weft/element/gauss.hpp"
#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_cofactors.hpp"
#include "weft/flow/simd_columns.hpp"
#include "weft/flow/simd_field_groups.hpp"
#include "weft/flow/simd_fine.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_planes.hpp"
#include "weft/flow/simd_prefetch.hpp"
#include "weft/simd/between_points.hpp"

namespace weft::flow {

// The projection onto [n] of U_r df/dr + U_s df/ds + U_t df/dt on a row of fine points; U [3][m].
template <int n, class T>
__attribute__((noinline)) void convect_row(const SimdTables<T>& t, const Vec<T>* __restrict__ B,
                                           const Vec<T>* __restrict__ Bs, const Vec<T>* __restrict__ Bt,
                                           const Vec<T>* __restrict__ U, Vec<T>* __restrict__ out) {
  constexpr int m = element::dealiasing_points(n - 1);
  Vec<T> u[n], g[m];
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = B[i];
  contract<m, n, false, T>(t.slope, u, [&](int i, Vec<T> v) WEFT_LAMBDA_INLINE { g[i] = U[i] * v; });
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = Bs[i];
  contract<m, n, true, T>(t.value, u, [&](int i, Vec<T> v) WEFT_LAMBDA_INLINE { g[i] += U[m + i] * v; });
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = Bt[i];
  contract<m, n, true, T>(t.value, u, [&](int i, Vec<T> v) WEFT_LAMBDA_INLINE { g[i] += U[2 * m + i] * v; });
  contract<n, m, true, T>(t.project, g, [=](int i, Vec<T> v) WEFT_LAMBDA_INLINE { out[i] = v; });
}
// A layer's rows [m][n] projected along s onto layer A.
template <int n, class T>
__attribute__((noinline)) void project_plane(const SimdTables<T>& t, const Vec<T>* __restrict__ H,
                                             Vec<T>* __restrict__ A) {
  constexpr int m = element::dealiasing_points(n - 1);
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[m];
    WEFT_UNROLL_ALL for (int j = 0; j < m; ++j) u[j] = H[j * n + i];
    contract<n, m, true, T>(t.project, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { A[(j * n + i) * pitch<m>] = v; });
  }
}

template <int N, class T>
void convect(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, m = element::dealiasing_points(N), fine_field = field_vectors<n, m>;
  groups<T>(c, [&](const T* f, int fields, T* out) {
    const bool same = f == c.u;
    run_blocks<T>(c, chunk, f, fields, out, fields, m * m, [&](std::int64_t block, Prefetch<T>& ahead) {
      Scratch<T> s(scratch);
      // Layers of values and of slopes along t, which the results take the place of; of one layer [m][n] the
      // velocity, then values and slopes field by field, so that these stay in the first cache.
      V *F = s.take(3 * fine_field), *Q = s.take(3 * fine_field), *own = same ? F : s.take(3 * fine_field);
      V *B = s.take(3 * m * n), *Bs = s.take(m * n), *Bt = s.take(m * n), *H = s.take(m * n), *v = s.take(3 * m),
        *W = s.take(3 * m * m);
      Cofactors<n, m, T> cofactors(c.tables, c.geometry, block, s);
      read_fine<n, T>(c.blocks, c.tables, block, f, c.entries, fields, true, F, Q);
      if (!same) read_fine<n, T>(c.blocks, c.tables, block, c.u, c.entries, 3, false, own, nullptr);
      for (int k = 0; k < m; ++k) {
        cofactors.plane(k);
        for (int i = 0; i < 3; ++i) fine_values<n, T>(c.tables, own + i * fine_field + k, B + i * m * n);
        for (int j = 0; j < m; ++j) {
          ahead.step();
          for (int i = 0; i < 3; ++i) fine_row<n, T>(c.tables.value, B + (i * m + j) * n, v + i * m);
          const V* g = cofactors.row(j);
          V* const w = W + 3 * m * j;
#pragma GCC unroll 1
          for (int i = 0; i < m; ++i, g += cofactors.step) {
            const V x = v[i], y = v[m + i], z = v[2 * m + i];
            w[i] = g[0] * x + g[1] * y + g[2] * z;
            w[m + i] = g[3] * x + g[4] * y + g[5] * z;
            w[2 * m + i] = g[6] * x + g[7] * y + g[8] * z;
          }
        }
        for (int i = 0; i < fields; ++i) {
          V* const layer = F + i * fine_field + k;
          V* const value = same ? B + i * m * n : B;
          if (!same) fine_values<n, T>(c.tables, layer, value);
          fine_slopes<n, T>(c.tables, layer, Bs);
          fine_values<n, T>(c.tables, Q + i * fine_field + k, Bt);
          for (int j = 0; j < m; ++j)
            convect_row<n, T>(c.tables, value + j * n, Bs + j * n, Bt + j * n, W + 3 * m * j, H + j * n);
          project_plane<n, T>(c.tables, H, layer);
        }
      }
      const T* project = c.tables.project;
      add_columns<n, T>(c.blocks, block, out, c.entries, fields, [=](int i, int ij, V(&result)[n]) WEFT_LAMBDA_INLINE {
        const V* const from = F + i * fine_field + ij * pitch<m>;
        V u[m];
        WEFT_UNROLL_ALL for (int k = 0; k < m; ++k) u[k] = from[k];
        contract<n, m, true, T>(project, u, [&](int k, V w) WEFT_LAMBDA_INLINE { result[k] = w; });
      });
    });
  });
}

}  // namespace weft::flow
