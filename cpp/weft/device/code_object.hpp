// Resources of the kernels in an AMD code object.
#pragma once

#include <string>

#include "weft/device/device.hpp"

namespace weft::device {

// Reads the metadata note (msgpack) of the ELF image, which may be inside an offload bundle. registers and spill_bytes
// (4 per register and thread) count vector registers. Throws std::runtime_error if the image has no such note or no
// such kernel.
KernelResources resources_of_code_object(const std::string& image, const std::string& kernel);

}  // namespace weft::device
