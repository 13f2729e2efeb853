// (grad q, f) = sum_a D_a^T (w C_a . f).
#pragma once

#include <cstdint>

#include "weft/flow/simd_block_loop.hpp"
#include "weft/flow/simd_fluxes.hpp"

namespace weft::flow {

template <int N, class T>
void weak_divergence(const SimdCall<T>& c, space::Range chunk, T* scratch) {
  constexpr int n = N + 1;
  run_blocks<n, T>(c, chunk, c.f, 3, c.out, 1, 2 * n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
    block_of_fluxes<N, Weights::before, T>(c, block, ahead, c.tables.transposed, Scratch<T>(scratch));
  });
}

}  // namespace weft::flow
