// How much memory is available to each rank.
#pragma once

#include <cstdint>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// Free bytes of the memory that `device` uses, divided by the number of ranks of `comm` that use the same memory, on
// the same GPU or the same host. The minimum over all ranks. (collective)
std::int64_t free_bytes_per_rank(const device::Device& device, const Comm& comm);

}  // namespace weft::mpi
