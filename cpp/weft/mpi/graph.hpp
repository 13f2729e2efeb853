// Communicators whose topology is who talks to whom.
#pragma once

#include <memory>
#include <span>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

using SharedGraph = std::shared_ptr<const MPI_Comm>;

// Like `comm`, with the topology in which this rank sends to and receives from `neighbors`, in their order; each of
// them must name this rank too. One is made for all calls with the same lists on all ranks. Freeing one is collective
// but users go at different times on different ranks: those that no rank uses any more are freed by the next call, the
// rest with weft's communicator. MPI has only about two thousand; CollectiveError where there are no more. (collective)
SharedGraph graph(const Comm& comm, std::span<const int> neighbors);

// How many there are. Local.
std::size_t graph_count(const Comm& comm);

}  // namespace weft::mpi
