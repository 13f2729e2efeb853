// Every schedule on every path that works here: what tests run their cases on, so that a new one is tested by them all.
#pragma once

#include <vector>

#include "weft/exchange/choice.hpp"

inline std::vector<weft::exchange::Choice> all_choices() {
  using weft::exchange::Path;
  std::vector<weft::exchange::Choice> all;
  for (const Path path : {Path::direct, Path::staged}) {
    for (const auto schedule : weft::exchange::schedules()) all.push_back({schedule, path});
  }
  return all;
}
