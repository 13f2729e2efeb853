// Tuned exchanges on real ranks: all ranks choose the same, the values are those of any forced choice, and rejected
// candidates leave nothing behind.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "all_ids.hpp"
#include "choices.hpp"
#include "weft/device/device.hpp"
#include "weft/exchange/assembly.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/exchange/tuning_cache.hpp"
#include "weft/trace/recorder.hpp"

using namespace weft;
using namespace weft::exchange;

// MPI's profiling interface: counts what is created and freed.
namespace {
std::int64_t requests_alive = 0, communicators_alive = 0;
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
  // The text and all numbers are the same on all ranks.
  const std::string text = to_text(tuning);
  for (const auto& other : of_all_ranks(std::vector<char>(text.begin(), text.end()), comm)) {
    EXPECT_EQ(std::string(other.begin(), other.end()), text);
  }
}

}  // namespace

TEST(Tuned, EveryCandidateIsTimedAllRanksChooseAlikeAndValuesAreThoseOfAForcedChoice) {
  const mpi::Comm comm;
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
  const mpi::Comm comm;
  const auto host = device::open("host");
  trace::enable(true);
  const GatherScatter<double> tuned(ring(comm), comm, host);
  trace::enable(false);
  const std::vector<trace::Interval> found = trace::intervals();
  std::map<std::string, int> calls;
  for (const trace::Interval& interval : found) ++calls[interval.name];
  EXPECT_EQ(calls["tune exchange"], comm.size() > 1 ? 1 : 0);
  // A first transfer of each candidate, with messages to every other rank, plus the steps of set-up.
  const std::size_t most = 20 * static_cast<std::size_t>(comm.size() + 1) * candidates("auto", *host, comm).size();
  EXPECT_LE(found.size(), most);
  EXPECT_TRUE(comm.size() == 1 || calls["wait"] > 0);
}

TEST(Tuned, WhatATextLeavesOpenIsTimedAndNothingElse) {
  const mpi::Comm comm;
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
  const mpi::Comm comm;
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
  MPI_Comm own = MPI_COMM_NULL;  // a communicator that has no topology yet
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  const mpi::Comm comm(own);
  MPI_Comm_free(&own);
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
  const mpi::Comm comm;
  const auto host = device::open("host");
  const Ids ids = ring(comm);
  {
    const GatherScatter<double> first(ids, comm, host);
  }  // creates whatever lives as long as the communicator
  const std::int64_t requests = requests_alive, communicators = communicators_alive;
  {
    const GatherScatter<double> tuned(ids, comm, host);
    const std::int64_t with_one = requests_alive - requests;
    const GatherScatter<double> forced(ids, comm, host, tuned.tuning().chosen);
    EXPECT_EQ(requests_alive - requests, 2 * with_one) << "as many as for one that was requested";
  }
  EXPECT_EQ(requests_alive, requests);
  EXPECT_LE(communicators_alive, communicators) << "fewer where a graph of the first is no longer in use";
}
