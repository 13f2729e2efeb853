#include "weft/exchange/neighbor.hpp"

#include <algorithm>

#include "weft/exchange/collective.hpp"
#include "weft/mpi/graph.hpp"

namespace weft::exchange {
namespace {

// Parts that move something one way or the other: if one is mine for a rank, so is one of that rank's for me. Sending
// and receiving share one topology, and so do the two directions of a pattern.
std::vector<Part> moving(std::vector<Part> parts) {
  std::erase_if(parts, [](const Part& p) { return p.send_bytes == 0 && p.receive_bytes == 0; });
  return parts;
}

std::vector<int> ranks_of(const std::vector<Part>& parts) {
  std::vector<int> ranks;
  for (const Part& part : parts) ranks.push_back(part.rank);
  return ranks;
}

class Neighbor final : public CollectiveTransfer {
 public:
  explicit Neighbor(const Route& route)  // route.parts: those that move something
      : CollectiveTransfer(route),
        comm_(route.comm),
        send_(route.send),
        receive_(route.receive),
        unit_(route),
        arguments_(route.parts.size()),
        graph_(mpi::graph(comm_, ranks_of(route.parts))) {
    comm_.together([&] {
      for (std::size_t p = 0; p < route.parts.size(); ++p) arguments_.set(p, route.parts[p], unit_);
    });
#if WEFT_MPI_PERSISTENT_COLLECTIVES
    mpi::check(
        MPI_Neighbor_alltoallv_init(send_, arguments_.send_counts.data(), arguments_.send_places.data(), unit_.type(),
                                    receive_, arguments_.receive_counts.data(), arguments_.receive_places.data(),
                                    unit_.type(), *graph_, MPI_INFO_NULL, &request_),
        "MPI_Neighbor_alltoallv_init");
#endif
  }

 private:
  void begin() override {
#if WEFT_MPI_PERSISTENT_COLLECTIVES
    mpi::check(MPI_Start(&request_), "MPI_Start");
#else
    mpi::check(MPI_Ineighbor_alltoallv(send_, arguments_.send_counts.data(), arguments_.send_places.data(),
                                       unit_.type(), receive_, arguments_.receive_counts.data(),
                                       arguments_.receive_places.data(), unit_.type(), *graph_, &request_),
               "MPI_Ineighbor_alltoallv");
#endif
  }

  mpi::Comm comm_;  // the topology hangs on it
  const std::byte* send_;
  std::byte* receive_;
  Unit unit_;
  Arguments arguments_;
  mpi::SharedGraph graph_;
};

}  // namespace

std::unique_ptr<Transfer> make_neighbor(Route route) {
  route.parts = moving(std::move(route.parts));
  return std::make_unique<Neighbor>(route);
}

}  // namespace weft::exchange
