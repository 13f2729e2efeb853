// Ping-pong: a message to a partner and one of the same length back.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "weft/bench/timed.hpp"
#include "weft/exchange/choice.hpp"

namespace weft::bench {

struct Pairing {
  int partner = -1;    // -1: this rank takes no part
  bool leads = false;  // it sends first
};

// A repetition is there and back, between buffers of the device's memory. With a choice the messages go through the
// exchange layer, as in weft's own exchanges; without one by MPI_Send and MPI_Recv on the device's memory, which MPI
// must take. std::invalid_argument on all ranks for a length of 0 or above 1 GiB. (collective)
std::unique_ptr<Timed> ping_pong(const mpi::Comm& comm, std::shared_ptr<device::Device> device, Pairing pairing,
                                 std::size_t bytes, const std::optional<exchange::Choice>& choice);

}  // namespace weft::bench
