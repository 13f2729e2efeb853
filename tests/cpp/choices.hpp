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
  all.push_back({Schedule::pairwise, Path::ipc});  // on one node nothing is left for the schedule
  for (const auto schedule : weft::exchange::schedules()) all.push_back({schedule, Path::ipc, 40});
  all.push_back({Schedule::neighbor, Path::direct, 40});
  return all;
}

// All of them on one and two ranks; where ranks share cores and every message waits for a turn, a third, by turns.
inline std::vector<weft::exchange::Choice> choices_in_turn(const weft::mpi::Comm& comm, std::size_t turn) {
  const auto all = all_choices();
  if (comm.size() <= 2) return all;
  std::vector<weft::exchange::Choice> some;
  for (std::size_t i = turn % 3; i < all.size(); i += 3) some.push_back(all[i]);
  return some;
}
