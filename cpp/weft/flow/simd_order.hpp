// The flow's terms of one order on a block of elements, one element per vector lane, directly between assembled
// vectors. A term is
//   columns in t: its fields read from the vectors, and their derivatives along t (or values and slopes on fine layers)
//   planes k:     lines along r and s, the metric row by row, the fluxes and their transposes
//   columns in t: what is left along t, and adding to the vectors
// These steps are functions (simd_columns, simd_planes, simd_fine, simd_cofactors.hpp), each compiled once for an
// order; terms, a file each, put them together. No step is inlined into another: a line's arithmetic is long enough,
// and compilers are spared 15 x 6 large loops.
//
// A unit (device/host_compiler.hpp) with WEFT_N and WEFT_REAL.
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

// The most that a block takes: convection of other fields than u on curved elements.
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
