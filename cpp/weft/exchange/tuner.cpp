#include "weft/exchange/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// A lower 95 % confidence bound of the median: in sorted order, the value sqrt(n) positions before the middle (from the
// binomial distribution of the number of values below the median). 0 if there are too few values.
double least_median(std::vector<double> values) {
  const auto n = static_cast<double>(values.size());
  const double place = std::floor(n / 2 - std::sqrt(n));
  if (place < 0) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// "3.42 µs"
std::string in_words(double seconds) {
  char text[32];
  if (seconds < 1e-3) {
    std::snprintf(text, sizeof text, "%.3g µs", seconds * 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  }
  return text;
}

// A candidate on trial. All times are those of the slowest rank, so all ranks have the same numbers.
struct Trial {
  std::vector<double> times;                               // seconds per transfer, by repetition
  double least = std::numeric_limits<double>::infinity();  // including the warm-up
  double spent = 0;                                        // including waiting
  bool active = true, hopeless = false;

  double fastest() const { return *std::ranges::min_element(times); }
  int transfers(const TuningLimits& limits) const {
    if (!(least > 0)) return limits.most_transfers;
    return static_cast<int>(std::clamp(std::ceil(limits.repetition_seconds / least), 1.0 * limits.least_transfers,
                                       1.0 * limits.most_transfers));
  }
  bool may_go_on(double repetitions, double seconds) const {
    if (times.empty()) return true;
    return static_cast<double>(times.size()) < repetitions &&
           spent * (1 + 1.0 / static_cast<double>(times.size())) <= seconds;  // assumes that one more takes the mean
  }
};

class Race {
 public:
  Race(std::size_t candidates, const RunCandidate& run, const Slowest& slowest, const TuningLimits& limits,
       std::span<const double> first)
      : run_(run), slowest_(slowest), limits_(limits), trials_(candidates) {
    std::vector<double> seconds(first.begin(), first.end());
    if (first.empty()) {
      std::vector<std::size_t> all(candidates);
      std::iota(all.begin(), all.end(), std::size_t{0});
      for (const Repetition& repetition : repetitions(all)) seconds.push_back(repetition.seconds);
    }
    // The first transfer may meet cold caches and missing connections, so it only serves to estimate the duration. But
    // if it uses up the time for all repetitions, it counts as the result.
    for (std::size_t i = 0; i < candidates; ++i) {
      trials_[i].least = seconds[i];
      if (seconds[i] >= limits_.seconds * limits_.first_part) add(trials_[i], {seconds[i], seconds[i]});
    }
  }

  // Runs rounds of one repetition per candidate, until every candidate has reached its share of the limits or is
  // hopeless, or nothing is left to decide. A slow candidate does not use up the time of the others.
  void rounds(double share) {
    const double seconds = std::min(limits_.seconds, limits_.seconds_in_all / static_cast<double>(active())) * share;
    for (std::size_t round = 0;; ++round) {
      std::vector<std::size_t> running;
      for (std::size_t i = 0; i < trials_.size(); ++i) {
        if (trials_[i].active && trials_[i].may_go_on(limits_.repetitions * share, seconds)) running.push_back(i);
      }
      if (running.empty() || (round > 0 && active() == 1)) return;
      // Each round begins with a different candidate, so that no candidate always runs right after a slow one.
      std::rotate(running.begin(), running.begin() + static_cast<std::ptrdiff_t>(round % running.size()),
                  running.end());
      const std::vector<Repetition> round_of = repetitions(running);
      for (std::size_t r = 0; r < running.size(); ++r) add(trials_[running[r]], round_of[r]);
      drop_hopeless();
    }
  }

  void keep_finalists() {
    const double best = best_median();
    for (Trial& trial : trials_) {
      trial.active =
          trial.active && (median(trial.times) <= best * limits_.finalists || least_median(trial.times) <= best);
    }
  }
  std::size_t active() const {
    return static_cast<std::size_t>(std::ranges::count_if(trials_, [](const Trial& t) { return t.active; }));
  }
  // The finalist with the smallest median. If fastest_decides, the one with the fastest repetition among those whose
  // median could be the smallest. The first one in case of a tie.
  std::size_t winner() const {
    const double best = best_median();
    const auto time = [&](const Trial& trial) {
      return limits_.fastest_decides ? trial.fastest() : median(trial.times);
    };
    std::size_t winner = trials_.size();
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      const Trial& trial = trials_[i];
      if (!trial.active || least_median(trial.times) > best) continue;
      if (winner == trials_.size() || time(trial) < time(trials_[winner])) winner = i;
    }
    return winner;
  }
  const Trial& trial(std::size_t i) const { return trials_[i]; }

 private:
  // Runs one repetition of each candidate; returns the times of the slowest rank, `seconds` per transfer.
  std::vector<Repetition> repetitions(const std::vector<std::size_t>& candidates) const {
    std::vector<double> seconds;
    for (const std::size_t c : candidates) {
      const int transfers = trials_[c].transfers(limits_);
      const Repetition mine = run_(c, transfers);
      seconds.insert(seconds.end(), {mine.seconds / transfers, mine.wall_seconds});
    }
    slowest_(seconds);
    std::vector<Repetition> all;
    for (std::size_t c = 0; c < candidates.size(); ++c) all.push_back({seconds[2 * c], seconds[2 * c + 1]});
    return all;
  }
  static void add(Trial& trial, const Repetition& repetition) {
    trial.times.push_back(repetition.seconds);
    trial.least = std::min(trial.least, repetition.seconds);
    trial.spent += repetition.wall_seconds;
  }
  double best_median() const {
    double best = std::numeric_limits<double>::infinity();
    for (const Trial& trial : trials_) {
      if (trial.active && !trial.times.empty()) best = std::min(best, median(trial.times));
    }
    return best;
  }
  void drop_hopeless() {
    const double best = best_median();
    for (Trial& trial : trials_) {
      if (!trial.active || static_cast<int>(trial.times.size()) < limits_.few) continue;
      if (trial.least > best * limits_.hopeless) {
        trial.active = false;
        trial.hopeless = true;
      }
    }
  }

  const RunCandidate& run_;
  const Slowest& slowest_;
  const TuningLimits& limits_;
  std::vector<Trial> trials_;
};

}  // namespace

std::string Ranking::reason(const std::vector<std::string>& names) const {
  std::size_t next = entries.size();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i != winner && (next == entries.size() || entries[i].median_seconds < entries[next].median_seconds)) next = i;
  }
  const Entry& best = entries[winner];
  std::string text = "fastest of " + std::to_string(entries.size()) + " ways: " + in_words(best.median_seconds);
  if (next == entries.size()) return text;
  text += ", second: " + names[next] + " with " + in_words(entries[next].median_seconds);
  if (best.median_seconds <= entries[next].median_seconds) return text;
  return text + ", by their fastest repetitions, " + in_words(best.least_seconds) + " and " +
         in_words(entries[next].least_seconds) + ", because the medians cannot be distinguished";
}

Ranking race(std::size_t candidates, const RunCandidate& run, const Slowest& slowest, const TuningLimits& limits,
             std::span<const double> first) {
  if (candidates == 0) throw std::invalid_argument("there is nothing to choose from");
  const trace::Pause pause;
  Race trials(candidates, run, slowest, limits, first);
  trials.rounds(limits.first_part);
  trials.keep_finalists();
  if (trials.active() > 1) trials.rounds(1.0);
  Ranking ranking{.winner = trials.winner()};
  for (std::size_t i = 0; i < candidates; ++i) {
    const Trial& trial = trials.trial(i);
    ranking.entries.push_back(
        {median(trial.times), trial.fastest(), static_cast<int>(trial.times.size()), trial.hopeless});
  }
  return ranking;
}

Tuning tune(const std::vector<Choice>& candidates, const RunCandidate& run, const Slowest& slowest,
            const TuningLimits& limits, std::span<const double> first) {
  if (candidates.empty()) throw std::invalid_argument("no exchange can be chosen: there is no candidate");
  if (candidates.size() == 1) return {.chosen = candidates.front()};
  const Ranking ranking = race(candidates.size(), run, slowest, limits, first);
  Tuning tuning{.chosen = candidates[ranking.winner]};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Ranking::Entry& entry = ranking.entries[i];
    tuning.timings.push_back({candidates[i], entry.median_seconds, entry.repetitions, entry.stopped_early});
    names.push_back(name(candidates[i]));
  }
  tuning.chosen.reason = ranking.reason(names);
  return tuning;
}

}  // namespace weft::exchange
