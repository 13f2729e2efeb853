// All-to-all exchange of equal messages, as in the transposes of a distributed FFT.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "weft/bench/timed.hpp"
#include "weft/exchange/choice.hpp"

namespace weft::bench {

// Every rank has a message of `bytes` (a multiple of 8) for each rank, including itself. Uses MPI's own collectives
// "alltoall", "alltoallv" or "ialltoall", on pinned host memory or on device memory. std::invalid_argument for other
// methods, and for sizes that exceed MPI's int counts of 8-byte words. (collective)
std::unique_ptr<Timed> mpi_all_to_all(const mpi::Comm& comm, std::shared_ptr<device::Device> device, Memory memory,
                                      std::size_t bytes, const std::string& method);

// The same through the exchange layer, from device memory; a rank's message to itself is a copy. (collective)
std::unique_ptr<Timed> channel_all_to_all(const mpi::Comm& comm, std::shared_ptr<device::Device> device,
                                          std::size_t bytes, const exchange::Choice& choice);

// The additional cost of host pointers: copies `bytes` from the device to pinned memory, and as many back. (collective)
std::unique_ptr<Timed> copies(const mpi::Comm& comm, std::shared_ptr<device::Device> device, std::size_t bytes);

}  // namespace weft::bench
