// The SIMD kernels of one order and scalar type, WEFT_N and WEFT_REAL: one unit of device/host_compiler.hpp.
#include "weft/device/host_registry.hpp"
#include "weft/poisson/simd_fields.hpp"
#include "weft/poisson/simd_levels.hpp"
#include "weft/poisson/simd_sweep.hpp"

namespace weft::poisson {
namespace {

constexpr int N = WEFT_N;
using T = WEFT_REAL;

constexpr SimdPasses<T> passes{{&planes<N + 1, T, AffineRows<N + 1, T>>, &planes<N + 1, T, TrilinearRows<N + 1, T>>,
                                &planes<N + 1, T, StoredRows<N + 1, T>>},
                               &run_blocks<N, T, OperatorSweep<T>>,
                               &run_blocks<N, T, CgSweep<T>>,
                               &run_blocks<N, T, ChebyshevSweep<T>>};
constexpr FieldPasses<T> fields{&run_fields<N, T, ComponentSweep<T>>};
constexpr LevelPasses<T> levels{&prolong_blocks<N, T>, &restrict_blocks<N, T>, &schwarz_blocks<N, T>};

[[maybe_unused]] const bool registered =
    device::register_host_table(WEFT_FILE, WEFT_CONSTANTS, "passes", simd::bytes, &passes) &&
    device::register_host_table(WEFT_FILE, WEFT_CONSTANTS, "fields", simd::bytes, &fields) &&
    device::register_host_table(WEFT_FILE, WEFT_CONSTANTS, "levels", simd::bytes, &levels);

}  // namespace
}  // namespace weft::poisson
