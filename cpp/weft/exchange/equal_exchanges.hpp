// Choices that were timed on a communicator, for later exchanges whose timing would be the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/schedule.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// Identifies exchanges that one timed choice serves: the same candidates, device, neighbours and lengths of messages on
// every rank. Messages so short that their length does not matter beside their latency have equal lengths, and if all
// are, neither does the `use` matter. `work_bytes`: as in Carried, 0 unless `crowded` (mpi/crowd.hpp). The result is
// the same on all ranks. (collective)
std::uint64_t kind_of_exchange(const mpi::Comm& comm, const device::Device& device, const std::vector<Part>& parts,
                               const std::vector<Choice>& candidates, const std::string& use, std::size_t work_bytes,
                               bool crowded);

// The tuning of this kind that was kept last, or null. The communicator keeps the last 64 kinds and frees them with
// itself. Local, and the same on all ranks, which keep the same tunings in the same order.
const Tuning* known_tuning(const mpi::Comm& comm, std::uint64_t kind);
void keep_tuning(const mpi::Comm& comm, std::uint64_t kind, const Tuning& tuning);

}  // namespace weft::exchange
