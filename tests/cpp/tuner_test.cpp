// The tuner with a clock controlled by a table: what it chooses, when it stops, and that ranks agree.
#include "weft/exchange/tuner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "weft/exchange/tuning_cache.hpp"

using namespace weft::exchange;

namespace {

// Candidates that differ only in a number, since real names come from the table of schedules.
std::vector<Choice> candidates(std::size_t count) {
  const std::vector<Choice> two{{Schedule::pairwise, Path::direct}, {Schedule::pairwise, Path::staged}};
  std::vector<Choice> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(two[i % 2]);
  for (std::size_t i = 0; i < count; ++i) all[i].reason = std::to_string(i);
  return all;
}

// Ranks in lockstep; each has a table of seconds per transfer, by candidate. `calls` counts the calls.
struct Bench {
  std::vector<std::vector<double>> seconds;                        // by rank, candidate
  std::function<double(std::size_t candidate, int call)> noise{};  // factor
  double waiting = 0;
  std::vector<double> first = {};  // given times of a first transfer
  std::vector<int> calls = {};
  std::vector<int> transfers = {};
  std::vector<std::size_t> order = {};

  // The decision of one rank, if these are the times of the others.
  Tuning run(const TuningLimits& limits = {}) {
    const std::size_t count = seconds.front().size();
    calls.assign(count, 0);
    transfers.assign(count, 0);
    order.clear();
    std::vector<std::vector<double>> pending;  // what every rank would report
    const auto one = [&](std::size_t c, int n) {
      const double factor = noise ? noise(c, calls[c]) : 1.0;
      ++calls[c];
      transfers[c] += n;
      order.push_back(c);
      std::vector<double> each;
      for (const auto& rank : seconds) each.push_back(rank[c] * factor * n);
      pending.push_back(each);
      return Repetition{each.front(), each.front() + waiting};
    };
    const auto slowest = [&](std::span<double> values) {
      ASSERT_EQ(values.size(), 2 * pending.size());
      for (std::size_t i = 0; i < pending.size(); ++i) {
        const double most = *std::ranges::max_element(pending[i]) / pending[i].front();
        values[2 * i] *= most;
        values[2 * i + 1] = values[2 * i + 1] - pending[i].front() + pending[i].front() * most;
      }
      pending.clear();
    };
    return tune(candidates(count), one, slowest, limits, first);
  }
};

std::size_t chosen(const Tuning& tuning, const std::vector<double>& seconds) {
  // The times identify the candidate.
  const auto best = std::ranges::min_element(seconds);
  return static_cast<std::size_t>(best - seconds.begin()) +
         (name(tuning.chosen) == name(tuning.timings[static_cast<std::size_t>(best - seconds.begin())].choice) ? 0
                                                                                                               : 99);
}

}  // namespace

TEST(Tuner, TheFastestOfATableIsChosenAndTheTableIsKept) {
  for (const std::vector<double>& table :
       {std::vector{3e-6, 2e-6}, std::vector{2e-3, 3e-3}, std::vector{5e-5, 4e-5, 4.1e-5, 3.9e-5, 1e-3}}) {
    Bench bench{.seconds = {table}};
    const Tuning tuning = bench.run();
    const auto best = static_cast<std::size_t>(std::ranges::min_element(table) - table.begin());
    EXPECT_EQ(chosen(tuning, table), best);
    ASSERT_EQ(tuning.timings.size(), table.size());
    for (std::size_t c = 0; c < table.size(); ++c) EXPECT_NEAR(tuning.timings[c].median_seconds, table[c], 1e-12);
    EXPECT_NE(tuning.chosen.reason.find("fastest of " + std::to_string(table.size())), std::string::npos);
    EXPECT_FALSE(tuning.cached);
  }
}

TEST(Tuner, OfEqualCandidatesTheFirstIsChosen) {
  Bench bench{.seconds = {{4e-6, 2e-6, 2e-6, 2e-6}}};
  const Tuning tuning = bench.run();
  EXPECT_EQ(tuning.chosen.schedule, tuning.timings[1].choice.schedule);
  EXPECT_EQ(tuning.chosen.path, tuning.timings[1].choice.path);
}

TEST(Tuner, OneCandidateIsNotTimed) {
  Bench bench{.seconds = {{1.0}}};
  const Tuning tuning = bench.run();
  EXPECT_EQ(bench.calls[0], 0);
  EXPECT_TRUE(tuning.timings.empty());
  EXPECT_EQ(tuning.chosen.reason, "0");
  EXPECT_THROW(tune({}, {}, {}), std::invalid_argument);
}

TEST(Tuner, TheSlowestRankDecidesAndRanksThatDisagreeDecideAlike) {
  // The first is the best on two ranks, but slow on the third.
  const std::vector<std::vector<double>> times{{1e-6, 2e-6}, {1e-6, 2e-6}, {5e-6, 2e-6}};
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    auto rotated = times;
    std::ranges::rotate(rotated, rotated.begin() + static_cast<std::ptrdiff_t>(rank));
    Bench bench{.seconds = rotated};
    const Tuning tuning = bench.run();
    EXPECT_EQ(tuning.chosen.path, Path::staged) << "decided by rank " << rank;
    EXPECT_NEAR(tuning.timings[0].median_seconds, 5e-6, 1e-12);
  }
}

TEST(Tuner, RanksWithNoisyClocksOfTheirOwnDecideAlikeBecauseTheyHoldTheSameNumbers) {
  // A rank's decision depends only on the reduced numbers, so the decisions of all ranks from the same reduction agree.
  std::mt19937 random(7);
  std::uniform_real_distribution<double> factor(0.5, 2.0);
  std::vector<std::string> decisions;
  std::vector<std::vector<double>> reduced;
  for (int rank = 0; rank < 3; ++rank) {
    std::size_t reduction = 0;
    const auto run = [&](std::size_t, int n) { return Repetition{factor(random) * 1e-5 * n, 1e-4}; };
    const auto slowest = [&](std::span<double> values) {  // the first rank's values stand for the maximum over all
      if (rank == 0) {
        reduced.emplace_back(values.begin(), values.end());
      } else {
        ASSERT_LT(reduction, reduced.size());
        ASSERT_EQ(values.size(), reduced[reduction].size()) << "ranks would not make the same calls";
        std::ranges::copy(reduced[reduction], values.begin());
      }
      ++reduction;
    };
    const Tuning tuning = tune(candidates(5), run, slowest);
    EXPECT_EQ(reduction, reduced.size());
    decisions.push_back(to_text(tuning));
  }
  EXPECT_EQ(decisions[1], decisions[0]);
  EXPECT_EQ(decisions[2], decisions[0]);
}

TEST(Tuner, AHopelessCandidateStopsEarlyAndCannotWin) {
  Bench bench{.seconds = {{1e-4, 1.6e-4, 5e-3}}};
  const Tuning tuning = bench.run();
  EXPECT_EQ(tuning.chosen.reason.substr(0, 12), "fastest of 3");
  EXPECT_FALSE(tuning.timings[0].stopped_early);
  EXPECT_TRUE(tuning.timings[1].stopped_early);
  EXPECT_TRUE(tuning.timings[2].stopped_early);
  EXPECT_EQ(tuning.timings[1].repetitions, 5);
  EXPECT_EQ(tuning.timings[2].repetitions, 5);
}

TEST(Tuner, ACandidateThatIsSlowNowAndThenIsNotDropped) {
  // The first repetitions of the better one are disturbed.
  Bench bench{.seconds = {{1e-4, 0.8e-4}},
              .noise = [](std::size_t c, int call) { return c == 1 && call % 7 < 3 ? 40.0 : 1.0; }};
  const Tuning tuning = bench.run();
  EXPECT_EQ(tuning.chosen.path, Path::staged);
}

TEST(Tuner, OnABusyMachineTheFasterOneIsFoundByItsUndisturbedRepetitions) {
  // Three of four repetitions wait some milliseconds for the scheduler, a thousand times as long as a transfer takes,
  // so the medians measure the waiting.
  int right = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> share(0, 1);
    const std::vector<double> table{3e-6, 2e-6};
    Bench bench{
        .seconds = {table},
        .noise = [&](std::size_t c, int) { return share(random) < 0.25 ? 1.0 : (3 + share(random)) * 1e-3 / table[c]; },
        .waiting = 2e-3};
    const Tuning tuning = bench.run();
    const bool by_fastest = tuning.chosen.reason.find("cannot be distinguished") != std::string::npos;
    const std::size_t other = tuning.chosen.path == Path::staged ? 0 : 1;
    EXPECT_EQ(by_fastest, tuning.timings[other].median_seconds < tuning.timings[1 - other].median_seconds);
    right += tuning.chosen.path == Path::staged ? 1 : 0;
  }
  EXPECT_GE(right, 160);  // 113 by medians alone
}

TEST(Tuner, WhereRanksWaitForOneAnotherALuckyRepetitionDoesNotCountEvenIfMediansAreClose) {
  // The first has a slightly smaller median, the second the fastest repetition.
  Bench bench{.seconds = {{1e-4, 1.02e-4}},
              .noise = [](std::size_t c, int call) { return c == 1 && call % 8 == 5 ? 0.5 : 1 + 0.1 * (call % 3); }};
  EXPECT_EQ(bench.run({.fastest_decides = true}).chosen.path, Path::staged);
  const Tuning tuning = bench.run({.fastest_decides = false});
  EXPECT_EQ(tuning.chosen.path, Path::direct);
  EXPECT_EQ(tuning.chosen.reason.find("fastest repetitions"), std::string::npos);
}

TEST(Tuner, WhereMediansTellALuckyRepetitionDoesNotCount) {
  Bench bench{.seconds = {{1e-4, 0.95e-4}},
              .noise = [](std::size_t c, int call) { return c == 0 && call % 9 == 4 ? 0.5 : 1.0; }};
  EXPECT_EQ(bench.run().chosen.path, Path::staged);
}

TEST(Tuner, WhereAllOthersAreOutTheLastOneIsNotTimedFurther) {
  Bench bench{.seconds = {{1e-4, 5e-3, 6e-3}}};
  const Tuning tuning = bench.run();
  EXPECT_EQ(tuning.timings[0].repetitions, 5);
}

TEST(Tuner, ASlowCandidateDoesNotUseUpTheTimeOfTheOthers) {
  Bench bench{.seconds = {{3e-3, 2.9e-3, 80e-3}}};
  const Tuning tuning = bench.run();
  EXPECT_EQ(tuning.timings[2].repetitions, 1);
  EXPECT_GE(tuning.timings[0].repetitions, 10);
  EXPECT_GE(tuning.timings[1].repetitions, 10);
}

TEST(Tuner, AFirstTransferThatIsKnownIsNotMadeAgain) {
  Bench known{.seconds = {{3e-6, 2e-6}}}, unknown = known;
  known.first = {9e-6, 8e-6};
  const Tuning with = known.run(), without = unknown.run();
  EXPECT_EQ(with.chosen.path, Path::staged);
  EXPECT_EQ(known.calls[1], with.timings[1].repetitions);
  EXPECT_EQ(unknown.calls[1], without.timings[1].repetitions + 1);
}

TEST(Tuner, NoCandidateTakesMoreThanItsRepetitionsOrItsSeconds) {
  for (const double seconds : {1e-7, 1e-5, 1e-3, 0.02, 0.1, 0.3, 2.0}) {
    for (const double waiting : {0.0, 5e-3}) {
      Bench bench{.seconds = {{seconds, seconds * 1.01, seconds * 1.3}}, .waiting = waiting};
      const TuningLimits limits;
      const Tuning tuning = bench.run(limits);
      for (std::size_t c = 0; c < 3; ++c) {
        const Timing& timing = tuning.timings[c];
        EXPECT_GE(timing.repetitions, 1);
        EXPECT_LE(timing.repetitions, limits.repetitions);
        EXPECT_LE(bench.calls[c], timing.repetitions + 1) << "one to warm up";
        const double took = bench.seconds[0][c] * bench.transfers[c] + waiting * bench.calls[c];
        if (timing.repetitions > 1) {
          EXPECT_LE(took, limits.seconds + 2 * (seconds + waiting)) << seconds;
        }
        EXPECT_LE(bench.transfers[c], limits.repetitions * limits.most_transfers + 1);
      }
    }
  }
}

TEST(Tuner, ManyCandidatesThatAllWaitDoNotTakeSeconds) {
  Bench bench{.seconds = {{1e-6, 1.01e-6, 1.02e-6, 1.03e-6, 1.01e-6, 1e-6}}, .waiting = 0.02};
  const TuningLimits limits;
  const Tuning tuning = bench.run(limits);
  int calls = 0;
  for (std::size_t c = 0; c < 6; ++c) {
    EXPECT_GE(tuning.timings[c].repetitions, 1);
    calls += tuning.timings[c].repetitions;
  }
  EXPECT_LE(calls * 0.02, limits.seconds_in_all + 2 * 6 * 0.02);
}

TEST(Tuner, FinalistsAreMeasuredAgainAndTheOthersAreNot) {
  Bench bench{.seconds = {{1.00e-4, 1.05e-4, 1.3e-4}}};
  const Tuning tuning = bench.run();
  EXPECT_EQ(tuning.timings[0].repetitions, 50);
  EXPECT_EQ(tuning.timings[1].repetitions, 50);
  EXPECT_EQ(tuning.timings[2].repetitions, 20);
}

TEST(Tuner, CandidatesTakeTurns) {
  Bench bench{.seconds = {{1e-4, 1e-4, 1e-4}}};
  bench.run();
  // Among any three consecutive runs all candidates occur, and the first one changes.
  std::vector<int> first(3, 0);
  for (std::size_t i = 0; i + 3 <= bench.order.size(); i += 3) {
    std::vector<std::size_t> round(bench.order.begin() + static_cast<std::ptrdiff_t>(i),
                                   bench.order.begin() + static_cast<std::ptrdiff_t>(i + 3));
    ++first[round.front()];
    std::ranges::sort(round);
    EXPECT_EQ(round, (std::vector<std::size_t>{0, 1, 2}));
  }
  for (const int times : first) EXPECT_GT(times, 10);
}

// --- kept on disk ---

namespace {

Tuning example() {
  Tuning tuning;
  tuning.timings.resize(2);
  tuning.timings[0] = {Choice{Schedule::pairwise, Path::direct}, 1.25e-6, 50, false, {}};
  tuning.timings[1] = {Choice{Schedule::pairwise, Path::staged}, 0, 0, false, "rank 1: no memory"};
  tuning.chosen = tuning.timings[0].choice;
  tuning.chosen.reason = "fastest of 1: 1.25 µs";
  tuning.seconds = 0.0123;
  return tuning;
}

}  // namespace

TEST(TuningCache, AnEntryIsReadAsItWasWritten) {
  const auto read = tuning_from(to_text(example()), candidates(2));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->cached);
  EXPECT_EQ(to_text(*read), to_text(example()));
  EXPECT_EQ(name(read->chosen), "pairwise:direct");
}

TEST(TuningCache, NoCutOrAlteredEntryIsTakenForAnotherOne) {
  const std::string text = to_text(example());
  for (std::size_t length = 0; length < text.size(); ++length) {
    if (length + 1 == text.size()) continue;  // except for a missing line end
    EXPECT_FALSE(tuning_from(text.substr(0, length), candidates(2))) << length;
  }
  EXPECT_FALSE(tuning_from(text, candidates(1)));
  EXPECT_FALSE(tuning_from(text, candidates(3)));
  EXPECT_FALSE(tuning_from(text + "more\n", candidates(2)));
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {  // whatever the content, it is rejected or names a candidate that works
    std::string altered = text;
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes) {
      altered[random() % altered.size()] = static_cast<char>(random() % 256);
    }
    const auto read = tuning_from(altered, candidates(2));
    if (!read) continue;
    EXPECT_EQ(name(read->chosen), "pairwise:direct");
    EXPECT_EQ(read->timings.size(), 2U);
  }
}

TEST(TuningCache, EverythingATuningDependsOnIsInItsKey) {
  const TuningKey key{.weft = "1",
                      .mpi = "MPICH 5",
                      .use = "halo",
                      .type = "double",
                      .ranks = 2,
                      .fields = 1,
                      .pattern = 5,
                      .machine = 6,
                      .candidates = {"pairwise:direct"}};
  std::vector<TuningKey> others(9, key);
  others[0].weft = "2";
  others[1].mpi = "Open MPI 5";
  others[2].use = "gather";
  others[3].type = "float";
  others[4].ranks = 3;
  others[5].fields = 2;
  others[6].pattern = 6;
  others[7].machine = 7;
  others[8].candidates.push_back("pairwise:staged");
  for (const TuningKey& other : others) EXPECT_NE(other.text(), key.text());
}
