// The set-up on simulated ranks (benchmarks/setup_at_scale), at a small size: ranks get correct data, and no rank gets
// too many messages.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "../../benchmarks/simulated_setup.hpp"

using namespace simulated;

namespace {

Result run_and_check_all(const Decomposition& d) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(d.ranks));
  std::iota(all.begin(), all.end(), 0);
  std::size_t checked = 0;
  Result result = Setup::run(d, all, [&](std::int32_t rank, const Ids& ids, const weft::exchange::Sharing& sharing) {
    check(d, rank, ids, sharing);
    ++checked;
  });
  EXPECT_EQ(checked, all.size());
  Counts sum;
  for (const Counts& rank : result.ranks) {
    sum.messages_sent += rank.messages_sent - rank.messages_received;
    sum.bytes_sent += rank.bytes_sent - rank.bytes_received;
  }
  EXPECT_EQ(sum.messages_sent, 0);
  EXPECT_EQ(sum.bytes_sent, 0);
  return result;
}

}  // namespace

TEST(SimulatedSetup, BoxesAreNumberedFromOneWithoutHoles) {
  const Boxes boxes{{3, 2, 2}, 2, 3};
  std::set<std::int64_t> ids;
  for (std::int32_t rank = 0; rank < boxes.ranks(); ++rank) {
    for (const std::int64_t id : boxes.ids(rank)) ids.insert(id);
  }
  EXPECT_EQ(static_cast<std::int64_t>(ids.size()), boxes.points());
  EXPECT_EQ(*ids.begin(), 1);
  EXPECT_EQ(*ids.rbegin(), boxes.points());
}

TEST(SimulatedSetup, EveryRankOfManyIsToldOfItsNeighboursForTheOrderOfWhatItHolds) {
  const Boxes boxes{{8, 8, 8}, 2, 3};
  const Result result = run_and_check_all(structured(boxes));
  EXPECT_EQ(result.exchanges, 2);
  for (const Counts& rank : result.ranks) {
    // Every id is asked for once; for a shared id, a list of at most 2 + 8 words comes back.
    EXPECT_LE(rank.bytes_sent + rank.bytes_received, 8 * 4 * 10 * rank.ids);
    EXPECT_LE(rank.messages_sent, 2 * rank.ids);
  }
}

TEST(SimulatedSetup, NeitherAnIdOfAllRanksNorARankOfAllIdsFloodsAnyOther) {
  const Boxes boxes{{7, 6, 5}, 1, 2};
  const Decomposition d = adversarial(boxes, 1);
  const Result result = run_and_check_all(d);
  EXPECT_EQ(result.exchanges, 3) << "210 holders are reached in one round of relaying";
  const std::int64_t list = 8 * (d.ranks + 2);
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    if (rank == static_cast<std::size_t>(d.ranks / 2)) continue;
    // The common id: one list arrives; at most most_copies are sent as home, and as many as relay.
    EXPECT_LE(result.ranks[rank].bytes_sent,
              2 * static_cast<std::int64_t>(weft::exchange::directory::most_copies) * list + 8 * 64 * 200);
  }
}

TEST(SimulatedSetup, RelayingReachesEveryHolderInTheRoundsThatAreSaid) {
  using namespace weft::exchange::directory;
  for (const std::int64_t holders : {1L, 2L, 32L, 33L, 1056L, 1057L, 33824L, 33825L, 100000L}) {
    std::int64_t reached = 0, level = 1;
    int rounds = -1;
    for (; reached < holders; ++rounds) reached += level *= static_cast<std::int64_t>(most_copies);
    EXPECT_EQ(relay_rounds(holders), rounds);
  }
}
