// Communicators whose topology is who talks to whom.
#pragma once

#include <span>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// Like `comm`, with the topology in which this rank sends to and receives from `neighbors`, in their order; each of
// them must name this rank too. One is made for all calls with the same lists on all ranks and lives as long as weft's
// communicator does: MPI has only about two thousand. (collective)
MPI_Comm graph(const Comm& comm, std::span<const int> neighbors);

}  // namespace weft::mpi
