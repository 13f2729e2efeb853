// Checks the sharing of ids and the numbering of DOFs against results computed with all ids on every rank.
#include "weft/exchange/assembly.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <set>

#include "all_ids.hpp"
#include "weft/mpi/sparse.hpp"

using namespace weft::exchange;
using weft::mpi::Comm;

namespace {

void check_assembly(const Ids& ids, std::int64_t per_block, const Comm& comm) {
  const auto all = of_all_ranks(ids, comm);
  std::map<std::int64_t, std::set<int>> holders;
  for (int r = 0; r < comm.size(); ++r) {
    for (const auto id : all[static_cast<std::size_t>(r)]) {
      if (id > 0) holders[id].insert(r);
    }
  }
  const Assembly a(ids, per_block, comm);
  EXPECT_EQ(a.global, static_cast<std::int64_t>(holders.size()));
  ASSERT_EQ(a.index.size(), ids.size());
  ASSERT_EQ(a.dof_ids.size(), static_cast<std::size_t>(a.local));
  std::set<std::int64_t> distinct;
  for (std::size_t p = 0; p < ids.size(); ++p) {
    if (ids[p] <= 0) {
      EXPECT_EQ(a.index[p], a.local);
    } else {
      ASSERT_GE(a.index[p], 0);
      ASSERT_LT(a.index[p], a.local);
      EXPECT_EQ(a.dof_ids[static_cast<std::size_t>(a.index[p])], ids[p]);
      distinct.insert(ids[p]);
    }
  }
  EXPECT_EQ(distinct.size(), static_cast<std::size_t>(a.local));

  // Groups of the numbering; every id has exactly one owner among its holders.
  for (std::int64_t d = 0; d < a.local; ++d) {
    const auto& who = holders[a.dof_ids[static_cast<std::size_t>(d)]];
    EXPECT_EQ(who.size() == 1, d >= a.shared && d < a.owned);
  }
  std::map<std::int64_t, int> owner;
  const auto owned = of_all_ranks(Ids(a.dof_ids.begin(), a.dof_ids.begin() + a.owned), comm);
  for (int r = 0; r < comm.size(); ++r) {
    for (const auto id : owned[static_cast<std::size_t>(r)]) EXPECT_TRUE(owner.emplace(id, r).second) << "two owners";
  }
  EXPECT_EQ(owner.size(), holders.size());

  // Pattern: the entries that a neighbour gets from this rank, in order of id, are those in its halo that belong to
  // this rank.
  EXPECT_EQ(a.pattern.halo_first, a.owned);
  EXPECT_EQ(a.pattern.halo(), a.local - a.owned);
  std::size_t entry = 0;
  std::int64_t halo = a.owned;
  int last_rank = -1;
  for (const auto& n : a.pattern.neighbors) {
    EXPECT_GT(n.rank, last_rank);
    last_rank = n.rank;
    Ids to, from, expected_to, expected_from;
    for (std::int64_t i = 0; i < n.owned; ++i) {
      to.push_back(a.dof_ids[static_cast<std::size_t>(a.pattern.owned_index[entry++])]);
    }
    for (std::int64_t i = 0; i < n.halo; ++i) from.push_back(a.dof_ids[static_cast<std::size_t>(halo++)]);
    for (const auto& [id, who] : holders) {
      if (!who.contains(comm.rank()) || !who.contains(n.rank)) continue;
      if (owner[id] == comm.rank()) expected_to.push_back(id);
      if (owner[id] == n.rank) expected_from.push_back(id);
    }
    EXPECT_EQ(to, expected_to);
    EXPECT_EQ(from, expected_from);
    EXPECT_GT(n.owned + n.halo, 0);
  }
  EXPECT_EQ(entry, a.pattern.owned_index.size());
  EXPECT_EQ(halo, a.local);

  // Runs cover [shared, owned) in order, and state correctly which blocks touch their DOFs first and last.
  std::vector<std::int64_t> first(static_cast<std::size_t>(a.local), -1), last(first), touch(first);
  for (std::size_t p = 0; p < ids.size(); ++p) {
    if (ids[p] <= 0) continue;
    const auto d = static_cast<std::size_t>(a.index[p]);
    const auto block = static_cast<std::int64_t>(p) / per_block;
    if (first[d] < 0) first[d] = block, touch[d] = static_cast<std::int64_t>(p);
    last[d] = block;
  }
  std::int64_t at = a.shared;
  const auto& runs = a.runs;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto& run = runs[r];
    EXPECT_EQ(run.begin, at);
    EXPECT_LT(run.begin, run.end);
    at = run.end;
    if (r > 0) {
      EXPECT_LT(std::pair(runs[r - 1].first_block, runs[r - 1].last_block), std::pair(run.first_block, run.last_block));
    }
    for (auto d = static_cast<std::size_t>(run.begin); d < static_cast<std::size_t>(run.end); ++d) {
      EXPECT_EQ(first[d], run.first_block);
      EXPECT_EQ(last[d], run.last_block);
      if (d > static_cast<std::size_t>(run.begin)) {
        EXPECT_LT(touch[d - 1], touch[d]);
      }
    }
  }
  EXPECT_EQ(at, a.owned);
}

}  // namespace

TEST(Assembly, RandomIdsAgreeWithTheReferenceOfAllIds) {
  const Comm comm;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    check_assembly(random_ids(seed, comm), 1 + seed % 37, comm);
  }
}

TEST(Assembly, IsTheSameWithSeveralThreads) {
  const Comm comm;
  for (const unsigned seed : {0U, 3U, 7U}) {
    const Ids ids = random_ids(seed, comm);
    for (const std::int64_t per_block : {1, 5, 1000}) {
      const Assembly one(ids, per_block, comm);
      omp_set_num_threads(4);
      const Assembly four(ids, per_block, comm);
      omp_set_num_threads(1);
      EXPECT_EQ(one.index, four.index);
      EXPECT_EQ(one.dof_ids, four.dof_ids);
    }
  }
}

TEST(Assembly, NoPointsAnywhere) {
  const Comm comm;
  check_assembly({}, 8, comm);
}

TEST(Assembly, EveryRankHoldsEverything) {
  const Comm comm;
  Ids ids;
  for (std::int64_t i = 0; i < 500; ++i) ids.push_back(1 + (i * 7) % 250);
  check_assembly(ids, 64, comm);
  // Balance: with many shared ids no rank owns nearly all of them.
  const Assembly a(ids, 64, comm);
  EXPECT_LT(a.owned, 250 / comm.size() + 50);
}

TEST(Assembly, ABadBlockSizeOnOneRankIsThrownByAll) {
  const Comm comm;
  const Ids ids{1, 2, 3};
  EXPECT_THROW(Assembly(ids, comm.rank() == comm.size() - 1 ? 0 : 8, comm), weft::mpi::CollectiveError);
}

TEST(Assembly, MorePointsThanAnIndexCanNameIsThrownByAllRanks) {
  const Comm comm;
  static std::int64_t id = 1;  // the length is checked before any id is read
  const std::size_t count = comm.rank() == 0 ? std::size_t{1} << 31 : 1;
  try {
    Assembly(std::span<const std::int64_t>(&id, count), 8, comm);
    FAIL();
  } catch (const weft::mpi::CollectiveError& error) {
    EXPECT_NE(std::string(error.what()).find("use more ranks"), std::string::npos) << error.what();
  }
}

TEST(SparseExchange, DeliversToRanksThatDidNotAskAndKeepsRoundsApart) {
  const Comm comm;
  for (std::int64_t round = 0; round < 50; ++round) {
    weft::mpi::Parcels send;  // rank r sends to r + 1 and to itself, in odd rounds only if r is even
    std::set<int> to{comm.rank(), (comm.rank() + 1) % comm.size()};
    if (round % 2 == 1 && comm.rank() % 2 == 1) to.clear();
    for (const int rank : to) send.add(rank, Ids{round, comm.rank(), rank});
    const auto got = weft::mpi::sparse_exchange(comm, send);
    std::set<int> from;
    for (int r = 0; r < comm.size(); ++r) {
      if (round % 2 == 1 && r % 2 == 1) continue;
      if (r == comm.rank() || (r + 1) % comm.size() == comm.rank()) from.insert(r);
    }
    ASSERT_EQ(got.ranks, std::vector<int>(from.begin(), from.end()));
    for (std::size_t i = 0; i < got.count(); ++i) {
      const auto part = got.part(i);
      EXPECT_EQ(Ids(part.begin(), part.end()), (Ids{round, got.ranks[i], comm.rank()}));
    }
  }
}

TEST(SparseExchange, PartsThatCannotBeMadeOnOneRankAreAnErrorOnAllAndTheNextExchangeWorks) {
  const Comm comm;
  const int next = (comm.rank() + 1) % comm.size();
  const auto parts = [&] {
    weft::mpi::Parcels send;
    send.add(next, Ids{comm.rank()});
    return send;
  };
  const auto fail = [&] {
    if (comm.rank() == comm.size() - 1) throw std::runtime_error("no parts");
    return parts();
  };
  EXPECT_THROW(weft::mpi::sparse_exchange(comm, fail), weft::mpi::CollectiveError);
  std::int64_t least = 0;
  const auto work = [&] {
    least = comm.rank() + 7;
    return parts();
  };
  const auto got = weft::mpi::sparse_exchange(comm, work, {&least, 1});
  EXPECT_EQ(least, 7);
  EXPECT_EQ(got.words, Ids{(comm.rank() + comm.size() - 1) % comm.size()});
}
