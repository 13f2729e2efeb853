// Communicators whose topology is the communication pattern.
#pragma once

#include <memory>
#include <span>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

using SharedGraph = std::shared_ptr<const MPI_Comm>;

// A duplicate of `comm` with the topology in which this rank sends to and receives from `neighbors`, in their order;
// each neighbour must list this rank too. Calls with the same lists on all ranks share one communicator. Freeing it is
// collective, but its users release it at different times on different ranks. So communicators that no rank uses any
// more are freed by the next call, and the rest together with weft's communicator. MPI supports only about two
// thousand; CollectiveError if there are no more. (collective)
SharedGraph graph(const Comm& comm, std::span<const int> neighbors);

// The number of such communicators. Local.
std::size_t graph_count(const Comm& comm);

}  // namespace weft::mpi
