// The tuner of transforms: which candidates it tries, that all ranks choose the same, and that little memory affects
// only the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/device/host_device.hpp"
#include "weft/fft/library.hpp"
#include "weft/fft/tuner.hpp"

using namespace weft;
using namespace weft::fft;

namespace {

Wanted wanted(const char* exchange, int variables) {
  Wanted w;
  w.options.sizes = {.x = 12, .y = 10, .z = 8};
  w.options.row = w.options.column = exchange;
  w.variables = variables;
  w.seconds = 0.05;
  return w;
}

// Checks that the text is the same on all ranks.
void expect_alike(const mpi::Comm& comm, const std::string& text) {
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 1);
  EXPECT_EQ(comm.max(hash), comm.min(hash)) << text;
}

std::set<std::string> names(const PlanTuning& tuning, const std::string& race) {
  std::set<std::string> all;
  for (const SettingTiming& timing : tuning.timings) {
    if (timing.what == race) all.insert(name(timing.setting));
  }
  return all;
}

// A host that counts the most bytes held at a time (`most`), and the allocations of at least `large_bytes` that ranks
// do not share (`large`).
class Counting final : public device::HostDevice {
 public:
  explicit Counting(std::int64_t large = 0) : HostDevice(false), large_bytes(large) {}
  void* allocate(std::size_t bytes) override {
    if (static_cast<std::int64_t>(bytes) >= large_bytes) ++large;
    return counted(HostDevice::allocate(bytes), bytes);
  }
  void release(void* pointer) noexcept override {
    forget(pointer);
    HostDevice::release(pointer);
  }
  void* allocate_shared(std::size_t bytes, device::SharedHandle& handle) override {
    return counted(HostDevice::allocate_shared(bytes, handle), bytes);
  }
  void release_shared(void* pointer) noexcept override {
    forget(pointer);
    HostDevice::release_shared(pointer);
  }
  const std::int64_t large_bytes;
  std::size_t most = 0;
  int large = 0;

 private:
  void* counted(void* pointer, std::size_t bytes) {
    sizes_[pointer] = bytes;
    most = std::max(most, held_ += bytes);
    return pointer;
  }
  void forget(void* pointer) {
    if (const auto known = sizes_.find(pointer); known != sizes_.end()) {
      held_ -= known->second;
      sizes_.erase(known);
    }
  }
  std::size_t held_ = 0;
  std::map<void*, std::size_t> sizes_;
};

// Checks that the returned plan transforms correctly.
template <class T>
void expect_works(Plan<T>& plan) {
  std::vector<T> field(plan.decomposition().physical().size()), back(field.size());
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<T>(i % 17) - 8;
  std::vector<std::complex<T>> spectral(plan.decomposition().spectral().size());
  device::Stream stream(plan.device());
  plan.forward({field.data()}, {spectral.data()}, stream);
  plan.backward({spectral.data()}, {back.data()}, stream);
  for (std::size_t i = 0; i < field.size(); ++i) ASSERT_NEAR(back[i], field[i], 1e-4);
}

}  // namespace

TEST(FftTuner, EveryGridIsTriedAndAllRanksTakeTheSame) {
  const mpi::Comm comm;
  auto tuned = tuned_plan<double>(wanted("pairwise:direct", 2), device::open("host"), comm);
  const std::size_t grids = grids_of(comm.size()).size();
  EXPECT_EQ(names(tuned.tuning, "grid").size(), grids > 1 ? grids : 0);
  EXPECT_EQ(names(tuned.tuning, "batch").size(), 2U);
  EXPECT_TRUE(names(tuned.tuning, "exchange").empty());  // there is one
  expect_alike(comm, name(tuned.tuning.chosen));
  expect_alike(comm, tuned.tuning.reason);
  EXPECT_EQ(tuned.plan->decomposition().grid(), tuned.tuning.chosen.grid);
  EXPECT_EQ(tuned.plan->options().batch, tuned.tuning.chosen.batch);
  expect_works(*tuned.plan);
}

TEST(FftTuner, PlansThatMustBeMadeAnewForEachTurnAreTimedToo) {
  const mpi::Comm comm;
  Wanted little = wanted("auto", 1);
  little.any_batch = false;
  little.any_way = false;    // FFTW lacks one of them
  little.waiting_share = 0;  // then none waits
  auto tuned = tuned_plan<float>(little, device::open("host"), comm);
  for (const SettingTiming& timing : tuned.tuning.timings) {
    EXPECT_EQ(timing.failure, "") << name(timing.setting);
    EXPECT_GT(timing.median_seconds, 0);
  }
  if (comm.size() > 1) {
    EXPECT_GT(names(tuned.tuning, "exchange").size(), 4U);
  }
  expect_alike(comm, name(tuned.tuning.chosen));
  expect_works(*tuned.plan);
}

TEST(FftTuner, PlansThatWaitDoNotFillTheMemory) {
  const mpi::Comm comm;
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no exchanges to choose from";
  Wanted w = wanted("auto", 1);
  w.any_library = w.any_way = false;
  w.options.sizes = {.x = 24, .y = 24, .z = 24};  // more than is needed to find out whether path ipc works
  w.seconds = 20;                                 // so that no grid is left out after a first run
  const auto most = [&](double share) {
    w.waiting_share = share;
    const auto host = std::make_shared<Counting>();
    tuned_plan<double>(w, host, comm);
    return comm.max(static_cast<std::int64_t>(host->most));
  };
  EXPECT_LT(most(0), most(0.5));
}

TEST(FftTuner, CandidatesShareTheBuffersOfExchanges) {
  const mpi::Comm comm;
  Wanted w = wanted("pairwise:direct", 1);
  w.options.sizes = {.x = 48, .y = 48, .z = 48};
  w.options.modes_x = 13;  // by panels, which are smaller than half a field
  w.any_batch = false;
  const auto host = std::make_shared<Counting>(13 * 48 * 48 * 16 / comm.size() / 2);
  tuned_plan<double>(w, host, comm);
  EXPECT_LE(host->large, 4);  // a field of points, one of modes, and two buffers
}

TEST(FftTuner, WhereTimeIsShortCandidatesRunTwiceAtMost) {
  const mpi::Comm comm;
  Wanted w = wanted("auto", 1);
  w.any_batch = false;
  w.seconds = 1e-9;  // less than any transform
  auto tuned = tuned_plan<double>(w, device::open("host"), comm);
  for (const SettingTiming& timing : tuned.tuning.timings) {
    EXPECT_EQ(timing.failure, "") << name(timing.setting);
    EXPECT_LE(timing.repetitions, 2) << name(timing.setting);
    EXPECT_GT(timing.median_seconds, 0);
  }
  expect_alike(comm, name(tuned.tuning.chosen));
  expect_works(*tuned.plan);
}

TEST(FftTuner, RanksOfANodeTryPlanesInMemoryThatTheyShare) {
  const mpi::Comm comm;
  if (comm.size() == 1 || static_cast<int>(comm.node().size()) < comm.size()) GTEST_SKIP() << "not ranks of one node";
  Wanted w = wanted("pairwise:ipc", 1);
  w.any_batch = false;
  auto tuned = tuned_plan<double>(w, device::open("host"), comm);
  expect_alike(comm, name(tuned.tuning.chosen));
  expect_works(*tuned.plan);
  const std::size_t at = tuned.tuning.reason.find("node: ");
  ASSERT_NE(at, std::string::npos) << tuned.tuning.reason;
  if (tuned.tuning.reason.find("as in an earlier run", at) == std::string::npos) {
    std::set<std::string> planes = names(tuned.tuning, "node");
    std::erase_if(planes, [](const std::string& n) { return n.find("planes") == n.npos; });
    std::size_t tried = 0;
    for (int i = 0; i < host_libraries(); ++i) {
      if (i + 1 == host_libraries() || !host_library(i + 1).measured) ++tried;
    }
    EXPECT_EQ(planes.size(), tried);
  }
  EXPECT_EQ(tuned.tuning.chosen.ways.has_value(), tuned.plan->ways().forward.method == Method::planes);
}

TEST(FftTuner, RowsAndColumnsThatAreAskedForApartAreKept) {
  const mpi::Comm comm;
  Wanted apart = wanted("pairwise:direct", 1);
  apart.options.column = "alltoallv:direct";
  auto tuned = tuned_plan<double>(apart, device::open("host"), comm);
  EXPECT_EQ(exchange::name(tuned.tuning.chosen.row), "pairwise:direct");
  EXPECT_EQ(exchange::name(tuned.tuning.chosen.column), "alltoallv:direct");
  expect_works(*tuned.plan);
}

TEST(FftTuner, GridsThatLeaveARankEmptyAreNotTried) {
  const mpi::Comm comm;
  Wanted flat = wanted("pairwise:direct", 1);
  flat.options.sizes = {.x = 12, .y = 10, .z = 1};  // one plane: no rank of a column shares z with another
  flat.any_batch = false;
  const auto tuned = tuned_plan<double>(flat, device::open("host"), comm);
  // Every grid of more than one rank leaves some ranks empty, in z before or after the exchange; in this case all grids
  // are tried.
  EXPECT_EQ(names(tuned.tuning, "grid").size(), comm.size() > 1 ? grids_of(comm.size()).size() : 0);
  flat.options.sizes = {.x = 2, .y = 10, .z = 8};  // two kx: rows of two at most
  for (const SettingTiming& timing : tuned_plan<double>(flat, device::open("host"), comm).tuning.timings)
    EXPECT_LE(timing.setting.grid.rows, 2);
}

TEST(FftTuner, WhatCannotBeIsOneErrorOnAllRanks) {
  const mpi::Comm comm;
  const auto host = device::open("host");
  EXPECT_THROW(tuned_plan<double>(wanted("pigeon", 1), host, comm), mpi::CollectiveError);
  EXPECT_THROW(tuned_plan<double>(wanted("auto", 0), host, comm), mpi::CollectiveError);
  Wanted empty = wanted("auto", 1);
  empty.options.sizes = {.x = 0, .y = 4, .z = 4};
  EXPECT_THROW(tuned_plan<double>(empty, host, comm), mpi::CollectiveError);
}
