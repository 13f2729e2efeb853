// All-to-all of equal messages: what the transposes of a distributed FFT do.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "weft/bench/timed.hpp"
#include "weft/exchange/choice.hpp"

namespace weft::bench {

// Every rank has a message of `bytes` (a multiple of 8) for each rank, itself included: MPI's own collectives
// "alltoall", "alltoallv" and "ialltoall" on pinned host memory or on the device's.
// std::invalid_argument for other methods and for sizes that MPI's int counts of 8-byte words cannot say. (collective)
std::unique_ptr<Timed> mpi_all_to_all(const mpi::Comm& comm, std::shared_ptr<device::Device> device, Memory memory,
                                      std::size_t bytes, const std::string& method);

// The same by the exchange layer from device memory; a rank's message to itself is a copy. (collective)
std::unique_ptr<Timed> channel_all_to_all(const mpi::Comm& comm, std::shared_ptr<device::Device> device,
                                          std::size_t bytes, const exchange::Choice& choice);

// What host pointers cost beside the messages: `bytes` from the device to pinned memory, and as many back. (collective)
std::unique_ptr<Timed> copies(const mpi::Comm& comm, std::shared_ptr<device::Device> device, std::size_t bytes);

}  // namespace weft::bench
