// (q, div u) = w sum_a C_a . D_a u. If C is constant, this is w sum_a D_a (C_a . u), with a third of the lines.
#pragma once

#include <cstdint>

#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_derivatives.hpp"
#include "weft/flow/simd_fluxes.hpp"

namespace weft::flow {

template <int N, class T>
void divergence(const SimdCall<T>& c, space::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1;
  const auto use = [](const V(&g)[9], const V(&r)[3], const V(&s)[3], const V(&t)[3], T w, V(&out)[1])
                       WEFT_LAMBDA_INLINE {
                         out[0] = w * (g[0] * r[0] + g[1] * r[1] + g[2] * r[2] + g[3] * s[0] + g[4] * s[1] +
                                       g[5] * s[2] + g[6] * t[0] + g[7] * t[1] + g[8] * t[2]);
                       };
  run_blocks<n, T>(c, chunk, c.f, 3, c.out, 1, 2 * n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
    if (c.geometry.shape[block] == Shape::affine)
      block_of_fluxes<N, Weights::after, T>(c, block, ahead, c.tables.derivative, Scratch<T>(scratch));
    else
      block_of_derivatives<N, 3, 1, T>(c, block, ahead, Scratch<T>(scratch), use);
  });
}

}  // namespace weft::flow
