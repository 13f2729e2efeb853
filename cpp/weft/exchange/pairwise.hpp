// The pairwise schedule: one message to and one message from every neighbour, by persistent requests.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_pairwise(Route route);

}  // namespace weft::exchange
