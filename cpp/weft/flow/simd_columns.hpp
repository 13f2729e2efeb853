// Columns in t of a block between assembled vectors and fields in scratch.
#pragma once

#include <cstdint>

#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/poisson/simd_kernel.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {

using poisson::SimdBlocks;
using simd::contract;
using simd::load;

// use(field, column, values[n]) for all columns of a block.
template <int n, class T, class Use>
__attribute__((noinline)) void read_columns(const SimdBlocks<T>& d, std::int64_t block, const T* x,
                                            std::int64_t entries, int fields, Use use) {
  constexpr int lanes = simd::lanes<T>;
  const std::int32_t* at = d.index + block * poisson::surface_points<n> * lanes;
  const bool in_a_row = d.interior[block] >= 0;
  const std::int64_t first = d.interior[block];
  const std::int32_t* const inside = in_a_row ? nullptr : d.interior_index + (-1 - first);
  poisson::for_columns<n>(
      [&](int ij) {
        for (int f = 0; f < fields; ++f) {
          Vec<T> u[n];
          WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = simd::gather(x + f * entries, at + k * lanes);
          use(f, ij, u);
        }
        at += n * lanes;
      },
      [&](int ij, int point) {
        for (int f = 0; f < fields; ++f) {
          const T* from = x + f * entries;
          Vec<T> u[n];
          u[0] = simd::gather(from, at);
          u[n - 1] = simd::gather(from, at + lanes);
          if (in_a_row) {
            WEFT_UNROLL_ALL for (int k = 1; k < n - 1; ++k) u[k] = load(from + first + (point + k - 1) * lanes);
          } else {
            for (int k = 1; k < n - 1; ++k) u[k] = simd::gather(from, inside + (point + k - 1) * lanes);
          }
          use(f, ij, u);
        }
        at += 2 * lanes;
      });
}

// make(field, column, values[n]) gives what is added to the vectors; insides that a block alone has are written.
template <int n, class T, class Make>
__attribute__((noinline)) void add_columns(const SimdBlocks<T>& d, std::int64_t block, T* y, std::int64_t entries,
                                           int fields, Make make) {
  constexpr int lanes = simd::lanes<T>;
  const std::int32_t* at = d.index + block * poisson::surface_points<n> * lanes;
  const bool in_a_row = d.interior[block] >= 0, conflict = d.conflict[block] != 0;
  const std::int64_t first = d.interior[block];
  const std::int32_t* const inside = in_a_row ? nullptr : d.interior_index + (-1 - first);
  const auto add = [&](T* to, const std::int32_t* index, Vec<T> v) WEFT_LAMBDA_INLINE {
    if (conflict)
      simd::scatter_add_serial<T>(to, index, v);
    else
      simd::scatter_add<T>(to, index, v);
  };
  poisson::for_columns<n>(
      [&](int ij) {
        for (int f = 0; f < fields; ++f) {
          Vec<T> u[n];
          make(f, ij, u);
          WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) add(y + f * entries, at + k * lanes, u[k]);
        }
        at += n * lanes;
      },
      [&](int ij, int point) {
        for (int f = 0; f < fields; ++f) {
          T* to = y + f * entries;
          Vec<T> u[n];
          make(f, ij, u);
          add(to, at, u[0]);
          add(to, at + lanes, u[n - 1]);
          if (in_a_row) {
            WEFT_UNROLL_ALL for (int k = 1; k < n - 1; ++k) simd::store(to + first + (point + k - 1) * lanes, u[k]);
          } else {
            for (int k = 1; k < n - 1; ++k) add(to, inside + (point + k - 1) * lanes, u[k]);
          }
        }
        at += 2 * lanes;
      });
}

// Columns of a term into planes.
template <int n, class T>
void read_values(const SimdBlocks<T>& d, std::int64_t block, const T* x, std::int64_t entries, int fields, Vec<T>* U) {
  read_columns<n, T>(d, block, x, entries, fields, [=](int f, int ij, const Vec<T>(&u)[n]) WEFT_LAMBDA_INLINE {
    Vec<T>* const to = U + f * field_vectors<n, n> + ij * pitch<n>;
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) to[k] = u[k];
  });
}

}  // namespace weft::flow
