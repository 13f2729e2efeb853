// (v, dp/dx_i) = w sum_a C_ai D_a p.
#pragma once

#include <cstdint>

#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_derivatives.hpp"

namespace weft::flow {

template <int N, class T>
void gradient(const SimdCall<T>& c, space::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1;
  const auto use = [](const V(&g)[9], const V(&r)[1], const V(&s)[1], const V(&t)[1], T w, V(&out)[3])
                       WEFT_LAMBDA_INLINE {
                         const V x = w * r[0], y = w * s[0], z = w * t[0];
                         WEFT_UNROLL_ALL for (int i = 0; i < 3; ++i) out[i] = g[i] * x + g[3 + i] * y + g[6 + i] * z;
                       };
  run_blocks<n, T>(c, chunk, c.f, 1, c.out, 3, 2 * n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
    block_of_derivatives<N, 1, 3, T>(c, block, ahead, Scratch<T>(scratch), use);
  });
}

}  // namespace weft::flow
