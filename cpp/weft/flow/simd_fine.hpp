// Interpolates the lines of a block to fine points and back: columns in t to layers, then lines along s, then rows.
//
// Between reading and writing the columns in t, rows are stored by their even and odd parts (simd/between_points.hpp):
// n vectors, first the even parts with the middle point last, then the odd parts. Operations along s do not mix the
// parts, so the rows of a layer are contracted and projected without recomputing sums and differences.
#pragma once

#include <cstdint>

#include "weft/element/gauss.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_columns.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/simd/between_points.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {

using simd::Parts;
using simd::Two;

// Interpolates the columns of a term to fine layers: values and, if requested, slopes.
template <int n, class T>
void read_fine(const space::BlockIndex& d, const SimdTables<T>& t, std::int64_t block, const T* x, std::int64_t entries,
               int fields, bool slopes, Vec<T>* A, Vec<T>* S) {
  constexpr int m = element::dealiasing_points(n - 1);
  const T *value = t.value, *slope = t.slope;
  read_columns<n, T>(d, block, x, entries, fields, [=](int f, int ij, const Vec<T>(&u)[n]) WEFT_LAMBDA_INLINE {
    const Parts<n, Vec<T>> p = simd::parts(u);
    Vec<T>* const a = A + f * field_vectors<n, m> + ij * pitch<m>;
    simd::contract<m, n, true, T>(value, p, [=](int k, Vec<T> v) WEFT_LAMBDA_INLINE { a[k] = v; });
    if (!slopes) return;
    Vec<T>* const s = S + f * field_vectors<n, m> + ij * pitch<m>;
    simd::contract<m, n, false, T>(slope, p, [=](int k, Vec<T> v) WEFT_LAMBDA_INLINE { s[k] = v; });
  });
}

// Interpolates the lines along s of layer A of fine points to rows by parts [m][n]: values and, if requested, slopes.
template <int n, bool slopes, class T>
__attribute__((noinline)) void fine_lines(const SimdTables<T>& t, const Vec<T>* __restrict__ A, Vec<T>* __restrict__ B,
                                          Vec<T>* __restrict__ Bs) {
  using V = Vec<T>;
  constexpr int m = element::dealiasing_points(n - 1), h = n / 2;
#pragma GCC unroll 1
  for (int i = 0; i < h; ++i) {
    Two<V> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) {
      const V left = A[(j * n + i) * pitch<m>], right = A[(j * n + n - 1 - i) * pitch<m>];
      u[j] = {left + right, left - right};
    }
    const Parts<n, Two<V>> p = simd::parts(u);
    simd::contract<m, n, true, T>(t.value, p, [=](int j, const Two<V>& v) WEFT_LAMBDA_INLINE {
      B[j * n + i] = v.first;
      B[j * n + n - h + i] = v.second;
    });
    if constexpr (slopes)
      simd::contract<m, n, false, T>(t.slope, p, [=](int j, const Two<V>& v) WEFT_LAMBDA_INLINE {
        Bs[j * n + i] = v.first;
        Bs[j * n + n - h + i] = v.second;
      });
  }
  if constexpr (n % 2 == 1) {
    V u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = A[(j * n + h) * pitch<m>];
    const Parts<n, V> p = simd::parts(u);
    simd::contract<m, n, true, T>(t.value, p, [=](int j, V v) WEFT_LAMBDA_INLINE { B[j * n + h] = v; });
    if constexpr (slopes)
      simd::contract<m, n, false, T>(t.slope, p, [=](int j, V v) WEFT_LAMBDA_INLINE { Bs[j * n + h] = v; });
  }
}
// The reverse: projects rows by parts [m][n] along s onto layer A.
template <int n, class T>
__attribute__((noinline)) void project_lines(const SimdTables<T>& t, const Vec<T>* __restrict__ H,
                                             Vec<T>* __restrict__ A) {
  using V = Vec<T>;
  constexpr int m = element::dealiasing_points(n - 1), h = n / 2;
#pragma GCC unroll 1
  for (int i = 0; i < h; ++i) {
    Two<V> u[m];
    WEFT_UNROLL_ALL for (int j = 0; j < m; ++j) u[j] = {H[j * n + i], H[j * n + n - h + i]};
    simd::contract<n, m, true, T>(t.project, u, [=](int j, const Two<V>& v) WEFT_LAMBDA_INLINE {
      A[(j * n + i) * pitch<m>] = v.first + v.second;
      A[(j * n + n - 1 - i) * pitch<m>] = v.first - v.second;
    });
  }
  if constexpr (n % 2 == 1) {
    V u[m];
    WEFT_UNROLL_ALL for (int j = 0; j < m; ++j) u[j] = H[j * n + h];
    simd::contract<n, m, true, T>(t.project, u, [=](int j, V v) WEFT_LAMBDA_INLINE { A[(j * n + h) * pitch<m>] = v; });
  }
}

// Loads a row by parts [n].
template <int n, class V>
WEFT_ALWAYS_INLINE Parts<n, V> row_parts(const V* B) {
  constexpr int h = n / 2;
  Parts<n, V> p;
  WEFT_UNROLL_ALL for (int i = 0; i < n - h; ++i) p.even[i] = B[i];
  WEFT_UNROLL_ALL for (int i = 0; i < h; ++i) p.odd[i] = B[n - h + i];
  return p;
}
// Loads two such rows side by side.
template <int n, class V>
WEFT_ALWAYS_INLINE Parts<n, Two<V>> row_parts(const V* B, const V* C) {
  constexpr int h = n / 2;
  Parts<n, Two<V>> p;
  WEFT_UNROLL_ALL for (int i = 0; i < n - h; ++i) p.even[i] = {B[i], C[i]};
  WEFT_UNROLL_ALL for (int i = 0; i < h; ++i) p.odd[i] = {B[n - h + i], C[n - h + i]};
  return p;
}
// At the fine points [m] of a row: the slopes of B, and the values of Bs and Bt, which share their coefficients.
template <int n, class T>
__attribute__((noinline)) void fine_row(const SimdTables<T>& t, const Vec<T>* __restrict__ B,
                                        const Vec<T>* __restrict__ Bs, const Vec<T>* __restrict__ Bt,
                                        Vec<T>* __restrict__ r, Vec<T>* __restrict__ s, Vec<T>* __restrict__ z) {
  using V = Vec<T>;
  constexpr int m = element::dealiasing_points(n - 1);
  simd::contract<m, n, false, T>(t.slope, row_parts<n>(B), [=](int i, V v) WEFT_LAMBDA_INLINE { r[i] = v; });
  simd::contract<m, n, true, T>(t.value, row_parts<n>(Bs, Bt), [=](int i, const Two<V>& v) WEFT_LAMBDA_INLINE {
    s[i] = v.first;
    z[i] = v.second;
  });
}

}  // namespace weft::flow
