#include "weft/mpi/graph.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::mpi {
namespace {

struct Graph {
  std::vector<int> neighbors;  // of this rank
  MPI_Comm comm;
};
using Graphs = std::vector<Graph>;  // the same number in the same order on all ranks

// They hang on the communicator as an MPI attribute and are freed with it.
int forget(MPI_Comm, int, void* value, void*) {
  auto* graphs = static_cast<Graphs*>(value);
  int finalized = 0;
  MPI_Finalized(&finalized);
  for (Graph& graph : *graphs) {
    if (finalized == 0) MPI_Comm_free(&graph.comm);
  }
  delete graphs;
  return MPI_SUCCESS;
}

Graphs& graphs_of(const Comm& comm) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &made, nullptr), "MPI_Comm_create_keyval");
    return made;
  }();
  void* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(comm.get(), key, &value, &found), "MPI_Comm_get_attr");
  if (found == 0) {
    value = new Graphs;
    check(MPI_Comm_set_attr(comm.get(), key, value), "MPI_Comm_set_attr");
  }
  return *static_cast<Graphs*>(value);
}

}  // namespace

MPI_Comm graph(const Comm& comm, std::span<const int> neighbors) {
  Graphs* graphs = nullptr;
  std::uint64_t same = 0;  // bit i: the i-th from the last has my neighbours
  comm.together([&] {
    graphs = &graphs_of(comm);
    graphs->reserve(graphs->size() + 1);
    for (std::size_t i = 0; i < std::min<std::size_t>(graphs->size(), 64); ++i) {
      const Graph& known = (*graphs)[graphs->size() - 1 - i];
      if (std::equal(neighbors.begin(), neighbors.end(), known.neighbors.begin(), known.neighbors.end()))
        same |= std::uint64_t{1} << i;
    }
  });
  check(MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_UINT64_T, MPI_BAND, comm.get()), "MPI_Allreduce");
  for (std::size_t i = 0; i < graphs->size() && i < 64; ++i) {
    if ((same >> i & 1) != 0) return (*graphs)[graphs->size() - 1 - i].comm;
  }
  const int count = static_cast<int>(neighbors.size());
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Dist_graph_create_adjacent(comm.get(), count, neighbors.data(), MPI_UNWEIGHTED, count, neighbors.data(),
                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made),
        "MPI_Dist_graph_create_adjacent");
  check(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  graphs->push_back({{neighbors.begin(), neighbors.end()}, made});
  return made;
}

}  // namespace weft::mpi
