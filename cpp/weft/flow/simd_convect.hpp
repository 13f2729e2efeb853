// The convection term (v, (u . grad) f), integrated at the dealiasing points.
#pragma once

#include <cstdint>

#include "weft/element/gauss.hpp"
#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_columns.hpp"
#include "weft/flow/simd_field_groups.hpp"
#include "weft/flow/simd_fine.hpp"
#include "weft/flow/simd_fine_velocity.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_prefetch.hpp"
#include "weft/simd/between_points.hpp"

namespace weft::flow {

// Projects W_r df/dr + W_s df/ds + W_t df/dt on a row of fine points onto [n] points. All rows are stored by parts; W
// is [3][m]. For a product f g, the sum over two opposite points is (f_+ + f_-) even g + (f_+ - f_-) odd g, and
// similarly for the difference.
template <int n, class T>
__attribute__((noinline)) void convect_row(const SimdTables<T>& t, const Vec<T>* __restrict__ B,
                                           const Vec<T>* __restrict__ Bs, const Vec<T>* __restrict__ Bt,
                                           const Vec<T>* __restrict__ W, Vec<T>* __restrict__ out) {
  using V = Vec<T>;
  constexpr int m = element::dealiasing_points(n - 1), h = m / 2, hn = n / 2;
  Parts<m, V> g;
  simd::contract_parts<m, n, false, T>(
      t.slope, row_parts<n>(B),
      [&](int i, V a, V b) WEFT_LAMBDA_INLINE {
        const V e = W[i], o = W[m - h + i];
        g.even[i] = e * a + o * b;
        g.odd[i] = o * a + e * b;
      },
      [&](V v) WEFT_LAMBDA_INLINE { g.even[h] = W[h] * v; });
  simd::contract_parts<m, n, true, T>(
      t.value, row_parts<n>(Bs, Bt),
      [&](int i, const Two<V>& a, const Two<V>& b) WEFT_LAMBDA_INLINE {
        const V e = W[m + i], o = W[2 * m - h + i], k = W[2 * m + i], l = W[3 * m - h + i];
        g.even[i] += e * a.first + o * b.first;
        g.even[i] += k * a.second + l * b.second;
        g.odd[i] += o * a.first + e * b.first;
        g.odd[i] += l * a.second + k * b.second;
      },
      [&](const Two<V>& v) WEFT_LAMBDA_INLINE { g.even[h] += W[m + h] * v.first + W[2 * m + h] * v.second; });
  simd::contract_parts<n, m, true, T>(
      t.project, g,
      [=](int i, V a, V b) WEFT_LAMBDA_INLINE {
        out[i] = a;
        out[n - hn + i] = b;
      },
      [=](V v) WEFT_LAMBDA_INLINE { out[hn] = v; });
}

template <int N, class T>
void convect(const SimdCall<T>& c, space::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, m = element::dealiasing_points(N), fine_field = field_vectors<n, m>;
  groups<T>(c, [&](const T* f, int fields, T* out) {
    const bool same = f == c.u;
    run_blocks<n, T>(c, chunk, f, fields, out, fields, m * m, [&](std::int64_t block, Prefetch<T>& ahead) {
      Scratch<T> s(scratch);
      // Per field: layers of values and of slopes along t, which are replaced by the results. Per layer [m][n]: the
      // velocity, then values and slopes one field at a time, so that these stay in the first-level cache.
      V *F = s.take(3 * fine_field), *Q = s.take(3 * fine_field), *own = same ? F : s.take(3 * fine_field);
      V *B = s.take(3 * m * n), *Bs = s.take(3 * m * n), *Bt = s.take(m * n), *H = s.take(m * n),
        *W = s.take(3 * m * m);
      FineVelocity<n, T> velocity(c.tables, c.geometry, block, s);
      read_fine<n, T>(c.blocks, c.tables, block, f, c.entries, fields, true, F, Q);
      if (!same) read_fine<n, T>(c.blocks, c.tables, block, c.u, c.entries, 3, false, own, nullptr);
      for (int k = 0; k < m; ++k) {
        velocity.layer(k);
        for (int i = 0; i < 3; ++i) {
          if (same)
            fine_lines<n, true, T>(c.tables, own + i * fine_field + k, B + i * m * n, Bs + i * m * n);
          else
            fine_lines<n, false, T>(c.tables, own + i * fine_field + k, B + i * m * n, nullptr);
        }
        for (int j = 0; j < m; ++j) {
          ahead.step();
          velocity.row(j, B + j * n, W + 3 * m * j);
        }
        for (int i = 0; i < fields; ++i) {
          V* const layer = F + i * fine_field + k;
          V *value = B + (same ? i * m * n : 0), *slope = Bs + (same ? i * m * n : 0);
          if (!same) fine_lines<n, true, T>(c.tables, layer, value, slope);
          fine_lines<n, false, T>(c.tables, Q + i * fine_field + k, Bt, nullptr);
          for (int j = 0; j < m; ++j)
            convect_row<n, T>(c.tables, value + j * n, slope + j * n, Bt + j * n, W + 3 * m * j, H + j * n);
          project_lines<n, T>(c.tables, H, layer);
        }
      }
      const T* project = c.tables.project;
      add_columns<n, T>(c.blocks, block, out, c.entries, fields, [=](int i, int ij, V(&result)[n]) WEFT_LAMBDA_INLINE {
        const V* const from = F + i * fine_field + ij * pitch<m>;
        V u[m];
        WEFT_UNROLL_ALL for (int k = 0; k < m; ++k) u[k] = from[k];
        simd::contract<n, m, true, T>(project, u, [&](int k, V w) WEFT_LAMBDA_INLINE { result[k] = w; });
      });
    });
  });
}

}  // namespace weft::flow
