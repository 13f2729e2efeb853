#include "weft/exchange/neighbor.hpp"

#include <utility>
#include <vector>

#include "weft/exchange/collective.hpp"
#include "weft/mpi/graph.hpp"

namespace weft::exchange {
namespace {

#if WEFT_MPI_PERSISTENT_COLLECTIVES
constexpr Collective neighbor_alltoallv{MPI_Neighbor_alltoallv_init, "MPI_Neighbor_alltoallv_init"};
#else
constexpr Collective neighbor_alltoallv{MPI_Ineighbor_alltoallv, "MPI_Ineighbor_alltoallv"};
#endif

}  // namespace

std::unique_ptr<Transfer> make_neighbor(Route route) {
  // Only parts that move data, in either direction, are kept. If this rank keeps a part for another rank, that rank
  // keeps one for this rank. Sending and receiving share one topology, and so do the two directions of a pattern.
  std::vector<Part> parts = route.parts;
  std::erase_if(parts, [](const Part& p) { return p.send_bytes == 0 && p.receive_bytes == 0; });
  std::vector<int> ranks;
  for (const Part& part : parts) ranks.push_back(part.rank);
  return make_collective(neighbor_alltoallv, route, std::move(parts), mpi::graph(route.comm, ranks));
}

}  // namespace weft::exchange
