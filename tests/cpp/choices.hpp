// Every schedule on every path that works here, and small messages on another way than large ones: what tests run their
// cases on, so that a new one is tested by them all.
#pragma once

#include <vector>

#include "weft/exchange/choice.hpp"

inline std::vector<weft::exchange::Choice> all_choices() {
  using weft::exchange::Path;
  std::vector<weft::exchange::Choice> all;
  for (const Path path : {Path::direct, Path::staged}) {
    for (const auto schedule : weft::exchange::schedules()) all.push_back({schedule, path});
  }
  using weft::exchange::Schedule;
  for (const std::size_t small_bytes : {0, 40}) {
    all.push_back({Schedule::pairwise, Path::ipc, small_bytes});
    all.push_back({Schedule::crystal, Path::ipc, small_bytes});
  }
  all.push_back({Schedule::neighbor, Path::direct, 40});
  return all;
}
