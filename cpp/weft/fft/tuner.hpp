// Finds the fastest process grid, batch and exchanges of a distributed Fourier transform by timing them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/fft/plan.hpp"

namespace weft::fft {

struct Wanted {
  Options options;        // exchanges as requested; grid and batch are used only if they are not chosen by timing
  bool any_grid = true;   // choose among all grids Pr x Pc
  bool any_batch = true;  // choose Q from 1 to `variables`
  // On a host, if choices can be kept (kept_choice.hpp): choose among the libraries, and, on one rank or the ranks of
  // one node, among the ways to transform whole fields. Otherwise the first library is used, and the ways given in
  // Options.
  bool any_library = true, any_way = true;
  int variables = 3;   // number of variables transformed at a time in the timing; also the largest Q
  double seconds = 4;  // approximate limit of the timing; every candidate is run at least once
  // Plans that wait for their next turn take at most this share of a node's free memory, apart from the buffers of
  // exchanges, which all plans share; others are created anew for each turn.
  double waiting_share = 0.25;
};

struct Setting {
  Grid grid = {};
  int batch = 1;
  exchange::Choice row = {}, column = {};  // ignored for a communicator of one rank
  int library = 0;                         // on a host; -1: on a GPU
  std::optional<Ways> ways = {};           // on a host, if whole fields are transformed; a GPU makes its own choice
};
std::string name(const Setting& setting);  // "2x1 Q=3 pairwise:direct"

struct SettingTiming {
  Setting setting;
  std::string what;  // what the race decides: "library", "grid", "exchange", "row exchange", "batch", or "forward",
                     // "backward", "overwriting" (the way of each), "node" (the way of all), and "forward along x" and
                     // so on (the library along x)
  // For a forward and a backward transform of all variables, on the slowest rank; 0: not timed.
  double median_seconds = 0, least_seconds = 0;
  int repetitions = 0;
  bool stopped_early = false;  // because it was too slow to win
  std::string failure = {};    // why it cannot be used; empty if it can
};

struct PlanTuning {
  Setting chosen;
  std::string reason;                  // for the user
  std::vector<SettingTiming> timings;  // race by race; empty if there was nothing to decide
  double seconds = 0;                  // duration of the tuning on the slowest rank
};

template <class T>
struct TunedPlan {
  std::unique_ptr<Plan<T>> plan;
  PlanTuning tuning;
};

// Candidates take turns running whole transforms, forward and backward; the candidate with the smallest median of the
// slowest rank's times wins (exchange/tuner.hpp). The races are:
//  (1) the libraries, if there are several; FFTW by estimate only if it does not measure;
//  (2) all grids, with the default exchange;
//  (3) the two best grids with every schedule and path that works, the same for rows and columns;
//  (4) on pencils, the row exchange alone;
//  (5) Q, except on one GPU that transforms whole fields one by one;
//  (6) on one rank's host, the way of forward transforms, of backward transforms, and of those that overwrite their
//  input; (7) on the ranks of one node, planes in memory that they share, with each library.
// If planes win, another race chooses the library along x. The choices of (1), (6) and (7) change rounding, so they are
// kept for later runs; these races are repeated if something disturbed them. Each race includes the winner of the
// previous one. Where a single transform takes longer than a candidate's share of a race, candidates whose first run is
// clearly slower than the fastest are not run again, and libraries that are clearly slower in (1) are left out of the
// ways without panels in (6) and (7). A candidate that cannot be created is excluded, and so is a winner whose
// inverse transform does not reproduce a field; the table says why. All ranks choose the same. Grids that leave a rank
// without points or modes are tried only if all grids do.
//
// While it runs, the tuner needs memory for `variables` real and spectral fields. Errors as in Plan. (collective)
template <class T>
TunedPlan<T> tuned_plan(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm);

}  // namespace weft::fft
