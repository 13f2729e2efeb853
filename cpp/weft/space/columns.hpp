// The columns in t of a block of elements, one element per vector lane, and their values in assembled vectors.
//
// A column is numbered j n + i. If it is on a side of the elements, all of its n points are surface points of the
// block, stored consecutively. Of any other column, the two ends are surface points, and the points in between are
// interior points of the block (space::BlockIndex).
#pragma once

#include <array>
#include <cstdint>

#include "weft/simd/vector.hpp"
#include "weft/space/block_index.hpp"

namespace weft::space {

template <int n>
inline constexpr int surface_points = cube(n) - cube(n - 2);

// The two kinds of columns are types, so that a loop over all columns has branch-free code for each kind.
struct SideColumn {
  int surface;  // its first surface point
};
struct InnerColumn {
  int surface;
  int inside;  // its first inside point
};

// Calls use(j n + i, column) for all columns, in the order of their surface points.
template <int n, class Use>
WEFT_ALWAYS_INLINE constexpr void for_columns(Use&& use) {
  int surface = 0;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      if (i > 0 && i < n - 1 && j > 0 && j < n - 1) {
        use(j * n + i, InnerColumn{surface, ((j - 1) * (n - 2) + i - 1) * (n - 2)});
        surface += 2;
      } else {
        use(j * n + i, SideColumn{surface});
        surface += n;
      }
    }
  }
}

// Tables indexed by j n + i, for any order; inside: -1 on the sides.
template <int n>
struct ColumnPlaces {
  std::array<std::int16_t, n * n> surface{}, inside{};
};
template <int n>
inline constexpr ColumnPlaces<n> column_places = [] {
  ColumnPlaces<n> places;
  for_columns<n>([&](int ij, auto column) {
    places.surface[ij] = static_cast<std::int16_t>(column.surface);
    if constexpr (requires { column.inside; })
      places.inside[ij] = static_cast<std::int16_t>(column.inside);
    else
      places.inside[ij] = -1;
  });
  return places;
}();

// The surface points of a block. Results are bit-identical for every kind of access.
template <class T>
class BlockSurface {
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>;

 public:
  BlockSurface(const BlockIndex& blocks, std::int64_t block, int points)
      : index_(blocks.index + block * points * lanes),
        runs_(blocks.runs == nullptr ? nullptr : blocks.runs + block * points),
        zero_(blocks.zero),
        by_loads_(blocks.by_loads),
        conflict_(blocks.conflict[block] != 0) {}

  const std::int32_t* at(int point) const { return index_ + point * lanes; }

  WEFT_ALWAYS_INLINE V read(const T* x, int point) const {
    const std::int32_t* const index = at(point);
    if (runs_ != nullptr && runs_[point] != 0) return simd::load(x + *index);
    return by_loads_ ? simd::gather_by_loads<T>(x, index) : simd::gather_at_once<T>(x, index);
  }
  WEFT_ALWAYS_INLINE void add(T* y, int point, V v) const {
    const std::int32_t* const index = at(point);
    if (runs_ != nullptr && runs_[point] != 0)
      simd::store<T>(y + *index, simd::load(y + *index) + v);
    else
      add(y, index, v);
  }
  // Adds to any entries.
  WEFT_ALWAYS_INLINE void add(T* y, const std::int32_t* index, V v) const {
    if (conflict_)
      simd::scatter_add_serial<T>(y, index, v, zero_);
    else if (by_loads_)
      simd::scatter_add_by_stores<T>(y, index, v);
    else
      simd::scatter_add<T>(y, index, v);
  }

 private:
  const std::int32_t* index_;
  const std::uint8_t* runs_;
  std::int32_t zero_;
  bool by_loads_, conflict_;
};

template <int n, class T>
class BlockColumns {
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>;

 public:
  BlockColumns(const BlockIndex& blocks, std::int64_t block)
      : surface_(blocks, block, surface_points<n>),
        first_(blocks.interior[block]),
        inside_(first_ >= 0 ? nullptr : blocks.interior_index + (-1 - first_)) {}

  // Calls, for the points k of a column, surface(k, surface point, index); and between the ends row(k, entry) if each
  // interior point of the block is `lanes` contiguous entries, which only this block touches, else apart(k, index).
  template <class Surface, class Row, class Apart>
  WEFT_ALWAYS_INLINE void visit(SideColumn column, Surface&& surface, Row&&, Apart&&) const {
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) surface(k, column.surface + k, surface_.at(column.surface + k));
  }
  template <class Surface, class Row, class Apart>
  WEFT_ALWAYS_INLINE void visit(InnerColumn column, Surface&& surface, Row&& row, Apart&& apart) const {
    surface(0, column.surface, surface_.at(column.surface));
    surface(n - 1, column.surface + 1, surface_.at(column.surface + 1));
    if (inside_ == nullptr) {
      WEFT_UNROLL_ALL for (int k = 1; k < n - 1; ++k) row(k, first_ + (column.inside + k - 1) * lanes);
    } else {
      for (int k = 1; k < n - 1; ++k) apart(k, inside_ + (column.inside + k - 1) * lanes);
    }
  }

  // Reads u[k] of a column of x; row(entry) reads an interior point if the block's interior points are contiguous.
  template <class Column, class Row>
  WEFT_ALWAYS_INLINE void read(const T* x, Column column, V (&u)[n], Row&& row) const {
    visit(
        column, [&](int k, int point, const std::int32_t*) WEFT_LAMBDA_INLINE { u[k] = surface_.read(x, point); },
        [&](int k, std::int64_t entry) WEFT_LAMBDA_INLINE { u[k] = row(entry); },
        [&](int k, const std::int32_t* index) WEFT_LAMBDA_INLINE { u[k] = simd::gather(x, index); });
  }
  template <class Column>
  WEFT_ALWAYS_INLINE void read(const T* x, Column column, V (&u)[n]) const {
    read(x, column, u, [&](std::int64_t entry) WEFT_LAMBDA_INLINE { return simd::load(x + entry); });
  }
  WEFT_ALWAYS_INLINE void read(const T* x, int ij, V (&u)[n]) const {
    with_column(ij, [&](auto column) WEFT_LAMBDA_INLINE { read(x, column, u); });
  }

  // Prefetches the indices of a column's surface points in the next block. They are few, but a block cannot read before
  // it has them. Past the last block it has no effect.
  template <class Column>
  WEFT_ALWAYS_INLINE void next_ahead(Column column) const {
    constexpr int points = requires { column.inside; } ? 2 : n, line = 64 / static_cast<int>(sizeof(std::int32_t));
    const std::int32_t* const next = surface_.at(surface_points<n> + column.surface);
    WEFT_UNROLL_ALL for (int i = 0; i < points * lanes; i += line) __builtin_prefetch(next + i, 0, 2);
  }

  // Adds u[k] to a column of y; row(entry, value) handles interior points if they are contiguous.
  template <class Column, class Row>
  WEFT_ALWAYS_INLINE void add(T* y, Column column, const V (&u)[n], Row&& row) const {
    visit(
        column, [&](int k, int point, const std::int32_t*) WEFT_LAMBDA_INLINE { surface_.add(y, point, u[k]); },
        [&](int k, std::int64_t entry) WEFT_LAMBDA_INLINE { row(entry, u[k]); },
        [&](int k, const std::int32_t* index) WEFT_LAMBDA_INLINE { surface_.add(y, index, u[k]); });
  }
  // Contiguous interior points are overwritten.
  template <class Column>
  WEFT_ALWAYS_INLINE void add(T* y, Column column, const V (&u)[n]) const {
    add(y, column, u, [&](std::int64_t entry, V v) WEFT_LAMBDA_INLINE { simd::store(y + entry, v); });
  }
  WEFT_ALWAYS_INLINE void add(T* y, int ij, const V (&u)[n]) const {
    with_column(ij, [&](auto column) WEFT_LAMBDA_INLINE { add(y, column, u); });
  }

 private:
  template <class Use>
  static WEFT_ALWAYS_INLINE void with_column(int ij, Use&& use) {
    const int surface = column_places<n>.surface[ij], inside = column_places<n>.inside[ij];
    if (inside < 0)
      use(SideColumn{surface});
    else
      use(InnerColumn{surface, inside});
  }

  BlockSurface<T> surface_;
  std::int64_t first_;
  const std::int32_t* inside_;
};

}  // namespace weft::space
