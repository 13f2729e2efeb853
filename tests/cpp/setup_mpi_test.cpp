// Set-up on up to 64 ranks: what the ranks learn about sharing is consistent, and the messages, as counted by the
// recorder, scale with what a rank has and shares.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "../../benchmarks/simulated_setup.hpp"
#include "all_ids.hpp"
#include "weft/device/device.hpp"
#include "weft/exchange/directory.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/trace/recorder.hpp"

using namespace weft;
using namespace weft::exchange;

namespace {

struct Traffic {
  std::int64_t messages = 0, bytes = 0;
};

// find_sharing, counting its messages.
Sharing counted(const Ids& distinct, const mpi::Comm& comm, Traffic& traffic) {
  trace::enable(true);
  Sharing sharing = find_sharing(distinct, comm);
  trace::enable(false);
  for (const trace::Interval& interval : trace::intervals()) {
    if (std::string(interval.name) != "parcel") continue;
    ++traffic.messages;
    traffic.bytes += interval.bytes;
  }
  return sharing;
}

void check(const Ids& ids, const mpi::Comm& comm) {
  const PointsById mine = points_by_id(ids);
  Traffic traffic;
  const Sharing sharing = counted(mine.ids, comm, traffic);

  // Holders: exactly the ranks that have the id, and the same list on each of them.
  std::map<std::int64_t, std::vector<std::int32_t>> holders, told;
  std::map<std::int64_t, std::int64_t> multiplicity;
  const auto all = of_all_ranks(ids, comm);
  for (int r = 0; r < comm.size(); ++r) {
    for (const std::int64_t id : all[static_cast<std::size_t>(r)]) {
      if (id <= 0) continue;
      ++multiplicity[id];
      auto& who = holders[id];
      if (who.empty() || who.back() != r) {
        if (std::ranges::find(who, r) == who.end()) who.push_back(r);
      }
    }
  }
  for (std::size_t s = 0; s < sharing.positions.size(); ++s) {
    told[mine.ids[static_cast<std::size_t>(sharing.positions[s])]] = {sharing.holders.begin() + sharing.begin[s],
                                                                      sharing.holders.begin() + sharing.begin[s + 1]};
  }
  std::int64_t mine_told_words = 0;  // what this rank has to be told, and what it may have to tell as home or relay
  std::int64_t may_tell_words = 0, all_words = 0;
  const auto copies = static_cast<std::int64_t>(directory::most_copies);
  for (const auto& [id, who] : holders) {
    const bool have = std::ranges::binary_search(who, comm.rank());
    EXPECT_EQ(told.contains(id), have && who.size() > 1) << id;
    if (told.contains(id)) {
      EXPECT_EQ(told[id], who) << id;
    }
    const auto count = static_cast<std::int64_t>(who.size());
    all_words += count;  // questions
    if (count == 1) continue;
    all_words += count * (count + 2);
    if (have) mine_told_words += count + 2;
    const bool home = directory::home(id, comm.size()) == comm.rank();
    if (home || (have && count > copies))
      may_tell_words += std::min(copies, count) * (count + 2) * (home && have ? 2 : 1);
  }

  // Messages and bytes: O(local + shared).
  const auto distinct = static_cast<std::int64_t>(mine.ids.size());
  EXPECT_LE(traffic.bytes, 8 * (distinct + may_tell_words));
  const int rounds = directory::relay_rounds(comm.size());
  EXPECT_LE(traffic.messages, std::min<std::int64_t>(distinct, comm.size() - 1) +
                                  (1 + rounds) * std::min<std::int64_t>(may_tell_words, comm.size() - 1));
  std::int64_t total = traffic.bytes;
  comm.sum(&total, 1);
  EXPECT_LE(total, 8 * all_words) << "a list of holders reaches each of them once";

  // The simulation of very many ranks (benchmarks/setup_at_scale) counts exactly what is sent here.
  const simulated::Decomposition decomposition{
      .ranks = comm.size(),
      .ids = [&](std::int32_t rank) { return points_by_id(all[static_cast<std::size_t>(rank)]).ids; },
      .neighbors = {}};
  const auto simulation = simulated::Setup::run(decomposition, {}, [](auto&&...) {});
  const simulated::Counts& expected_traffic = simulation.ranks[static_cast<std::size_t>(comm.rank())];
  EXPECT_EQ(traffic.messages, expected_traffic.messages_sent);
  EXPECT_EQ(traffic.bytes, expected_traffic.bytes_sent);

  // Assembly: every id has one owner; neighbours agree on how much they exchange.
  const Assembly assembly(ids, 64, comm);
  EXPECT_EQ(assembly.global, static_cast<std::int64_t>(holders.size()));
  std::vector<std::int64_t> to(static_cast<std::size_t>(comm.size())), from(to), expected(to);
  for (const auto& n : assembly.pattern.neighbors) {
    to[static_cast<std::size_t>(n.rank)] = n.owned;
    from[static_cast<std::size_t>(n.rank)] = n.halo;
  }
  MPI_Alltoall(to.data(), 1, MPI_INT64_T, expected.data(), 1, MPI_INT64_T, comm.get());
  EXPECT_EQ(from, expected);

  // The gather of ones counts points; the gather-scatter gives every point the number of points with its id.
  const auto host = device::open("host");
  device::Stream stream(host);
  GatherScatter<std::int64_t> gs(ids, comm, host, Choice{});
  std::vector<std::int64_t> ones(ids.size(), 1), dofs(static_cast<std::size_t>(gs.assembly().local) + 1);
  gs.gather(ones.data(), dofs.data(), Op::add, stream);
  for (std::int64_t d = 0; d < gs.assembly().owned; ++d) {
    const auto at = static_cast<std::size_t>(d);
    EXPECT_EQ(dofs[at], multiplicity[gs.assembly().dof_ids[at]]);
  }
  gs.gather_scatter(ones.data(), Op::add, stream);
  for (std::size_t p = 0; p < ids.size(); ++p) EXPECT_EQ(ones[p], ids[p] > 0 ? multiplicity[ids[p]] : 1);
}

}  // namespace

TEST(Setup, ABoxOfElementsIsSharedOutConsistently) {
  mpi::Comm comm;
  const mesh::Mesh box = mesh::make_box({.counts = {8, 8, 4}}, comm);
  check(mesh::point_ids(box, 2), comm);
}

TEST(Setup, RandomIdsOneOfThemHeldByAllAreSharedOutConsistently) {
  mpi::Comm comm;
  for (const unsigned seed : {0U, 2U, 3U}) {
    Ids ids = random_ids(seed, comm);
    ids.push_back(12345);
    check(ids, comm);
  }
}

TEST(Setup, ARankThatHoldsEverythingNeitherHangsNorFloodsTheOthers) {
  mpi::Comm comm;
  Ids ids;
  const std::int64_t each = 50;
  if (comm.rank() == comm.size() / 2) {
    for (std::int64_t id = 1; id <= each * comm.size(); ++id) ids.push_back(id);
  } else {
    for (std::int64_t id = 1; id <= each; ++id) ids.push_back(each * comm.rank() + id);
  }
  check(ids, comm);
}
