#include "weft/exchange/choice.hpp"

#include <stdexcept>

#include "weft/mpi/gpu_aware.hpp"

namespace weft::exchange {
namespace {

struct Asked {
  bool schedule_open = true, path_open = true;
  Choice choice;
};

Asked parse(const std::string& text) {
  Asked asked;
  if (text == "auto") return asked;
  const auto colon = text.find(':');
  const std::string schedule = text.substr(0, colon);
  std::string known;
  for (const Schedule s : schedules()) {
    known += (known.empty() ? "" : ", ") + name(s);
    if (name(s) == schedule) {
      asked.choice.schedule = s;
      asked.schedule_open = false;
    }
  }
  if (asked.schedule_open && schedule != "auto") {
    throw std::invalid_argument("exchange '" + text + "': there is no schedule '" + schedule + "'; known: auto, " +
                                known);
  }
  if (colon == std::string::npos) return asked;
  const std::string path = text.substr(colon + 1);
  asked.path_open = path == "auto";
  if (path == "direct") {
    asked.choice.path = Path::direct;
  } else if (path == "staged") {
    asked.choice.path = Path::staged;
  } else if (!asked.path_open) {
    throw std::invalid_argument("exchange '" + text + "': there is no path '" + path +
                                "'; known: auto, direct, staged");
  }
  return asked;
}

}  // namespace

Op parse_op(const std::string& text) {
  if (text == "add") return Op::add;
  if (text == "mul") return Op::mul;
  if (text == "min") return Op::min;
  if (text == "max") return Op::max;
  throw std::invalid_argument("there is no operation '" + text + "'; known: add, mul, min, max");
}

std::string name(Path path) { return path == Path::direct ? "direct" : "staged"; }
std::string name(const Choice& choice) { return name(choice.schedule) + ":" + name(choice.path); }

Choice choose(const std::string& text, const device::Device& device, const mpi::Comm& comm) {
  Asked asked;
  comm.together([&] { asked = parse(text); });
  Choice choice = asked.choice;
  const bool wants_direct = !asked.path_open && choice.path == Path::direct;
  if (!asked.path_open && !wants_direct) {
    choice.reason = "asked for";
    return choice;
  }
  comm.together([&] {
    // Every rank asks: a node may differ, and each GPU is proved by the rank that uses it.
    const mpi::GpuAware& aware = mpi::gpu_aware(device);
    choice.path = aware.usable ? Path::direct : Path::staged;
    choice.reason = wants_direct ? "asked for" : aware.reason;
    if (wants_direct && !aware.usable) {
      throw std::runtime_error("exchange '" + text + "': MPI cannot be given this device's memory (" + aware.reason +
                               "); use '" + name(choice.schedule) + ":staged'");
    }
  });
  if (comm.min(std::int64_t{choice.path == Path::direct}) == 0 && choice.path == Path::direct) {
    choice.path = Path::staged;
    choice.reason = "MPI does not take device memory on another rank";
  }
  return choice;
}

}  // namespace weft::exchange
