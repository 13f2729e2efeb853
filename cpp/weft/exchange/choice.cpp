#include "weft/exchange/choice.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/exchange/ipc.hpp"
#include "weft/mpi/attached.hpp"
#include "weft/mpi/gpu_aware.hpp"
#include "weft/mpi/same.hpp"

namespace weft::exchange {
namespace {

constexpr Path all_paths[] = {Path::direct, Path::staged, Path::ipc};

// Messages up to this size are also tried with staging when the path is direct on a GPU, because MPI libraries are
// slowest there with device memory (the ping-pong of papers/neko-gather-scatter-slides: 1 to 64 KB within a node).
constexpr std::size_t small_direct = 65536;

// The same on all ranks: a node that has all of them is the node of each.
bool on_one_node(const mpi::Comm& comm) { return std::ssize(comm.node()) == comm.size(); }

struct Parsed {
  std::optional<Schedule> schedule;
  std::optional<Path> path;
  std::optional<std::size_t> small_bytes;
};

Parsed parse(const std::string& text) {
  const auto wrong = [&](const std::string& what) { return std::invalid_argument("exchange '" + text + "': " + what); };
  std::vector<std::string> words{""};
  for (const char c : text) c == ':' ? (void)words.emplace_back() : words.back().push_back(c);
  if (words.size() > 3) throw wrong("it has " + std::to_string(words.size()) + " parts, not schedule:path:small_bytes");
  Parsed asked;
  std::string known = "auto";
  for (const Schedule s : schedules()) {
    known += ", " + name(s);
    if (name(s) == words[0]) asked.schedule = s;
  }
  if (!asked.schedule && words[0] != "auto") throw wrong("unknown schedule '" + words[0] + "'; known: " + known);
  if (words.size() == 1) return asked;
  known = "auto";
  for (const Path p : all_paths) {
    known += ", " + name(p);
    if (name(p) == words[1]) asked.path = p;
  }
  if (!asked.path && words[1] != "auto") throw wrong("unknown path '" + words[1] + "'; known: " + known);
  if (words.size() == 2) return asked;
  std::size_t bytes = 0;
  const char *begin = words[2].data(), *end = begin + words[2].size();
  const auto [stop, error] = std::from_chars(begin, end, bytes);
  if (error != std::errc() || stop != end) throw wrong("'" + words[2] + "' is not a number of bytes");
  if (!asked.path || *asked.path == Path::staged)
    throw wrong("only the paths direct and ipc have an alternative for small messages");
  asked.small_bytes = bytes;
  return asked;
}

void refuse(const std::string& text, const PathState& state, const std::string& instead) {
  throw mpi::CollectiveError("exchange '" + text + "': the path " + name(state.path) + " does not work here (" +
                             state.reason + "); use '" + instead + "'");
}

// Devices whose memory is known to be shareable. The weak pointers tell whether a device still exists.
struct Shared {
  std::vector<std::pair<std::weak_ptr<device::Device>, PathState>> proved;
};

// The state of ipc on this device, if a test on this communicator has succeeded.
const PathState* proved_ipc(device::Device& device, const mpi::Comm& comm) {
  auto& proved = mpi::attached<Shared>(comm).proved;
  std::erase_if(proved, [](const auto& entry) { return entry.first.expired(); });
  const auto known = std::find_if(proved.begin(), proved.end(),
                                  [&](const auto& entry) { return entry.first.lock().get() == &device; });
  return known == proved.end() ? nullptr : &known->second;
}
// ipc_state, tested once per communicator and device; after a failure it is tested again. `on_all`: whether all ranks
// have a proof. (collective unless on_all)
PathState known_ipc_state(device::Device& device, const mpi::Comm& comm, bool on_all) {
  const PathState* known = proved_ipc(device, comm);
  if (on_all) return *known;
  const PathState state = ipc_state(device, comm);
  if (state.usable && known == nullptr) mpi::attached<Shared>(comm).proved.emplace_back(device.weak_from_this(), state);
  return state;
}

PathState mpi_path_if(bool on_all, const mpi::GpuAware& aware) {
  if (on_all) return {Path::direct, true, aware.reason};
  return {Path::staged, true, aware.usable ? "MPI does not accept device memory on another rank" : aware.reason};
}

// What all ranks know after one reduction.
struct Agreed {
  Parsed asked;
  std::optional<PathState> through_mpi;    // unless another path is asked for
  std::int64_t shortest = 0, longest = 0;  // message
  bool ipc_proved = false;
};

// (collective)
Agreed agree(const std::string& text, device::Device& device, const mpi::Comm& comm,
             std::span<const std::int64_t> message_bytes) {
  Agreed agreed;
  const mpi::GpuAware* aware = nullptr;
  std::int64_t words[4] = {};
  mpi::require_same(
      comm, "exchange", "'" + text + "'",
      [&] {
        agreed.asked = parse(text);
        std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), longest = 0;
        for (const std::int64_t bytes : message_bytes) {
          if (bytes > 0) shortest = std::min(shortest, bytes);
          longest = std::max(longest, bytes);
        }
        words[0] = shortest;
        words[1] = -longest;
        // Every rank tests: nodes may differ, and each GPU must be tested by the rank that uses it.
        if (agreed.asked.path.value_or(Path::direct) == Path::direct) aware = &mpi::gpu_aware(device);
        words[2] = aware == nullptr || aware->usable ? 1 : 0;
        words[3] = proved_ipc(device, comm) != nullptr ? 1 : 0;
      },
      words);
  agreed.shortest = words[0];
  agreed.longest = -words[1];
  if (aware != nullptr) agreed.through_mpi = mpi_path_if(words[2] == 1, *aware);
  agreed.ipc_proved = words[3] == 1;
  return agreed;
}

// The states of the paths that may be used. (collective if ipc is yet to be tested)
std::vector<PathState> path_states(device::Device& device, const mpi::Comm& comm, const Agreed& agreed) {
  const auto may_use = [&](Path path) { return agreed.asked.path.value_or(path) == path; };
  std::vector<PathState> states;
  if (may_use(Path::direct)) {
    const PathState& through_mpi = *agreed.through_mpi;
    states.push_back({Path::direct, through_mpi.path == Path::direct, through_mpi.reason});
  }
  if (may_use(Path::staged))
    states.push_back({Path::staged, true, device.is_host() ? "direct with two more copies" : "always works"});
  if (may_use(Path::ipc)) states.push_back(known_ipc_state(device, comm, agreed.ipc_proved));
  return states;
}

// The choice for what names schedule and path, or for auto without timing. (collective if ipc is yet to be tested)
Choice choice_for(const std::string& text, const Agreed& agreed, device::Device& device, const mpi::Comm& comm) {
  const Parsed& asked = agreed.asked;
  Choice choice{.schedule = asked.schedule.value_or(Schedule::pairwise),
                .path = asked.path.value_or(Path::direct),
                .small_bytes = asked.small_bytes.value_or(0),
                .reason = "requested"};
  if (choice.path == Path::ipc) {
    if (const PathState state = known_ipc_state(device, comm, agreed.ipc_proved); !state.usable)
      refuse(text, state, name(choice.schedule));
  }
  if (choice.path != Path::direct) return choice;
  const PathState& state = *agreed.through_mpi;
  if (asked.path && state.path != Path::direct)
    refuse(text, {Path::direct, false, state.reason}, name(choice.schedule) + ":staged");
  if (!asked.path) {
    choice.path = state.path;
    choice.reason = state.reason;
  }
  return choice;
}

}  // namespace

Op parse_op(const std::string& text) {
  if (text == "add") return Op::add;
  if (text == "mul") return Op::mul;
  if (text == "min") return Op::min;
  if (text == "max") return Op::max;
  throw std::invalid_argument("unknown operation '" + text + "'; known: add, mul, min, max");
}

std::string name(Path path) {
  switch (path) {
    case Path::direct:
      return "direct";
    case Path::staged:
      return "staged";
    case Path::ipc:
      return "ipc";
  }
  return "unknown";
}
std::string name(const Choice& choice) {
  std::string text = name(choice.schedule) + ":" + name(choice.path);
  if (choice.small_bytes > 0) text.append(":").append(std::to_string(choice.small_bytes));
  return text;
}

PathState mpi_path(const device::Device& device, const mpi::Comm& comm) {
  const mpi::GpuAware& aware = mpi::gpu_aware(device);
  return mpi_path_if(comm.min(std::int64_t{aware.usable}) == 1, aware);
}

std::vector<PathState> path_states(device::Device& device, const mpi::Comm& comm) {
  return path_states(device, comm, agree("auto", device, comm, {}));
}

Choice choose(const std::string& text, device::Device& device, const mpi::Comm& comm) {
  return choice_for(text, agree(text, device, comm, {}), device, comm);
}

std::vector<Choice> candidates(const std::string& text, device::Device& device, const mpi::Comm& comm,
                               std::span<const std::int64_t> message_bytes) {
  const Agreed agreed = agree(text, device, comm, message_bytes);
  const auto& [schedule_asked, path_asked, small_bytes] = agreed.asked;
  if (schedule_asked && path_asked) return {choice_for(text, agreed, device, comm)};

  const bool one_node = on_one_node(comm);
  std::vector<Choice> all;
  for (const PathState& state : path_states(device, comm, agreed)) {
    if (!path_asked && state.path == Path::staged && device.is_host()) continue;
    if (!state.usable) {
      if (path_asked) refuse(text, state, schedule_asked ? name(*schedule_asked) : "auto");
      continue;
    }
    for (const Schedule schedule : schedules()) {
      if (schedule_asked && *schedule_asked != schedule) continue;
      Choice choice{schedule, state.path, small_bytes.value_or(0), state.reason};
      all.push_back(choice);
      if (state.path == Path::direct && !small_bytes && !device.is_host() &&
          agreed.shortest <= static_cast<std::int64_t>(small_direct) &&
          agreed.longest > static_cast<std::int64_t>(small_direct)) {
        choice.small_bytes = small_direct;
        all.push_back(choice);
      }
      // On a single node, path ipc carries all messages, so the schedule makes no difference.
      if (state.path == Path::ipc && one_node && choice.small_bytes == 0) break;
    }
  }
  return all;
}

std::optional<Choice> of_one_node(std::span<const Choice> choices, const mpi::Comm& comm) {
  if (!on_one_node(comm)) return std::nullopt;
  const auto found =
      std::ranges::find_if(choices, [](const Choice& c) { return c.path == Path::ipc && c.small_bytes == 0; });
  return found == choices.end() ? std::nullopt : std::optional(*found);
}

}  // namespace weft::exchange
