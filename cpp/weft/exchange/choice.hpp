// What can be chosen about an exchange: the operation, the schedule and the path; and the choosing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/schedule.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

enum class Op { add, mul, min, max };
Op parse_op(const std::string& text);  // std::invalid_argument naming the four

// From which memory values travel. direct: MPI is given device memory. staged: they are copied to pinned host memory
// first. ipc: ranks of one node read each other's device memory (ipc.hpp), without MPI; values for other nodes go
// through MPI, direct where it takes the device's memory, else staged.
enum class Path { direct, staged, ipc };
std::string name(Path path);

struct Choice {
  Schedule schedule = Schedule::pairwise;  // of what goes through MPI
  Path path = Path::direct;
  // Messages of up to so many bytes take another way: those of `ipc` the way of the messages for other nodes, those of
  // `direct` are staged; with `staged` there is no other.
  std::size_t small_bytes = 0;
  std::string reason = {};  // why, in words for the user
};
std::string name(const Choice& choice);  // "pairwise:staged", "pairwise:ipc:1024"

// How an exchange is asked for: by a text, "auto", "schedule", "schedule:path" or "schedule:path:small_bytes", which is
// checked and where an open schedule or path is found by timing; or by a Choice, which is taken as it is.
struct Asked {
  Asked() = default;
  Asked(std::string asked, bool keep = false) : text(std::move(asked)), cache(keep) {}
  Asked(const char* asked) : text(asked) {}
  Asked(Choice given) : text(name(given)), choice(std::move(given)) {}
  Asked(Schedule schedule, Path path) : Asked(Choice{.schedule = schedule, .path = path}) {}

  std::string text = "auto";
  bool cache = false;  // keep what was timed on disk, and take it from there
  std::optional<Choice> choice;
};

// Whether a path works on all ranks, and why (not), in words for the user.
struct PathState {
  Path path;
  bool usable;
  std::string reason;
};
// All three, proved by transfers (mpi/gpu_aware.hpp, ipc.hpp); the same on all ranks. (collective)
std::vector<PathState> path_states(device::Device& device, const mpi::Comm& comm);

// How values get to other nodes: direct where MPI takes the memory of all ranks' devices, else staged. (collective)
PathState mpi_path(const device::Device& device, const mpi::Comm& comm);

// The choice for "auto", "schedule", "schedule:path" or "schedule:path:small_bytes"; what the text leaves open is
// chosen: direct where MPI takes the device's memory, else staged. All ranks get the same. CollectiveError for an
// unknown name, and for a path that does not work here. (collective)
Choice choose(const std::string& text, device::Device& device, const mpi::Comm& comm);

// Every choice the text leaves open (one that names schedule and path leaves one) that works on all ranks and is not
// known to lose to another: what a tuner may time. `message_bytes`: the sizes of this rank's messages, which decide
// whether small ones can go another way than large ones. All ranks get the same, in the same order. Errors as of
// choose. (collective)
std::vector<Choice> candidates(const std::string& text, device::Device& device, const mpi::Comm& comm,
                               std::span<const std::int64_t> message_bytes = {});

}  // namespace weft::exchange
