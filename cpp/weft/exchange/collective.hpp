// Shared by the schedules that consist of one MPI collective.
#pragma once

#include <memory>
#include <vector>

#include "weft/exchange/schedule.hpp"

namespace weft::exchange {

// A v-collective: MPI_Alltoallv or another with the same signature. With MPI-4 the function creates a persistent
// request; otherwise it is the non-blocking one, which creates a new request each time.
struct Collective {
#if WEFT_MPI_PERSISTENT_COLLECTIVES
  using Function = decltype(&MPI_Alltoallv_init);
#else
  using Function = decltype(&MPI_Ialltoallv);
#endif
  Function function;
  const char* name;  // for errors
};

// A transfer that performs this collective among the ranks of `on`. `parts` has one entry for each of them, in MPI's
// order, empty if nothing is exchanged. It is recorded as the equivalent point-to-point messages, which have the same
// dependencies between ranks. (collective)
std::unique_ptr<Transfer> make_collective(Collective collective, const Route& route, std::vector<Part> parts,
                                          std::shared_ptr<const MPI_Comm> on);

}  // namespace weft::exchange
