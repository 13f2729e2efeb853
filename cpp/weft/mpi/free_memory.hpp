// How much memory is left for each rank.
#pragma once

#include <cstdint>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// Free bytes of the memory that `device` uses, divided by the ranks of `comm` that use the same memory: those on the
// same GPU, or on the same host. The least of all ranks. (collective)
std::int64_t free_bytes_per_rank(const device::Device& device, const Comm& comm);

}  // namespace weft::mpi
