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
  double seconds = 4;  // for the timing of whole transforms; that of exchanges has its own limits (exchange/tuner.hpp)
};

struct GridTiming {
  Grid grid;
  int batch;
  exchange::Choice row, column;
  double median_seconds = 0;  // of a transform forward and backward of all variables, the slowest rank's
  int repetitions = 0;
  bool stopped_early = false;  // too slow to win
};

struct GridTuning {
  Grid grid;
  int batch = 1;
  exchange::Choice row, column;
  std::string reason;               // in words for the user
  std::vector<GridTiming> timings;  // empty where there was nothing to decide
  double seconds = 0;               // that it took, the slowest rank's
};

template <class T>
struct TunedPlan {
  std::unique_ptr<Plan<T>> plan;
  GridTuning tuning;
};

// For every grid, schedule and path of its two exchanges are found by the exchange layer's tuner, on the messages of
// the largest Q. Then grids and Qs are timed in turns on whole transforms, forward and backward, and the fastest is
// taken; all ranks take the same. Grids that leave a rank without points or modes are tried only where all do.
//
// It needs memory for `variables` real and spectral fields while it works. Plans wait for their turn while they fit
// into as much again, or 1 GiB a node; what does not is made anew for each of its turns. Errors as of Plan.
// (collective)
template <class T>
TunedPlan<T> tuned_plan(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm);

}  // namespace weft::fft
