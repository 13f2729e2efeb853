// (v, (u . grad) f) and its conservative form, half each, on the GLL points.
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

template <int N, class T>
void convect_skew(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, face = n * n, step = pitch<n>;
  groups<T>(c, [&](const T* f, int fields, T* out) {
    const bool same = f == c.u;
    run_blocks<T>(c, chunk, f, fields, out, fields, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
      Scratch<T> s(scratch);
      V *F = s.take(3 * field), *Q = s.take(3 * field), *own = same ? F : s.take(3 * field);
      V *W = s.take(3 * face), *R = s.take(face), *S = s.take(face);
      Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
      read_derivatives<n, T>(c.blocks, c.tables.derivative, block, f, c.entries, fields, F, Q);
      if (!same) read_values<n, T>(c.blocks, block, c.u, c.entries, 3, own);
      for (int k = 0; k < n; ++k) {
        const V *x = own + k, *y = x + field, *z = y + field;
        points_of_plane<n, T>(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
          const T half = w / 2;  // of the two forms half each
          const V ux = half * x[p * step], uy = half * y[p * step], uz = half * z[p * step];
          W[p] = g[0] * ux + g[1] * uy + g[2] * uz;
          W[face + p] = g[3] * ux + g[4] * uy + g[5] * uz;
          W[2 * face + p] = g[6] * ux + g[7] * uy + g[8] * uz;
        });
        for (int i = 0; i < fields; ++i) {
          V *u = F + i * field + k, *q = Q + i * field + k;
          plane_derivatives<n, T>(c.tables.derivative, u, R, S);
#pragma GCC unroll 1
          for (int p = 0; p < face; ++p) {
            const V value = u[p * step], r = W[p], sv = W[face + p], t = W[2 * face + p];
            u[p * step] = r * R[p] + sv * S[p] + t * q[p * step];
            R[p] = r * value;
            S[p] = sv * value;
            q[p * step] = t * value;
          }
          add_plane<n, T>(c.tables.conservative, R, S, u);
        }
      }
      add_with<n, T>(c, block, c.tables.conservative, fields, F, Q, out);
    });
  });
}

}  // namespace weft::flow
