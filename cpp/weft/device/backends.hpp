// How a backend makes itself known. A new one is a file with an `Opener`, and one line in the table of device.cpp.
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

// For backends outside the library (the tests' fibers): afterwards `open(which)` calls `opener`.
bool register_backend(const std::string& which, Opener opener);

// Of this process among those of its node, from the launcher's environment; else the rank in MPI_COMM_WORLD; else 0.
int rank_in_node();

// "N=7,real=double": the constants that choose a host instance. Tile sizes (WEFT_TILE_*) are left out unless
// `tiles`, then they follow in the order of their names; any other define throws std::invalid_argument, since no host
// instance could follow it.
std::string constants_of(const KernelSpec& spec, bool tiles = false);

}  // namespace weft::device
