// Columns in t of a block, for several fields at a time: transfers between assembled vectors and fields in scratch
// memory.
#pragma once

#include <cstdint>

#include "weft/flow/simd_layout.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/columns.hpp"

namespace weft::flow {

// Calls use(field, column, values[n]) for all columns of a block.
template <int n, class T, class Use>
__attribute__((noinline)) void read_columns(const space::BlockIndex& d, std::int64_t block, const T* x,
                                            std::int64_t entries, int fields, Use use) {
  const space::BlockColumns<n, T> columns(d, block);
  space::for_columns<n>([&](int ij, auto column) {
    for (int f = 0; f < fields; ++f) {
      Vec<T> u[n];
      columns.read(x + f * entries, column, u);
      use(f, ij, u);
    }
  });
}

// make(field, column, values[n]) computes what is added to the vectors; interior entries, which belong to one block
// alone, are overwritten instead.
template <int n, class T, class Make>
__attribute__((noinline)) void add_columns(const space::BlockIndex& d, std::int64_t block, T* y, std::int64_t entries,
                                           int fields, Make make) {
  const space::BlockColumns<n, T> columns(d, block);
  space::for_columns<n>([&](int ij, auto column) {
    for (int f = 0; f < fields; ++f) {
      Vec<T> u[n];
      make(f, ij, u);
      columns.add(y + f * entries, column, u);
    }
  });
}

// Reads the columns of a term into planes.
template <int n, class T>
void read_values(const space::BlockIndex& d, std::int64_t block, const T* x, std::int64_t entries, int fields,
                 Vec<T>* U) {
  read_columns<n, T>(d, block, x, entries, fields, [=](int f, int ij, const Vec<T>(&u)[n]) WEFT_LAMBDA_INLINE {
    Vec<T>* const to = U + f * field_vectors<n, n> + ij * pitch<n>;
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) to[k] = u[k];
  });
}

}  // namespace weft::flow
