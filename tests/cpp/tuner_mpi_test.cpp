// Tuned exchanges on real ranks: all ranks choose the same, the values are those of any forced choice, rejected
// candidates leave nothing behind, and equal exchanges of a communicator are timed once.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "all_ids.hpp"
#include "choices.hpp"
#include "weft/device/device.hpp"
#include "weft/exchange/assembly.hpp"
#include "weft/exchange/equal_exchanges.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/exchange/tuning_cache.hpp"
#include "weft/trace/recorder.hpp"

using namespace weft;
using namespace weft::exchange;

// MPI's profiling interface: counts what is created and freed, and reductions.
namespace {
std::int64_t requests_alive = 0, communicators_alive = 0, reductions = 0;
bool refuse = false;            // makes this rank's next topology fail
const void* instead = nullptr;  // replaces what this rank's next alltoallv sends
}  // namespace
extern "C" {
int MPI_Send_init(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* r) {
  ++requests_alive;
  return PMPI_Send_init(buffer, count, type, to, tag, comm, r);
}
int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* r) {
  ++requests_alive;
  return PMPI_Recv_init(buffer, count, type, from, tag, comm, r);
}
#if MPI_VERSION >= 4
int MPI_Alltoallv_init(const void* send, const int counts[], const int places[], MPI_Datatype type, void* receive,
                       const int receive_counts[], const int receive_places[], MPI_Datatype receive_type, MPI_Comm comm,
                       MPI_Info info, MPI_Request* r) {
  ++requests_alive;
  if (instead != nullptr) send = std::exchange(instead, nullptr);
  return PMPI_Alltoallv_init(send, counts, places, type, receive, receive_counts, receive_places, receive_type, comm,
                             info, r);
}
int MPI_Neighbor_alltoallv_init(const void* send, const int counts[], const int places[], MPI_Datatype type,
                                void* receive, const int receive_counts[], const int receive_places[],
                                MPI_Datatype receive_type, MPI_Comm comm, MPI_Info info, MPI_Request* r) {
  ++requests_alive;
  return PMPI_Neighbor_alltoallv_init(send, counts, places, type, receive, receive_counts, receive_places, receive_type,
                                      comm, info, r);
}
#endif
int MPI_Request_free(MPI_Request* request) {
  --requests_alive;
  return PMPI_Request_free(request);
}
int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int in, const int sources[], const int source_weights[], int out,
                                   const int destinations[], const int weights[], MPI_Info info, int reorder,
                                   MPI_Comm* made) {
  ++communicators_alive;
  const int code = PMPI_Dist_graph_create_adjacent(comm, in, sources, source_weights, out, destinations, weights, info,
                                                   reorder, made);
  return std::exchange(refuse, false) ? MPI_ERR_NO_MEM : code;
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  ++communicators_alive;
  return PMPI_Comm_dup(comm, made);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  ++communicators_alive;
  return PMPI_Comm_split(comm, color, key, made);
}
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++reductions;
  return PMPI_Allreduce(from, to, count, type, op, comm);
}
int MPI_Comm_free(MPI_Comm* comm) {
  --communicators_alive;
  return PMPI_Comm_free(comm);
}
}

namespace {

// A hundred ids shared by neighbours in a ring, and ten shared by all ranks.
Ids ring(const mpi::Comm& comm) {
  Ids ids;
  for (const int r : {comm.rank(), (comm.rank() + 1) % comm.size()}) {
    for (int i = 0; i < 100; ++i) ids.push_back(1000 * (r + 1) + i);
  }
  for (int i = 1; i <= 10; ++i) ids.push_back(i);
  return ids;
}

// A communicator that nothing has been tuned on.
mpi::Comm untuned() {
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  const mpi::Comm comm(own);
  MPI_Comm_free(&own);
  return comm;
}

void expect_same_on_all_ranks(const Tuning& tuning, const mpi::Comm& comm) {
  const std::string text = to_text(tuning) + (tuning.reused ? "reused" : "");
  for (const auto& other : of_all_ranks(std::vector<char>(text.begin(), text.end()), comm)) {
    EXPECT_EQ(std::string(other.begin(), other.end()), text);
  }
}

void expect_fastest(const Tuning& tuning, const mpi::Comm& comm) {
  if (comm.size() == 1) {
    EXPECT_TRUE(tuning.timings.empty());
    EXPECT_EQ(tuning.seconds, 0);
    return;
  }
  double chosen = 0;
  for (const Timing& timing : tuning.timings) {
    EXPECT_EQ(timing.failure, "") << name(timing.choice);
    EXPECT_GE(timing.repetitions, 1) << name(timing.choice);
    EXPECT_LE(timing.repetitions, 50) << name(timing.choice);
    EXPECT_GT(timing.median_seconds, 0) << name(timing.choice);
    if (name(timing.choice) == name(tuning.chosen)) {
      EXPECT_FALSE(timing.stopped_early);
      chosen = timing.median_seconds;
    }
  }
  EXPECT_GT(chosen, 0);
  EXPECT_GT(tuning.seconds, 0);
  expect_same_on_all_ranks(tuning, comm);  // the text and all numbers
}

}  // namespace

TEST(Tuned, EveryCandidateIsTimedAllRanksChooseAlikeAndValuesAreThoseOfAForcedChoice) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  device::Stream stream(host);
  const Ids ids = ring(comm);
  GatherScatter<double> tuned(ids, comm, host), forced(ids, comm, host, Choice{});
  EXPECT_TRUE(forced.tuning().timings.empty());
  expect_fastest(tuned.tuning(), comm);
  if (comm.size() > 1) {
    EXPECT_EQ(tuned.tuning().timings.size(), candidates("auto", *host, comm).size());
  }
  std::vector<double> x(ids.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0 / static_cast<double>(1 + comm.rank() + 7 * i);
  std::vector<double> y = x;
  tuned.gather_scatter(x.data(), Op::add, stream);
  forced.gather_scatter(y.data(), Op::add, stream);
  EXPECT_EQ(x, y);
  EXPECT_EQ(tuned.halo_tuning(), nullptr) << "nothing is tuned for what is not used";
  std::vector<double> dofs(static_cast<std::size_t>(tuned.assembly().local) + 1);
  tuned.gather(x.data(), dofs.data(), Op::max, stream);
  tuned.scatter(dofs.data(), x.data(), stream);
  EXPECT_EQ(x, y);
  expect_fastest(*tuned.halo_tuning(), comm);
  expect_fastest(*tuned.gather_tuning(), comm);
}

TEST(Tuned, ATraceHoldsThatItWasTunedAndNotTheTrials) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  const std::size_t ways = candidates("auto", *host, comm).size();  // tries the paths once
  trace::enable(true);
  const GatherScatter<double> tuned(ring(comm), comm, host);
  trace::enable(false);
  const std::vector<trace::Interval> found = trace::intervals();
  std::map<std::string, int> calls;
  for (const trace::Interval& interval : found) ++calls[interval.name];
  EXPECT_EQ(calls["tune exchange"], comm.size() > 1 ? 1 : 0);
  // A first transfer of each candidate, with messages to every other rank, plus the steps of set-up.
  const std::size_t most = 20 * static_cast<std::size_t>(comm.size() + 1) * ways;
  EXPECT_LE(found.size(), most);
  EXPECT_TRUE(comm.size() == 1 || calls["wait"] > 0);
}

TEST(Tuned, WhatATextLeavesOpenIsTimedAndNothingElse) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  const Ids ids = ring(comm);
  const GatherScatter<float> by_schedule(ids, comm, host, "crystal", 3), by_path(ids, comm, host, "auto:staged"),
      forced(ids, comm, host, "alltoallv:staged");
  EXPECT_EQ(by_schedule.tuning().chosen.schedule, Schedule::crystal);
  EXPECT_EQ(by_path.tuning().chosen.path, Path::staged);
  EXPECT_EQ(name(forced.tuning().chosen), "alltoallv:staged");
  EXPECT_EQ(forced.tuning().chosen.reason, "requested");
  EXPECT_TRUE(forced.tuning().timings.empty());
  for (const Timing& timing : by_schedule.tuning().timings) EXPECT_EQ(timing.choice.schedule, Schedule::crystal);
  for (const Timing& timing : by_path.tuning().timings) EXPECT_EQ(timing.choice.path, Path::staged);
  EXPECT_THROW(GatherScatter<float>(ids, comm, host, "teleport"), mpi::CollectiveError);
}

TEST(Tuned, RanksWithoutNeighboursTakePartAndPatternsWithoutAnyAreNotTimed) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  device::Stream stream(host);
  // The first two ranks share an id; the others share nothing.
  const Ids ids{comm.rank() < 2 ? 1 : 10 + comm.rank()};
  GatherScatter<std::int32_t> gs(ids, comm, host);
  expect_fastest(gs.tuning(), comm);
  std::vector<std::int32_t> x{1};
  gs.gather_scatter(x.data(), Op::add, stream);
  EXPECT_EQ(x[0], comm.rank() < 2 ? std::min(2, comm.size()) : 1);
  const GatherScatter<double> alone(Ids{comm.rank() + 1}, comm, host);
  EXPECT_TRUE(alone.tuning().timings.empty());
  EXPECT_EQ(alone.tuning().seconds, 0);
}

TEST(Tuned, ACandidateThatCannotBeMadeOrBringsOtherValuesIsOutOnAllRanksAndTheTableSaysWhy) {
  const mpi::Comm comm = untuned();  // which has no topology yet
  if (comm.size() == 1) GTEST_SKIP() << "nothing is timed on one rank";
  const auto host = device::open("host");
  device::Stream stream(host);
  Ids ids(500);
  std::iota(ids.begin(), ids.end(), 1);
  const std::string last = "rank " + std::to_string(comm.size() - 1) + ": ";
  const std::vector<std::byte> other(sizeof(double) * ids.size() * static_cast<std::size_t>(comm.size()));
  const bool culprit = comm.rank() == comm.size() - 1;
  refuse = culprit;
#if MPI_VERSION >= 4
  if (culprit) instead = other.data();
#endif
  GatherScatter<double> gs(ids, comm, host);
  for (const Timing& timing : gs.tuning().timings) {
    const Schedule schedule = timing.choice.schedule;
    std::string expected;
    if (schedule == Schedule::neighbor) expected = last + "MPI_Dist_graph_create_adjacent failed";
#if MPI_VERSION >= 4
    if (schedule == Schedule::alltoallv) expected = "the received values differ from those sent";
#endif
    EXPECT_NE(timing.failure.find(expected), std::string::npos) << name(timing.choice) << ": " << timing.failure;
    EXPECT_EQ(timing.failure.empty(), expected.empty());
    EXPECT_EQ(timing.repetitions == 0, !expected.empty());
    if (!expected.empty()) {
      EXPECT_NE(name(timing.choice), name(gs.tuning().chosen));
    }
  }
  std::vector<double> x(ids.size(), 1.0);
  gs.gather_scatter(x.data(), Op::add, stream);
  EXPECT_EQ(x, std::vector<double>(ids.size(), comm.size()));
  EXPECT_THROW(
      {
        refuse = culprit;
        GatherScatter<double>(ids, comm, host, "neighbor:direct");
      },
      mpi::CollectiveError);
}

TEST(Tuned, LosersLeaveNoRequestsAndNoCommunicatorsBehind) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  const Ids ids = ring(comm);
  {
    const GatherScatter<double> first(ids, comm, host);
  }  // creates whatever lives as long as the communicator
  const std::int64_t requests = requests_alive, communicators = communicators_alive;
  {
    const GatherScatter<double> tuned(ids, comm, host, "auto", 64);  // longer messages, so that it is timed, too
    EXPECT_FALSE(tuned.tuning().reused);
    const std::int64_t with_one = requests_alive - requests;
    const GatherScatter<double> forced(ids, comm, host, tuned.tuning().chosen, 64);
    EXPECT_EQ(requests_alive - requests, 2 * with_one) << "as many as for one that was requested";
  }
  EXPECT_EQ(requests_alive, requests);
  EXPECT_LE(communicators_alive, communicators) << "fewer where a graph of the first is no longer in use";
}

// On many ranks, or ranks that share processors, set-up takes as long as they wait for each other.
TEST(Tuned, SetUpWithARequestedExchangeTakesFewReductions) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  const Ids ids = ring(comm);
  const auto taken = [&](const char* exchange) {
    const std::int64_t before = reductions;
    const GatherScatter<double> gs(ids, comm, host, exchange);
    return reductions - before;
  };
  for (const char* exchange : {"pairwise:direct", "alltoallv:direct", "neighbor:direct", "crystal:direct"}) {
    taken(exchange);  // tries paths and makes what the communicator keeps
    EXPECT_LE(taken(exchange), 12) << exchange;
  }
}

namespace {

// How often exchanges were tuned while this object exists.
class Counted {
 public:
  Counted() { trace::enable(true); }
  ~Counted() { trace::enable(false); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::int64_t tuned() const {
    return std::ranges::count(trace::intervals(), std::string("tune exchange"),
                              [](const trace::Interval& interval) { return std::string(interval.name); });
  }
};

}  // namespace

TEST(EqualExchanges, AreTimedOnceWithTheSameChoiceOnAllRanks) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  device::Stream stream(host);
  const Ids ids = ring(comm);
  const bool several = comm.size() > 1;
  const Counted counted;
  // Messages that are too long to count as short ones: 64 values per id.
  const GatherScatter<double> first(ids, comm, host, "auto", 64);
  GatherScatter<double> second(ids, comm, host, "auto", 64);
  const GatherScatter<float> others(ids, comm, host, "auto", 128);  // as many bytes
  EXPECT_EQ(counted.tuned(), several ? 1 : 0);
  EXPECT_FALSE(first.tuning().reused);
  EXPECT_EQ(to_text(second.tuning()), to_text(first.tuning()));
  EXPECT_EQ(to_text(others.tuning()), to_text(first.tuning()));
  for (const Tuning* tuning : {&second.tuning(), &others.tuning()}) {
    EXPECT_EQ(tuning->reused, several);
    expect_same_on_all_ranks(*tuning, comm);
  }
  std::vector<double> x(ids.size() * 64, 1.0);
  second.gather_scatter(x.data(), Op::max, stream);
  EXPECT_EQ(x, std::vector<double>(x.size(), 1.0));

  const GatherScatter<double> forced(ids, comm, host, Choice{}, 64), longer(ids, comm, host, "auto", 65),
      fewer_ways(ids, comm, host, "crystal", 64);
  EXPECT_EQ(counted.tuned(), several ? 3 : 0) << "a longer one, and one with other candidates";
  for (const Tuning* tuning : {&forced.tuning(), &longer.tuning(), &fewer_ways.tuning()}) EXPECT_FALSE(tuning->reused);
  EXPECT_TRUE(forced.tuning().timings.empty());
  EXPECT_EQ(fewer_ways.tuning().chosen.schedule, Schedule::crystal);
}

TEST(EqualExchanges, HaloAndGatherOfShortMessagesAreTimedOnceAndThoseOfLongOnesEach) {
  const mpi::Comm comm = untuned();
  const auto host = device::open("host");
  if (comm.size() == 1) GTEST_SKIP() << "nothing is timed on one rank";
  // Every rank owns 30 entries, of which both neighbours in a ring have copies.
  Pattern pattern;
  pattern.halo_first = 30;
  for (const int rank : std::set{(comm.rank() + 1) % comm.size(), (comm.rank() + comm.size() - 1) % comm.size()}) {
    pattern.neighbors.push_back({rank, 30, 30});
    for (int i = 0; i < 30; ++i) pattern.owned_index.push_back(i);
  }
  pattern.entries = pattern.halo_first + pattern.halo();
  const Counted counted;
  const auto tuned_by = [&](auto make) {
    const std::int64_t before = counted.tuned();
    make();
    return counted.tuned() - before;
  };
  EXPECT_EQ(tuned_by([&] { Exchange<std::int32_t>(pattern, host, comm); }), 1);
  EXPECT_EQ(tuned_by([&] { Exchange<std::int32_t>(pattern, host, comm, "auto", 200); }), 2);
}

TEST(EqualExchanges, AreTimedAnewOnAnotherCommunicatorAndAfterOneWasFreed) {
  const auto host = device::open("host");
  for (int turn = 0; turn < 2; ++turn) {  // MPI may give the second communicator the handle of the first
    const mpi::Comm comm = untuned(), other = untuned();
    const GatherScatter<double> tuned(ring(comm), comm, host), elsewhere(ring(other), other, host);
    EXPECT_FALSE(tuned.tuning().reused);
    EXPECT_FALSE(elsewhere.tuning().reused);
  }
}

TEST(EqualExchanges, HaveTheSameNeighboursLengthsUseWorkAndCandidatesOnEveryRank) {
  const mpi::Comm comm;
  const auto host = device::open("host");
  const std::vector<Choice> candidates{{Schedule::pairwise, Path::direct}, {Schedule::crystal, Path::direct}};
  const int last = comm.size() - 1;
  struct Described {
    std::vector<Part> parts;
    std::vector<Choice> candidates;
    std::string use = "halo";
    std::size_t work_bytes = 0;
    bool crowded = false;
  };
  const auto kind = [&](const Described& d) {
    const std::uint64_t found = kind_of_exchange(comm, *host, d.parts, d.candidates, d.use, d.work_bytes, d.crowded);
    for (const auto& other : of_all_ranks(std::vector{found}, comm)) EXPECT_EQ(other.front(), found);
    return found;
  };
  // Parts to the next rank that differ on the last rank only.
  const auto parts = [&](std::size_t bytes, std::size_t of_last) {
    const std::size_t mine = comm.rank() == last ? of_last : bytes;
    return std::vector<Part>{{(comm.rank() + 1) % comm.size(), 0, mine, 0, bytes}};
  };
  const Described large{parts(10000, 10000), candidates}, small{parts(100, 100), candidates};
  EXPECT_EQ(kind(large), kind(large));
  EXPECT_NE(kind(large), kind({parts(10000, 10008), candidates}));
  EXPECT_NE(kind(large), kind({parts(10000, 0), candidates}));
  EXPECT_NE(kind(large), kind({large.parts, candidates, "gather"}));
  EXPECT_NE(kind(large), kind({large.parts, {candidates[1], candidates[0]}}));
  std::vector<Part> to_itself = large.parts;
  to_itself.front().rank = comm.rank();
  EXPECT_EQ(kind(large) == kind({to_itself, candidates}), comm.size() == 1);
  EXPECT_NE(kind(large), kind({large.parts, candidates, "halo", 1 << 20}));
  EXPECT_NE(kind(large), kind(small));
  EXPECT_EQ(kind(small), kind({parts(100, 8), candidates}));
  EXPECT_EQ(kind(small), kind({small.parts, candidates, "gather"}));
  EXPECT_NE(kind(small), kind({parts(100, 0), candidates})) << "one message less";
  EXPECT_NE(kind(small), kind({parts(100, 1000), candidates}));
  EXPECT_EQ(kind({small.parts, candidates, "halo", 8, true}), kind({parts(100, 1000), candidates, "halo", 800, true}))
      << "where ranks share processors, latencies are longer";
}

TEST(EqualExchanges, OfACommunicatorKeepTheLast64Tunings) {
  const mpi::Comm comm = untuned();
  for (std::uint64_t kind = 0; kind < 100; ++kind) {
    keep_tuning(comm, kind, {.chosen = {.reason = std::to_string(kind)}});
    keep_tuning(comm, 7, {.chosen = {.reason = "again"}});
  }
  for (std::uint64_t kind = 0; kind < 100; ++kind) {
    const Tuning* known = known_tuning(comm, kind);
    ASSERT_EQ(known != nullptr, kind == 7 || kind >= 37) << kind;
    if (known != nullptr) {
      EXPECT_EQ(known->chosen.reason, kind == 7 ? "again" : std::to_string(kind));
    }
  }
}
