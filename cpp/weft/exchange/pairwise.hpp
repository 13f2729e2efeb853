// The pairwise schedule: one message to every neighbour and one from it, by persistent requests.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_pairwise(const mpi::Comm& comm, int tag, std::vector<Part> parts, const std::byte* send,
                                        std::byte* receive);

}  // namespace weft::exchange
