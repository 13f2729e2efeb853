// Whether MPI may be given device memory: reported by the library, and tested by a transfer.
#pragma once

#include <string>

#include "weft/device/device.hpp"

namespace weft::mpi {

struct GpuAware {
  bool usable = false;  // MPI may be given this device's memory
  std::string asked;    // what the library reports: "yes", "no" or "does not say"
  std::string reason;   // for the user
};

// The transfer runs in a child process with a time limit, so that an MPI library that crashes on device memory does no
// harm. The program is weft_mpi_probe, next to the library, or the one named by WEFT_MPI_PROBE. The child uses the same
// GPU as this process. The answer is kept per process and GPU; the first call takes about a second if there is a GPU.
// Not collective.
const GpuAware& gpu_aware(const device::Device& device);

// What the library reports through the query functions of MPICH and Open MPI.
std::string gpu_support_asked(device::Backend backend);

}  // namespace weft::mpi
