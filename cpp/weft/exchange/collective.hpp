// Shared by the schedules that consist of one MPI collective.
#pragma once

#include <memory>
#include <vector>

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

// A v-collective, MPI_Alltoallv or one of its signature: with MPI-4 the function that creates a persistent request,
// else the non-blocking one, which creates a request each time.
struct Collective {
#if WEFT_MPI_PERSISTENT_COLLECTIVES
  using Function = decltype(&MPI_Alltoallv_init);
#else
  using Function = decltype(&MPI_Ialltoallv);
#endif
  Function function;
  const char* name;  // in errors
};

// A transfer that is this collective among the ranks of `on`, for each of which `parts` has one, in MPI's order; an
// empty one where nothing moves. Recorded as the equivalent messages, which have the same dependencies between ranks.
// (collective)
std::unique_ptr<Transfer> make_collective(Collective collective, const Route& route, std::vector<Part> parts,
                                          std::shared_ptr<const MPI_Comm> on);

}  // namespace weft::exchange
