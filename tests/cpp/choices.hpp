// Every schedule on every path that works here, and small messages on a different path from large ones. Tests run their
// cases on all of these, so that a new schedule or path is tested everywhere.
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
  all.push_back({Schedule::pairwise, Path::ipc});  // on one node the schedule makes no difference
  for (const auto schedule : weft::exchange::schedules()) all.push_back({schedule, Path::ipc, 40});
  all.push_back({Schedule::neighbor, Path::direct, 40});
  return all;
}

// All choices on one and two ranks; on more ranks, which share cores so that every message waits for a time slice, a
// third of them in turn.
inline std::vector<weft::exchange::Choice> choices_in_turn(const weft::mpi::Comm& comm, std::size_t turn) {
  const auto all = all_choices();
  if (comm.size() <= 2) return all;
  std::vector<weft::exchange::Choice> some;
  for (std::size_t i = turn % 3; i < all.size(); i += 3) some.push_back(all[i]);
  return some;
}
