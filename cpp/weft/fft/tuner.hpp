// The fastest process grid, batch and exchanges of a distributed Fourier transform, by trying them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/fft/plan.hpp"

namespace weft::fft {

struct Wanted {
  Options options;        // exchanges as asked; the grid and the batch only where they are not left open
  bool any_grid = true;   // every Pr x Pc of the ranks may be taken
  bool any_batch = true;  // Q from 1 to `variables`
  int variables = 3;      // transformed at a time: what is timed, and the largest Q
  double seconds = 4;     // for the timing, about; every candidate is run a few times whatever it takes
  // Plans wait for their turn while they fit into as much memory as the fields, or into this; what does not is made
  // anew for each turn.
  std::int64_t waiting_bytes_a_node = std::int64_t{1} << 30;
};

struct Setting {
  Grid grid = {};
  int batch = 1;
  exchange::Choice row = {}, column = {};  // that of a communicator of one rank means nothing
};
std::string name(const Setting& setting);  // "2x1 Q=3 pairwise:direct"

struct SettingTiming {
  Setting setting;
  std::string what;           // what this race was about: "grid", "exchange", "row exchange", "batch"
  double median_seconds = 0;  // of a transform forward and backward of all variables, the slowest rank's; 0: none
  int repetitions = 0;
  bool stopped_early = false;  // too slow to win
  std::string failure = {};    // why it cannot be used, empty if it can
};

struct PlanTuning {
  Setting chosen;
  std::string reason;                  // in words for the user
  std::vector<SettingTiming> timings;  // race by race; empty where there was nothing to decide
  double seconds = 0;                  // that it took, the slowest rank's
};

template <class T>
struct TunedPlan {
  std::unique_ptr<Plan<T>> plan;
  PlanTuning tuning;
};

// Candidates are run in turns on whole transforms, forward and backward, and the smallest median of the slowest rank's
// times wins (exchange/tuner.hpp), in four races: all grids, with the exchange that is taken without timing; the two
// best grids with every schedule and path that works, rows and columns alike; on pencils the row exchange by itself; Q.
// Each includes the winner of the one before. A candidate that cannot be made, or does not give back a field it has
// transformed, is out, and the table says why. All ranks take the same. Grids that leave a rank without points or modes
// are tried only where all do.
//
// It needs memory for `variables` real and spectral fields while it works. Errors as of Plan. (collective)
template <class T>
TunedPlan<T> tuned_plan(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm);

}  // namespace weft::fft
