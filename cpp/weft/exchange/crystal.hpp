// The crystal schedule: the crystal router (G. C. Fox et al., "Solving Problems on Concurrent Processors", 1988, ch.
// 22), for any number of ranks. In each of ceil(log2 P) steps every group of ranks splits into halves, and every rank
// sends all it holds for the other half to one partner there. This gives a few large messages instead of many small
// ones, but values are forwarded up to ceil(log2 P) times.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_crystal(Route route);

}  // namespace weft::exchange
