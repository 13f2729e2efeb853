// What can be chosen about an exchange: the operation, the schedule and the path; and the choosing.
#pragma once

#include <string>

#include "weft/device/device.hpp"
#include "weft/exchange/schedule.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

enum class Op { add, mul, min, max };
Op parse_op(const std::string& text);  // std::invalid_argument naming the four

// direct: MPI is given device memory. staged: values are copied to pinned host memory first.
enum class Path { direct, staged };
std::string name(Path path);

struct Choice {
  Schedule schedule = Schedule::pairwise;
  Path path = Path::direct;
  std::string reason = {};  // why, in words for the user
};
std::string name(const Choice& choice);  // "pairwise:staged"

// The choice for "auto", "schedule" or "schedule:path"; what the text leaves open is chosen: direct where MPI takes the
// device's memory (on a GPU: proved by a transfer, mpi/gpu_aware.hpp), else staged. All ranks get the same.
// CollectiveError for an unknown name, and for direct where MPI would not survive it. (collective)
Choice choose(const std::string& text, const device::Device& device, const mpi::Comm& comm);

}  // namespace weft::exchange
