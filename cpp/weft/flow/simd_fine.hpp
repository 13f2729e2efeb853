// Lines of a block onto fine points: columns in t onto layers, lines along s of a layer, rows.
#pragma once

#include <cstdint>

#include "weft/element/gauss.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_columns.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/simd/between_points.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {

// Columns of a term onto fine layers: values, and slopes where asked for.
template <int n, class T>
void read_fine(const SimdBlocks<T>& d, const SimdTables<T>& t, std::int64_t block, const T* x, std::int64_t entries,
               int fields, bool slopes, Vec<T>* A, Vec<T>* S) {
  constexpr int m = element::dealiasing_points(n - 1);
  const T *value = t.value, *slope = t.slope;
  read_columns<n, T>(d, block, x, entries, fields, [=](int f, int ij, const Vec<T>(&u)[n]) WEFT_LAMBDA_INLINE {
    Vec<T>* const a = A + f * field_vectors<n, m> + ij * pitch<m>;
    contract<m, n, true, T>(value, u, [=](int k, Vec<T> v) WEFT_LAMBDA_INLINE { a[k] = v; });
    if (!slopes) return;
    Vec<T>* const s = S + f * field_vectors<n, m> + ij * pitch<m>;
    contract<m, n, false, T>(slope, u, [=](int k, Vec<T> v) WEFT_LAMBDA_INLINE { s[k] = v; });
  });
}

// Lines along s of layer A of fine points, as above: [m][n] values, slopes.
template <int n, class T>
__attribute__((noinline)) void fine_values(const SimdTables<T>& t, const Vec<T>* __restrict__ A,
                                           Vec<T>* __restrict__ B) {
  constexpr int m = element::dealiasing_points(n - 1);
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = A[(j * n + i) * pitch<m>];
    contract<m, n, true, T>(t.value, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { B[j * n + i] = v; });
  }
}
template <int n, class T>
__attribute__((noinline)) void fine_slopes(const SimdTables<T>& t, const Vec<T>* __restrict__ A,
                                           Vec<T>* __restrict__ Bs) {
  constexpr int m = element::dealiasing_points(n - 1);
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = A[(j * n + i) * pitch<m>];
    contract<m, n, false, T>(t.slope, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { Bs[j * n + i] = v; });
  }
}
// Of a row [n]: values or slopes on its fine points.
template <int n, class T>
__attribute__((noinline)) void fine_row(const T* __restrict__ value, const Vec<T>* __restrict__ B,
                                        Vec<T>* __restrict__ v) {
  constexpr int m = element::dealiasing_points(n - 1);
  Vec<T> u[n];
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = B[i];
  contract<m, n, true, T>(value, u, [=](int i, Vec<T> w) WEFT_LAMBDA_INLINE { v[i] = w; });
}
template <int n, class T>
__attribute__((noinline)) void fine_row_slopes(const T* __restrict__ slope, const Vec<T>* __restrict__ B,
                                               Vec<T>* __restrict__ v) {
  constexpr int m = element::dealiasing_points(n - 1);
  Vec<T> u[n];
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = B[i];
  contract<m, n, false, T>(slope, u, [=](int i, Vec<T> w) WEFT_LAMBDA_INLINE { v[i] = w; });
}

}  // namespace weft::flow
