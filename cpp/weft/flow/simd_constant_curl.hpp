// The curl for a constant metric: with x_a = dx/dr_a (C_r = x_s x x_t and so on) and v_a = x_a . u,
//   sum_a C_a x D_a u = x_r (D_s v_t - D_t v_s) + x_s (D_t v_r - D_r v_t) + x_t (D_r v_s - D_s v_r),
// which takes six derivatives instead of nine. Two passes, as in simd_derivatives.hpp.
#pragma once

#include <cstdint>

#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_derivatives.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_prefetch.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/columns.hpp"

namespace weft::flow {

// One block of parallelepipeds: w sum_a C_a x D_a u.
template <int N, class T>
__attribute__((noinline)) void block_of_constant_curl(const SimdCall<T>& c, std::int64_t block, Prefetch<T>& ahead,
                                                      Scratch<T> scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, field = field_vectors<n, n>, step = pitch<n>;
  const SimdTables<T>& tables = c.tables;
  // Per block: v_r and v_t, which the second pass differentiates along s, and the contributions of the first pass to
  // the three components. Per slab: v_s, then derivatives along s. Per column: the fields, then the result.
  V *vr = scratch.take(field), *vt = scratch.take(field), *Ar = scratch.take(field), *As = scratch.take(field),
    *At = scratch.take(field), *vs = scratch.take(n * step), *S = scratch.take(n * step), *f = scratch.take(3 * n);
  V x[9];  // components of x_r, x_s, x_t
  for (int a = 0; a < 9; ++a) x[a] = simd::load(c.geometry.maps + (block * 24 + 3 + a) * simd::lanes<T>);
  const space::BlockColumns<n, T> columns(c.blocks, block);
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      const int at = (j * n + i) * step;
      ahead.step();
      for (int d = 0; d < 3; ++d) {
        V u[n];
        columns.read(c.f + d * c.entries, j * n + i, u);
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) f[d * n + k] = u[k];
      }
#pragma GCC unroll 1
      for (int k = 0; k < n; ++k) {
        const V ux = f[k], uy = f[n + k], uz = f[2 * n + k];
        vr[at + k] = x[0] * ux + x[1] * uy + x[2] * uz;
        vs[i * step + k] = x[3] * ux + x[4] * uy + x[5] * uz;
        vt[at + k] = x[6] * ux + x[7] * uy + x[8] * uz;
      }
      V u[n];
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = vr[at + k];
      contract<n, T>(tables.derivative, u, [=](int k, V v) WEFT_LAMBDA_INLINE { As[at + k] = v; });
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = vs[i * step + k];
      contract<n, T>(tables.derivative, u, [=](int k, V v) WEFT_LAMBDA_INLINE { Ar[at + k] = v; });
    }
    const int slab = j * n * step;
#pragma GCC unroll 1
    for (int k = 0; k < n; ++k) {
      V u[n];
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = vs[i * step + k];
      contract<n, T>(tables.derivative, u, [=](int i, V v) WEFT_LAMBDA_INLINE { At[slab + i * step + k] = v; });
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = vt[slab + i * step + k];
      contract<n, T>(tables.derivative, u, [=](int i, V v) WEFT_LAMBDA_INLINE { As[slab + i * step + k] -= v; });
    }
  }
  for (int i = 0; i < n; ++i) {
    slab_along_s<n, T>(tables.derivative, vt + i * step, S);
    slab_along_s<n, T>(tables.derivative, vr + i * step, vs);
    for (int j = 0; j < n; ++j) {
      const int at = (j * n + i) * step;
      ahead.step();
      const T line = tables.weights[i] * tables.weights[j];
      T weights[n];
      for (int k = 0; k < n; ++k) weights[k] = line * tables.weights[k];
#pragma GCC unroll 1
      for (int k = 0; k < n; ++k) {
        const V r = weights[k] * (S[j * step + k] - Ar[at + k]), s = weights[k] * As[at + k],
                t = weights[k] * (At[at + k] - vs[j * step + k]);
        WEFT_UNROLL_ALL for (int d = 0; d < 3; ++d) f[d * n + k] = x[d] * r + x[3 + d] * s + x[6 + d] * t;
      }
      for (int d = 0; d < 3; ++d) {
        V v[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] = f[d * n + k];
        columns.add(c.out + d * c.entries, j * n + i, v);
      }
    }
  }
}

}  // namespace weft::flow
