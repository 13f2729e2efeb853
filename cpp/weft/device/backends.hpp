// Registration of backends. A new backend is one file with an `Opener`, and one line in the table of device.cpp.
#pragma once

#include <memory>
#include <string>

#include "weft/device/device.hpp"

namespace weft::device {

using Opener = std::shared_ptr<Device> (*)(int ordinal);

std::shared_ptr<Device> open_host(int ordinal);
std::shared_ptr<Device> open_cuda(int ordinal);
std::shared_ptr<Device> open_hip(int ordinal);
Availability cuda_availability();
Availability hip_availability();

// Registers a backend that is not part of the library (the tests' fibers): afterwards `open(which)` calls `opener`.
bool register_backend(const std::string& which, Opener opener);

// The rank of this process within its node, from the launcher's environment if it is given there; otherwise its rank in
// MPI_COMM_WORLD; otherwise 0.
int rank_in_node();

// "N=7,real=double": the constants that select a host instance. With `tiles`, those for GPUs follow (WEFT_TILE_*,
// WEFT_WITH_*), ordered by name. Any other define throws std::invalid_argument, because host instances do not depend on
// it.
std::string constants_of(const KernelSpec& spec, bool tiles = false);

}  // namespace weft::device
