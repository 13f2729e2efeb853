// The choices of an exchange: operation, schedule and path.
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
Op parse_op(const std::string& text);  // throws std::invalid_argument, listing the four names

// The memory that values are sent from. direct: MPI is given device memory. staged: values are first copied to pinned
// host memory. ipc: ranks of one node read each other's device memory (ipc.hpp), without MPI; values for other nodes go
// through MPI, direct if it accepts device memory and staged otherwise.
enum class Path { direct, staged, ipc };
std::string name(Path path);

struct Choice {
  Schedule schedule = Schedule::pairwise;  // for the messages that go through MPI
  Path path = Path::direct;
  // Messages of up to this many bytes take another path: with `ipc` the path used for other nodes; with `direct` the
  // path staged. No effect with `staged`.
  std::size_t small_bytes = 0;
  std::string reason = {};  // the reason, for the user
};
std::string name(const Choice& choice);  // "pairwise:staged", "pairwise:ipc:1024"

// How an exchange is requested. Either by a string, "auto", "schedule", "schedule:path" or "schedule:path:small_bytes",
// which is checked and whose open parts are chosen by timing. Or by a Choice, which is used as it is.
struct Asked {
  Asked() = default;
  Asked(std::string asked, bool keep = false) : text(std::move(asked)), cache(keep) {}
  Asked(const char* asked) : text(asked) {}
  Asked(Choice given) : text(name(given)), choice(std::move(given)) {}
  Asked(Schedule schedule, Path path) : Asked(Choice{.schedule = schedule, .path = path}) {}

  std::string text = "auto";
  bool cache = false;  // keep timings on disk, and reuse them
  std::optional<Choice> choice;
};

// Whether a path works on all ranks, and the reason, for the user.
struct PathState {
  Path path;
  bool usable;
  std::string reason;
};
// The state of all three paths, tested by transfers (mpi/gpu_aware.hpp, ipc.hpp); the same on all ranks. (collective)
std::vector<PathState> path_states(device::Device& device, const mpi::Comm& comm);

// The path to other nodes: direct if MPI accepts the device memory of every rank, else staged. (collective)
PathState mpi_path(const device::Device& device, const mpi::Comm& comm);

// The choice for "auto", "schedule", "schedule:path" or "schedule:path:small_bytes". Open parts are filled without
// timing: direct if MPI accepts device memory, else staged. The result is the same on all ranks. CollectiveError for an
// unknown name, or for a path that does not work here. (collective)
Choice choose(const std::string& text, device::Device& device, const mpi::Comm& comm);

// The candidates for a tuner: every choice that is compatible with the text (only one if it names schedule and path),
// works on all ranks, and is not known to be slower than another. `message_bytes`: the sizes of this rank's messages,
// which decide whether it is worth giving small messages another path than large ones. The result is the same on all
// ranks, in the same order. Errors as in choose. (collective)
std::vector<Choice> candidates(const std::string& text, device::Device& device, const mpi::Comm& comm,
                               std::span<const std::int64_t> message_bytes = {});

// The first of these choices by which ranks read each other's memory whatever the message size, if all ranks are on one
// node: they can then also compute in memory that they share. The result is the same on all ranks. (collective)
std::optional<Choice> of_one_node(std::span<const Choice> choices, const mpi::Comm& comm);

}  // namespace weft::exchange
