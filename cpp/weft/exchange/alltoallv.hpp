// The alltoallv schedule: MPI_Ialltoallv among all ranks, persistent if MPI supports it (MPI-4). MPI decides how
// messages travel. The call takes four integers per rank of the communicator, on every rank; with many ranks this is a
// reason to choose another schedule.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_alltoallv(Route route);

}  // namespace weft::exchange
