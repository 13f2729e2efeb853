#include "weft/mpi/free_memory.hpp"

#include <functional>
#include <string>
#include <vector>

namespace weft::mpi {

std::int64_t free_bytes_per_rank(const device::Device& device, const Comm& comm) {
  std::int64_t free = 0;
  comm.together([&] { free = device.free_bytes(); });
  std::vector<std::uint64_t> memories(static_cast<std::size_t>(comm.size()));
  const std::uint64_t mine = std::hash<std::string>()(device::name(device.backend()) + device.memory_name());
  check(MPI_Allgather(&mine, 1, MPI_UINT64_T, memories.data(), 1, MPI_UINT64_T, comm.get()), "MPI_Allgather");
  std::int64_t sharing = 0;
  for (const int rank : comm.node()) sharing += memories[static_cast<std::size_t>(rank)] == mine ? 1 : 0;
  return comm.min(free / sharing);
}

}  // namespace weft::mpi
