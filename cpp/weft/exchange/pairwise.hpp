// The pairwise schedule: one message to every neighbour and one from it, by persistent requests.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_pairwise(Route route);

}  // namespace weft::exchange
