// The neighbor schedule: MPI_Ineighbor_alltoallv on a communicator that knows who talks to whom, persistent where MPI
// has that (MPI-4). How messages travel is MPI's to choose; its arguments are four integers a neighbour.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_neighbor(Route route);

}  // namespace weft::exchange
