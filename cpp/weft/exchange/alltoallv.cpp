#include "weft/exchange/alltoallv.hpp"

#include <utility>
#include <vector>

#include "weft/exchange/collective.hpp"

namespace weft::exchange {
namespace {

#if WEFT_MPI_PERSISTENT_COLLECTIVES
constexpr Collective alltoallv{MPI_Alltoallv_init, "MPI_Alltoallv_init"};
#else
constexpr Collective alltoallv{MPI_Ialltoallv, "MPI_Ialltoallv"};
#endif

}  // namespace

std::unique_ptr<Transfer> make_alltoallv(Route route) {
  std::vector<Part> parts(static_cast<std::size_t>(route.comm.size()));
  for (const Part& part : route.parts) parts[static_cast<std::size_t>(part.rank)] = part;
  return make_collective(alltoallv, route, std::move(parts), std::make_shared<const MPI_Comm>(route.comm.get()));
}

}  // namespace weft::exchange
