// (v, dp/dx_i).
#pragma once

#include <cstdint>

#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_cofactors.hpp"
#include "weft/flow/simd_columns.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_planes.hpp"
#include "weft/flow/simd_prefetch.hpp"

namespace weft::flow {

template <int N, class T>
void gradient(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, face = n * n, step = pitch<n>;
  run_blocks<T>(c, chunk, c.f, 1, c.out, 3, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
    Scratch<T> s(scratch);
    V *U = s.take(2 * field), *Q = U + field, *O = s.take(field), *R = s.take(face), *S = s.take(face);
    Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
    read_derivatives<n, T>(c.blocks, c.tables.derivative, block, c.f, c.entries, 1, U, Q);
    for (int k = 0; k < n; ++k) {
      V *u = U + k, *q = Q + k, *o = O + k;
      plane_derivatives<n, T>(c.tables.derivative, u, R, S);
      points_of_plane<n, T>(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
        const V r = w * R[p], t = w * S[p], z = w * q[p * step];
        u[p * step] = g[0] * r + g[3] * t + g[6] * z;
        q[p * step] = g[1] * r + g[4] * t + g[7] * z;
        o[p * step] = g[2] * r + g[5] * t + g[8] * z;
      });
    }
    add_columns<n, T>(c.blocks, block, c.out, c.entries, 3, [=](int f, int ij, V(&v)[n]) WEFT_LAMBDA_INLINE {
      const V* const from = (f == 2 ? O : U + f * field) + ij * step;
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] = from[k];
    });
  });
}

}  // namespace weft::flow
