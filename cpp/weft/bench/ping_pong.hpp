// Ping-pong: a message to a partner and one of the same length back.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "weft/bench/timed.hpp"
#include "weft/exchange/choice.hpp"

namespace weft::bench {

struct Pairing {
  int partner = -1;    // -1: this rank does not take part
  bool leads = false;  // this rank sends first
};

// One repetition is a round trip between buffers in device memory. With a choice, the messages go through the exchange
// layer, as in weft's own exchanges. Without one, they go through MPI_Send and MPI_Recv on device memory, which MPI
// must support. std::invalid_argument on all ranks for a length of 0 or above 1 GiB. (collective)
std::unique_ptr<Timed> ping_pong(const mpi::Comm& comm, std::shared_ptr<device::Device> device, Pairing pairing,
                                 std::size_t bytes, const std::optional<exchange::Choice>& choice);

}  // namespace weft::bench
