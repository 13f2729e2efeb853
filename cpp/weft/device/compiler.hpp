// Run-time compilation of the kernels for GPUs: NVRTC for cuda, hipRTC for hip, opened by dlopen. No GPU is needed.
#pragma once

#include <algorithm>
#include <string>

#include "weft/device/device.hpp"

namespace weft::device {

struct Compiled {
  std::string image;     // what the driver loads: a cubin, PTX or a code object
  std::string log;       // the compiler's log; for cuda it includes the resources of every kernel
  std::string compiler;  // "NVRTC 13.5"
  Backend backend{};
};

// In files with one instance per order, each kernel has its own tile sizes, so its kernels are compiled one by one. The
// kernels of other files are compiled into one image.
inline bool compiled_alone(const KernelSpec& spec) {
  return std::any_of(spec.defines.begin(), spec.defines.end(), [](const Define& d) { return d.name == "WEFT_N"; });
}

// The kernels of spec.file, or spec.name alone, for `architecture` ("sm_90", "gfx90a"), from the cache (disk_cache.hpp)
// if it has them. For a GPU newer than NVRTC, the result is PTX for the newest architecture below it that NVRTC knows;
// the driver compiles that when it loads it, and the log does not report resources. If several NVRTCs are installed,
// the one with the major version of driver_version (1000 major + 10 minor, 0 unknown) is used. Throws
// std::runtime_error with the compiler's log. `text` replaces the library's own source of that file.
Compiled compile(Backend backend, const KernelSpec& spec, const std::string& architecture, int driver_version = 0,
                 const char* text = nullptr);

// Whether the compiler can be opened; `reason` is its version, or why it cannot.
Availability compiler_availability(Backend backend, int driver_version = 0);

// Compiles without a device and returns the resources of spec.name, to check that a kernel neither spills nor uses a
// stack. The name of the architecture selects the compiler. hipRTC runs in a child process, because some versions abort
// on unknown architectures; this becomes a std::runtime_error, like any failed compilation.
KernelResources compile_check(const KernelSpec& spec, const std::string& architecture, const char* text = nullptr);

// The resources of `kernel`, from the log of `ptxas -v` for cuda, and from the metadata note of the code object for hip
// (registers: vector registers). Throws std::runtime_error if there is no such kernel.
KernelResources resources_of(const Compiled& compiled, const std::string& kernel);

}  // namespace weft::device
