// Which of several ways to exchange is fastest, by trying them.
//
// What it does not do: know what a candidate is; tuned_channel.hpp makes and runs them, and so does the tuner of
// Fourier transforms (fft/tuner.hpp). All ranks decide from the same numbers, the slowest rank's, so all decide alike.
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
  double median_seconds = 0;   // of a transfer, over repetitions, of the slowest rank's time; 0 if there is none
  int repetitions = 0;         // timed
  bool stopped_early = false;  // too slow to win
  std::string failure = {};    // why it cannot be used, empty if it can
};

struct Tuning {
  Choice chosen;                     // with the reason
  std::vector<Timing> timings = {};  // of all candidates in their order, empty where there was nothing to decide
  double seconds = 0;                // that it took, the slowest rank's
  bool cached = false;               // found in the cache; the timings are those of the run that wrote it
};

struct TuningLimits {
  int repetitions = 50;  // of a candidate
  double seconds = 0.5;  // of a candidate, waiting included; whichever comes first, but one repetition is always made
  // Of all candidates together, in equal parts, once each has been timed: where ranks share cores every transfer waits
  // for the scheduler, and a set-up that takes seconds would win back nothing.
  double seconds_in_all = 0.25;
  // In the first part all candidates, up to this share of the limits; then those within `finalists` of the best.
  double first_part = 0.4;
  double finalists = 1.10;
  // Hopeless: after a few repetitions even the fastest is slower than the best median by this.
  double hopeless = 1.5;
  int few = 5;
  // Disturbances lengthen times and never shorten them: of those whose medians cannot be told apart the one with the
  // fastest repetition. Not where ranks that share processors disturb one another: that is part of what is chosen.
  bool fastest_decides = true;
  // A repetition is as many transfers as take about so long, since clocks and barriers are coarse.
  double repetition_seconds = 50e-6;
  int least_transfers = 1, most_transfers = 16;
};

// What this rank took for some transfers, and with its waiting for the others to begin.
struct Repetition {
  double seconds, wall_seconds;
};
using RunCandidate = std::function<Repetition(std::size_t candidate, int transfers)>;
// Replaces every value by the largest of all ranks.
using Slowest = std::function<void(std::span<double>)>;

// How the candidates did, in their order.
struct Ranking {
  struct Entry {
    double median_seconds, least_seconds;
    int repetitions;
    bool stopped_early;
  };
  std::size_t winner = 0;
  std::vector<Entry> entries = {};
  // Why the winner: how it compares with the next best. `names` of all candidates.
  std::string reason(const std::vector<std::string>& names) const;
};

// Times the candidates in turns, repetition by repetition, so that what disturbs the machine disturbs all, and takes
// the smallest median; of those that so few repetitions cannot tell from it, the fastest repetition. `first`: what the
// slowest rank took for a first transfer of each; if that is not known, one is made. (collective: `run` and `slowest`
// are called in the same order on all ranks)
Ranking race(std::size_t candidates, const RunCandidate& run, const Slowest& slowest, const TuningLimits& limits = {},
             std::span<const double> first = {});

// The same for choices. One candidate is chosen without a run.
Tuning tune(const std::vector<Choice>& candidates, const RunCandidate& run, const Slowest& slowest,
            const TuningLimits& limits = {}, std::span<const double> first = {});

}  // namespace weft::exchange
