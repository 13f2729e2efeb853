#include "weft/mpi/same.hpp"

#include <array>
#include <cstdint>

#include "weft/trace/recorder.hpp"

namespace weft::mpi {

void require_same(const Comm& comm, const std::string& what, const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  const auto mine = static_cast<std::int64_t>(hash >> 1);
  if (comm.min(mine) == comm.max(mine)) return;
  comm.together([&] { throw std::invalid_argument(what + " must be the same on all ranks; rank 0 has " + text); });
}

}  // namespace weft::mpi
