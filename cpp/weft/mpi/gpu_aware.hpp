// Whether MPI may be given device memory: asked of the library and proved by a transfer.
#pragma once

#include <string>

#include "weft/device/device.hpp"

namespace weft::mpi {

struct GpuAware {
  bool usable = false;  // MPI may be given this device's memory
  std::string asked;    // what the library says of itself: "yes", "no" or "does not say"
  std::string reason;   // in words for the user
};

// The transfer runs in a child process, weft_mpi_probe beside the library (or the program WEFT_MPI_PROBE names), with a
// time limit, so that an MPI that dies on device memory is found out and not suffered. One answer a process and
// backend: the first call takes about a second where there is a GPU. Not collective.
const GpuAware& gpu_aware(const device::Device& device);

// What the library says of itself, by the query functions MPICH and Open MPI have for it.
std::string gpu_support_asked(device::Backend backend);

}  // namespace weft::mpi
