// Finds the fastest of several ways to exchange data by timing them.
//
// It does not know what a candidate is: tuned_channel.hpp and the tuner of Fourier transforms (fft/tuner.hpp) create
// and run them. All ranks decide from the same numbers, those of the slowest rank, and therefore agree.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/exchange/choice.hpp"

namespace weft::exchange {

struct Timing {
  Choice choice;
  double median_seconds = 0;   // per transfer: median over repetitions of the slowest rank's time; 0 if not timed
  int repetitions = 0;         // number of timed repetitions
  bool stopped_early = false;  // because it was too slow to win
  std::string failure = {};    // why it cannot be used; empty if it can
};

struct Tuning {
  Choice chosen;                     // including the reason
  std::vector<Timing> timings = {};  // of all candidates, in order; empty if there was nothing to decide
  double seconds = 0;                // duration of the tuning on the slowest rank
  bool cached = false;               // found in the cache; the timings are those of an earlier run
  bool reused = false;               // timed for an earlier exchange of the same kind (equal_exchanges.hpp)
};

struct TuningLimits {
  int repetitions = 50;  // per candidate
  double seconds = 0.5;  // per candidate, including waiting; the first limit reached counts, after one repetition
  // Limit for all candidates together, divided equally, once each has been timed: if ranks share cores, every transfer
  // waits for the scheduler, and tuning for seconds would not pay off.
  double seconds_in_all = 0.25;
  // In the first part all candidates use up to this share of the limits; then only those within `finalists` of the best
  // continue.
  double first_part = 0.4;
  double finalists = 1.10;
  // A candidate is dropped if, after a few repetitions, even its fastest one is slower than the best median by this
  // factor.
  double hopeless = 1.5;
  int few = 5;
  // Disturbances can only lengthen times, so among candidates whose medians cannot be distinguished the one with the
  // fastest repetition wins. This does not hold if ranks share processors and disturb each other: that is part of the
  // cost of a candidate.
  bool fastest_decides = true;
  // A repetition consists of as many transfers as take about this long, because clocks and barriers are not precise
  // enough for a single one.
  double repetition_seconds = 50e-6;
  int least_transfers = 1, most_transfers = 16;
};

// This rank's time for some transfers, and the time including its wait for the others to begin.
struct Repetition {
  double seconds, wall_seconds;
};
using RunCandidate = std::function<Repetition(std::size_t candidate, int transfers)>;
// Replaces every value by its maximum over all ranks.
using Slowest = std::function<void(std::span<double>)>;

// The results of the candidates, in order.
struct Ranking {
  struct Entry {
    double median_seconds, least_seconds;
    int repetitions;
    bool stopped_early;
  };
  std::size_t winner = 0;
  std::vector<Entry> entries = {};
  // The reason for the choice: the winner compared with the next best. `names`: those of all candidates.
  std::string reason(const std::vector<std::string>& names) const;
};

// Times the candidates in turn, repetition by repetition, so that disturbances of the machine affect all of them. Picks
// the smallest median; if so few repetitions cannot distinguish several candidates from it, the one with the fastest
// repetition. `first`: the slowest rank's time for a first transfer of each candidate; if empty, one is made.
// (collective: `run` and `slowest` are called in the same order on all ranks)
Ranking race(std::size_t candidates, const RunCandidate& run, const Slowest& slowest, const TuningLimits& limits = {},
             std::span<const double> first = {});

// The same for choices. A single candidate is chosen without timing.
Tuning tune(const std::vector<Choice>& candidates, const RunCandidate& run, const Slowest& slowest,
            const TuningLimits& limits = {}, std::span<const double> first = {});

}  // namespace weft::exchange
