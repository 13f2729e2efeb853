// (q, div u) and (v, curl u): all derivatives of three fields at a point, then sums of them.
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

template <int N, class T, int outputs, class Use>
void of_gradients(const SimdCall<T>& c, poisson::Range chunk, T* scratch, Use&& use) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, face = n * n, step = pitch<n>;
  run_blocks<T>(c, chunk, c.f, 3, c.out, outputs, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
    Scratch<T> s(scratch);
    V *U = s.take(3 * field), *Q = s.take(3 * field), *R = s.take(3 * face), *S = s.take(3 * face);
    Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
    read_derivatives<n, T>(c.blocks, c.tables.derivative, block, c.f, c.entries, 3, U, Q);
    for (int k = 0; k < n; ++k) {
      V *u = U + k, *q = Q + k;
      for (int i = 0; i < 3; ++i)
        plane_derivatives<n, T>(c.tables.derivative, u + i * field, R + i * face, S + i * face);
      points_of_plane<n, T>(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
        V r[3], sv[3], t[3], out[outputs];
        WEFT_UNROLL_ALL for (int i = 0; i < 3; ++i) {
          r[i] = R[i * face + p];
          sv[i] = S[i * face + p];
          t[i] = q[i * field + p * step];
        }
        use(g, r, sv, t, out);
        WEFT_UNROLL_ALL for (int i = 0; i < outputs; ++i) u[i * field + p * step] = w * out[i];
      });
    }
    add_columns<n, T>(c.blocks, block, c.out, c.entries, outputs, [=](int i, int ij, V(&v)[n]) WEFT_LAMBDA_INLINE {
      const V* const from = U + i * field + ij * step;
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] = from[k];
    });
  });
}

template <int N, class T>
void divergence(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
  of_gradients<N, T, 1>(c, chunk, scratch,
                        [](const Vec<T>* g, const Vec<T>(&r)[3], const Vec<T>(&s)[3], const Vec<T>(&t)[3],
                           Vec<T>(&out)[1]) WEFT_LAMBDA_INLINE {
                          out[0] = g[0] * r[0] + g[1] * r[1] + g[2] * r[2] + g[3] * s[0] + g[4] * s[1] + g[5] * s[2] +
                                   g[6] * t[0] + g[7] * t[1] + g[8] * t[2];
                        });
}

template <int N, class T>
void curl(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
  of_gradients<N, T, 3>(c, chunk, scratch,
                        [](const Vec<T>* g, const Vec<T>(&r)[3], const Vec<T>(&s)[3], const Vec<T>(&t)[3],
                           Vec<T>(&out)[3]) WEFT_LAMBDA_INLINE {
                          WEFT_UNROLL_ALL for (int i = 0; i < 3; ++i) {
                            const int j = (i + 1) % 3, k = (i + 2) % 3;
                            out[i] = g[j] * r[k] - g[k] * r[j] + g[3 + j] * s[k] - g[3 + k] * s[j] + g[6 + j] * t[k] -
                                     g[6 + k] * t[j];
                          }
                        });
}

}  // namespace weft::flow
