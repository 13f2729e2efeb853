// Lines along r and s of a plane of a block.
#pragma once

#include "weft/flow/simd_layout.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {

using simd::contract;

// R = du/dr and S = du/ds [n][n] in plane U, which points to layer k of the first column.
template <int n, class T>
__attribute__((noinline)) void plane_derivatives(const T* __restrict__ derivative, const Vec<T>* __restrict__ U,
                                                 Vec<T>* __restrict__ R, Vec<T>* __restrict__ S) {
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = U[(j * n + i) * pitch<n>];
    contract<n, T>(derivative, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { S[j * n + i] = v; });
  }
#pragma GCC unroll 1
  for (int j = 0; j < n; ++j) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = U[(j * n + i) * pitch<n>];
    contract<n, T>(derivative, u, [=](int i, Vec<T> v) WEFT_LAMBDA_INLINE { R[j * n + i] = v; });
  }
}

}  // namespace weft::flow
