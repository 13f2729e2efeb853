// (grad q, f).
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
void weak_divergence(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, face = n * n, step = pitch<n>;
  run_blocks<T>(c, chunk, c.f, 3, c.out, 1, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
    Scratch<T> s(scratch);
    V *F = s.take(3 * field), *R = s.take(face), *S = s.take(face);
    Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
    read_values<n, T>(c.blocks, block, c.f, c.entries, 3, F);
    for (int k = 0; k < n; ++k) {
      V *x = F + k, *y = x + field, *z = y + field;
      points_of_plane<n, T>(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
        const V fx = w * x[p * step], fy = w * y[p * step], fz = w * z[p * step];
        R[p] = g[0] * fx + g[1] * fy + g[2] * fz;
        S[p] = g[3] * fx + g[4] * fy + g[5] * fz;
        z[p * step] = g[6] * fx + g[7] * fy + g[8] * fz;
        x[p * step] = V{};
      });
      add_plane<n, T>(c.tables.transposed, R, S, x);
    }
    add_with<n, T>(c, block, c.tables.transposed, 1, F, F + 2 * field, c.out);
  });
}

}  // namespace weft::flow
