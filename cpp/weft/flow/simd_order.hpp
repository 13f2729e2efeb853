// The flow's terms of one order on a block of elements, one a vector lane, straight between assembled vectors. A term
// is
//   columns in t: its fields read from the vectors, and their derivatives along t (or values and slopes on fine layers)
//   planes k:     lines along r and s, the metric row by row, the fluxes and their transposes
//   columns in t: what is left along t, and adding to the vectors
// These steps are functions (simd_columns, simd_planes, simd_fine, simd_cofactors.hpp), each compiled once for an
// order; terms, a file each, put them together. No step is inlined into another: a line's arithmetic is long enough,
// and compilers are spared 15 x 6 large loops.
#pragma once

#include <cstdint>

#include "weft/element/gauss.hpp"
#include "weft/flow/simd_convect.hpp"
#include "weft/flow/simd_convect_skew.hpp"
#include "weft/flow/simd_curl.hpp"
#include "weft/flow/simd_divergence.hpp"
#include "weft/flow/simd_gradient.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_weak_divergence.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {

// The most that a block takes: convection of other fields than u on curved elements.
template <int N, class T>
inline constexpr std::int64_t scratch_values = [] {
  constexpr int n = N + 1, m = element::dealiasing_points(N);
  return simd::lanes<T> * (static_cast<std::int64_t>(15) * field_vectors<n, m> + 24 * m * n + 24 * m + 3 * 32);
}();

}  // namespace weft::flow
