// The flow's terms of one order on a block of elements, with one element per vector lane, directly between assembled
// vectors. A term consists of
//   columns in t: its fields are read from the vectors, with their derivatives along t (or values and slopes on fine
//                 layers)
//   planes k:     lines along r and s, the metric row by row, the fluxes and their transposes
//   columns in t: the remaining operations along t, and adding to the vectors
// These steps are functions (simd_columns, simd_planes, simd_fine, simd_cofactors.hpp), each compiled once per order;
// the terms, one file each, combine them. No step is inlined into another: the arithmetic of a line is long enough, and
// the compiler is spared 15 x 6 large loops.
//
// Compiled as a unit (device/host_compiler.hpp) with WEFT_N and WEFT_REAL.
#include <cstdint>

#include "weft/device/host_registry.hpp"
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
namespace {

constexpr int N = WEFT_N;
using T = WEFT_REAL;

// The largest scratch memory of any block: that for convection of fields other than u on curved elements.
constexpr std::int64_t scratch_values = [] {
  constexpr int n = N + 1, m = element::dealiasing_points(N);
  return simd::lanes<T> * (static_cast<std::int64_t>(15) * field_vectors<n, m> + 24 * m * n + 24 * m + 3 * 32);
}();

constexpr SimdFunctions<T> functions{
    {&convect<N, T>, &convect_skew<N, T>, &gradient<N, T>, &weak_divergence<N, T>, &divergence<N, T>, &curl<N, T>},
    scratch_values};

[[maybe_unused]] const bool registered =
    device::register_host_table(WEFT_FILE, WEFT_CONSTANTS, "functions", simd::bytes, &functions);

}  // namespace
}  // namespace weft::flow
