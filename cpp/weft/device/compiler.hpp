// Run-time compilation of the kernels for GPUs: NVRTC for cuda, hipRTC for hip, opened by dlopen. No GPU is needed.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::device {

struct Compiled {
  std::string image;     // what the driver loads: a cubin, PTX or a code object
  std::string log;       // the compiler's log; for cuda it includes the resources of every kernel
  std::string compiler;  // "NVRTC 13.5"
  Backend backend{};
};

// Kernels of one file that are compiled with the same constants.
struct KernelsSpec {
  std::string file;
  std::vector<std::string> names;
  std::vector<Define> defines;
};

// Files with one instance per order give each kernel its own tile sizes, so their kernels are compiled one by one. The
// kernels of all other files are compiled into one image.
inline bool compiled_alone(const std::vector<Define>& defines) {
  return std::any_of(defines.begin(), defines.end(), [](const Define& d) { return d.name == "WEFT_N"; });
}

// The kernels of spec.file, or spec.name alone, for `architecture` ("sm_90", "gfx90a"), from the cache (disk_cache.hpp)
// if it has them. For a GPU newer than NVRTC, the result is PTX for the newest architecture below it that NVRTC knows;
// the driver compiles that when it loads it, and the log does not report resources. If several NVRTCs are installed,
// the one with the major version of driver_version (1000 major + 10 minor, 0 unknown) is used. Throws
// std::runtime_error with the compiler's log. `text` replaces the library's own source of that file.
Compiled compile(Backend backend, const KernelSpec& spec, const std::string& architecture, int driver_version = 0,
                 const char* text = nullptr);

// Whether the compiler can be opened. `reason` is its version, or why it cannot be opened.
Availability compiler_availability(Backend backend, int driver_version = 0);

// Compiles kernels of one file without a device and returns the resources of each, to check that none of them spills or
// uses a stack. All kernels are compiled together, which is faster than one by one and produces the same code. The name
// of the architecture selects the compiler. hipRTC runs in a child process, because some versions abort on unknown
// architectures; an abort becomes a std::runtime_error, like any failed compilation.
std::vector<KernelResources> compile_check(const KernelsSpec& spec, const std::string& architecture,
                                           const char* text = nullptr);

// All that the result of compile_check depends on, without compiling: the compiler's version, the architecture, the
// options, and the texts of the file and of those it includes. Throws std::runtime_error if there is no compiler.
std::string compilation_key(const KernelsSpec& spec, const std::string& architecture);

// The resources of `kernel`: from the log of `ptxas -v` for cuda, from the metadata note of the code object for hip
// (where registers are vector registers). Throws std::runtime_error if there is no such kernel.
KernelResources resources_of(const Compiled& compiled, const std::string& kernel);

}  // namespace weft::device
