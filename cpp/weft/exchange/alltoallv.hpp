// The alltoallv schedule: MPI_Ialltoallv among all ranks, persistent where MPI has that (MPI-4). MPI chooses how
// messages travel. Its arguments are inherently four integers per rank of the communicator, on every rank: a reason to
// choose another schedule on many ranks.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_alltoallv(Route route);

}  // namespace weft::exchange
