// Run-time compilation of the kernels for GPUs: NVRTC for cuda, hipRTC for hip, opened by dlopen. No GPU is needed.
#pragma once

#include <algorithm>
#include <string>

#include "weft/device/device.hpp"

namespace weft::device {

struct Compiled {
  std::string image;     // what the driver loads: a cubin or a code object
  std::string log;       // the compiler's words: for cuda with the resources of every kernel
  std::string compiler;  // "NVRTC 13.5"
  Backend backend{};
};

// A file with an instance per order has tile sizes of each kernel: its kernels are compiled one by one. Those of other
// files come together in one image.
inline bool compiled_alone(const KernelSpec& spec) {
  return std::any_of(spec.defines.begin(), spec.defines.end(), [](const Define& d) { return d.name == "WEFT_N"; });
}

// The kernels of spec.file, or spec.name alone, for `architecture` ("sm_90", "gfx90a"), from the cache
// (disk_cache.hpp) where it has them. driver_version (1000 major + 10 minor, 0 unknown) picks among several installed
// NVRTCs the one of its major version. Throws std::runtime_error with the compiler's log. `text` replaces the library's
// own source of that file.
Compiled compile(Backend backend, const KernelSpec& spec, const std::string& architecture, int driver_version = 0,
                 const char* text = nullptr);

// Whether the compiler opens; `reason` is its version, or why not.
Availability compiler_availability(Backend backend, int driver_version = 0);

// Compiles without a device and tells what spec.name takes: the check that a kernel neither spills nor has a stack.
// The architecture's name picks the compiler. hipRTC works in a child process, since versions of it abort on
// architectures they do not know; that then is a std::runtime_error like any failed compilation.
KernelResources compile_check(const KernelSpec& spec, const std::string& architecture, const char* text = nullptr);

// What `kernel` takes: for cuda read from the log of `ptxas -v`, for hip from the metadata note of the code object
// (registers: vector registers). Throws std::runtime_error if the
// kernel is not there.
KernelResources resources_of(const Compiled& compiled, const std::string& kernel);

}  // namespace weft::device
