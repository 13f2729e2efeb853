// The alltoallv schedule: MPI_Ialltoallv among all ranks, persistent where MPI has that (MPI-4). How messages travel is
// MPI's to choose. Its arguments are four integers a rank of the communicator, on every rank: that is its nature, and
// at many ranks a reason to choose another.
#pragma once

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

std::unique_ptr<Transfer> make_alltoallv(Route route);

}  // namespace weft::exchange
