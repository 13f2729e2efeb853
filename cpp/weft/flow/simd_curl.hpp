// (v, curl u) = w sum_a C_a x D_a u.
#pragma once

#include <cstdint>

#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_constant_curl.hpp"
#include "weft/flow/simd_derivatives.hpp"

namespace weft::flow {

template <int N, class T>
void curl(const SimdCall<T>& c, space::Range chunk, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1;
  const auto use = [](const V(&g)[9], const V(&r)[3], const V(&s)[3], const V(&t)[3], T w,
                      V(&out)[3]) WEFT_LAMBDA_INLINE {
    WEFT_UNROLL_ALL for (int i = 0; i < 3; ++i) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
      out[i] = w * (g[j] * r[k] - g[k] * r[j] + g[3 + j] * s[k] - g[3 + k] * s[j] + g[6 + j] * t[k] - g[6 + k] * t[j]);
    }
  };
  run_blocks<n, T>(c, chunk, c.f, 3, c.out, 3, 2 * n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
    if (c.geometry.shape[block] == Shape::affine)
      block_of_constant_curl<N, T>(c, block, ahead, Scratch<T>(scratch));
    else
      block_of_derivatives<N, 3, 3, T>(c, block, ahead, Scratch<T>(scratch), use);
  });
}

}  // namespace weft::flow
