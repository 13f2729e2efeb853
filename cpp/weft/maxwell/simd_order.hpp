// The SIMD kernels of one order and scalar type, WEFT_N and WEFT_REAL: one unit of device/host_compiler.hpp.
#include "weft/device/host_registry.hpp"
#include "weft/maxwell/simd_kernel.hpp"

namespace weft::maxwell {
namespace {

using Order = Kernel<WEFT_N, WEFT_REAL>;
constexpr SimdFunctions<WEFT_REAL> functions{&Order::stage, &Order::traces, Order::row_stride, Order::scratch_values};

[[maybe_unused]] const bool registered =
    device::register_host_table(WEFT_FILE, WEFT_CONSTANTS, "functions", simd::bytes, &functions);

}  // namespace
}  // namespace weft::maxwell
