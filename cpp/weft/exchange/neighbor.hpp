// The neighbor schedule: MPI_Ineighbor_alltoallv on a communicator with the topology of the pattern, persistent if MPI
// supports it (MPI-4). MPI decides how messages travel. The call takes four integers per neighbour.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_neighbor(Route route);

}  // namespace weft::exchange
