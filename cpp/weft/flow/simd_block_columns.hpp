// The columns in t of a block in assembled vectors, in any order.
#pragma once

#include <array>
#include <cstdint>

#include "weft/poisson/simd_blocks.hpp"
#include "weft/poisson/simd_kernel.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {

// Where columns j n + i begin: among the block's surface points if they lie on the element's sides (then with all n
// points, else with the two ends), and -1 or among its inside points; poisson::for_columns().
template <int n>
struct ColumnPlaces {
  std::array<std::int16_t, n * n> surface{}, inside{};
};
template <int n>
inline constexpr ColumnPlaces<n> column_places = [] {
  ColumnPlaces<n> places;
  int surface = 0, inside = 0;
  for (int ij = 0; ij < n * n; ++ij) {
    const bool on_surface = ij / n == 0 || ij / n == n - 1 || ij % n == 0 || ij % n == n - 1;
    places.surface[ij] = static_cast<std::int16_t>(surface);
    places.inside[ij] = static_cast<std::int16_t>(on_surface ? -1 : inside);
    surface += on_surface ? n : 2;
    inside += on_surface ? 0 : n - 2;
  }
  return places;
}();

template <int n, class T>
class BlockColumns {
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>;

 public:
  BlockColumns(const poisson::SimdBlocks<T>& d, std::int64_t block)
      : surface_(d.index + block * poisson::surface_points<n> * lanes),
        first_(d.interior[block]),
        inside_(first_ >= 0 ? nullptr : d.interior_index + (-1 - first_)),
        conflict_(d.conflict[block] != 0) {}

  // u[k] of column ij of x.
  WEFT_ALWAYS_INLINE void read(const T* x, int ij, V (&u)[n]) const {
    const std::int32_t* const at = surface_ + column_places<n>.surface[ij] * lanes;
    const int point = column_places<n>.inside[ij];
    if (point < 0) {
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = simd::gather(x, at + k * lanes);
      return;
    }
    u[0] = simd::gather(x, at);
    u[n - 1] = simd::gather(x, at + lanes);
    if (inside_ == nullptr) {
      WEFT_UNROLL_ALL for (int k = 1; k < n - 1; ++k) u[k] = simd::load(x + first_ + (point + k - 1) * lanes);
    } else {
      for (int k = 1; k < n - 1; ++k) u[k] = simd::gather(x, inside_ + (point + k - 1) * lanes);
    }
  }

  // Adds u[k] to column ij of y; insides in a row, which the block alone has, are written.
  WEFT_ALWAYS_INLINE void add(T* y, int ij, const V (&u)[n]) const {
    const std::int32_t* const at = surface_ + column_places<n>.surface[ij] * lanes;
    const int point = column_places<n>.inside[ij];
    if (point < 0) {
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) add(y, at + k * lanes, u[k]);
      return;
    }
    add(y, at, u[0]);
    add(y, at + lanes, u[n - 1]);
    if (inside_ == nullptr) {
      WEFT_UNROLL_ALL for (int k = 1; k < n - 1; ++k) simd::store(y + first_ + (point + k - 1) * lanes, u[k]);
    } else {
      for (int k = 1; k < n - 1; ++k) add(y, inside_ + (point + k - 1) * lanes, u[k]);
    }
  }

 private:
  WEFT_ALWAYS_INLINE void add(T* to, const std::int32_t* index, V v) const {
    if (conflict_)
      simd::scatter_add_serial<T>(to, index, v);
    else
      simd::scatter_add<T>(to, index, v);
  }

  const std::int32_t* surface_;
  std::int64_t first_;
  const std::int32_t* inside_;
  bool conflict_;
};

}  // namespace weft::flow
