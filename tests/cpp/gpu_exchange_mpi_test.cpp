// Exchange and gather-scatter on the GPU backends, with the driver made for tests: its streams do nothing until
// somebody waits for them, so it shows if a message is sent before it is packed, or a buffer is reused before it is
// read.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "all_ids.hpp"
#include "choices.hpp"
#include "find_fake_gpu.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/mpi/gpu_aware.hpp"
#include "weft/mpi/probe.hpp"

using namespace weft;
using namespace weft::exchange;

namespace {

class OnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (device::find_fake_gpu(GetParam()) == nullptr)
      GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  }
};

// Several rounds without waiting in between: gather-scatter, then gather and scatter, with changing values.
std::vector<double> rounds(const std::shared_ptr<device::Device>& where, const Ids& ids, const mpi::Comm& comm,
                           const Choice& choice, int fields, Layout layout = Layout::points_major) {
  GatherScatter<double> gs(ids, comm, where, choice, fields, layout);
  const auto width = static_cast<std::size_t>(fields);
  std::vector<double> values(ids.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 7 + 3) % 11) - 5.0;
  device::Array<double> points(where, std::span<const double>(values));
  device::Array<double> dofs(where, static_cast<std::size_t>(gs.assembly().local + 1) * width);
  device::Stream stream(where);
  for (int round = 0; round < 3; ++round) {
    gs.gather_scatter(points.data(), Op::add, stream);
    gs.gather(points.data(), dofs.data(), Op::max, stream);
    gs.scatter(dofs.data(), points.data(), stream);
    gs.start(points.data(), Op::add, stream);
    gs.finish(stream);
  }
  stream.synchronize();
  std::vector<double> result = points.download(), at_dofs = dofs.download();
  result.insert(result.end(), at_dofs.begin(), at_dofs.end());
  return result;
}

}  // namespace

TEST_P(OnGpu, GatherScatterGatherAndScatterGiveTheHostsBitsForEveryChoice) {
  const mpi::Comm comm;
  for (const unsigned seed : seeds(comm)) {
    const Ids ids = random_ids(seed, comm);
    const int fields = seed % 2 == 0 ? 1 : 3;
    const auto expected = rounds(device::open("host"), ids, comm, {}, fields);
    for (const Choice& choice : choices_in_turn(comm, seed)) {
      EXPECT_EQ(rounds(device::open(GetParam()), ids, comm, choice, fields), expected)
          << name(choice) << " seed " << seed;
    }
    const auto apart = rounds(device::open("host"), ids, comm, {}, fields, Layout::fields_major);
    for (const Choice& choice : {Choice{Schedule::pairwise, Path::staged}, Choice{Schedule::crystal, Path::direct}}) {
      EXPECT_EQ(rounds(device::open(GetParam()), ids, comm, choice, fields, Layout::fields_major), apart)
          << name(choice) << " seed " << seed << ", fields one after the other";
    }
  }
}

TEST_P(OnGpu, WhereMemoryRanOutOnOneRankTheNextAttemptFindsAllRanksAtTheSameStep) {
  const mpi::Comm comm;
  const Ids ids{1, 2, 2, 3, 3};
  const auto known = std::make_shared<const Connectivity>(ids, comm);
  const auto gpu = device::open(GetParam());
  if (comm.rank() == comm.size() - 1) {
    device::find_fake_gpu(GetParam())->fail = "cuMemAlloc_v2";
  }
  const Choice choice{Schedule::pairwise, Path::staged};
  EXPECT_THROW(GatherScatter<double>(known, gpu, choice), mpi::CollectiveError);
  GatherScatter<double> gs(known, gpu, choice);
  device::Array<double> points(gpu, std::span<const double>(std::vector<double>(ids.size(), 1.0)));
  device::Stream stream(gpu);
  gs.gather_scatter(points.data(), Op::add, stream);
  stream.synchronize();
  const double ranks = comm.size();
  EXPECT_EQ(points.download(), (std::vector<double>{ranks, 2 * ranks, 2 * ranks, 2 * ranks, 2 * ranks}));
}

TEST_P(OnGpu, KernelsLaunchedBetweenStartAndFinishDoNotChangeWhatIsSent) {
  const mpi::Comm comm;
  const auto gpu = device::open(GetParam());
  const Ids ids{1, 2, 3, 4, 5, 6};
  const Assembly a(ids, 6, comm);
  for (const Choice& choice : all_choices()) {
    SCOPED_TRACE(name(choice));
    Exchange<double> exchange(a.pattern, gpu, comm, choice);
    std::vector<double> values(static_cast<std::size_t>(a.local + 1), -1.0);
    for (std::int64_t d = 0; d < a.owned; ++d) {
      values[static_cast<std::size_t>(d)] = static_cast<double>(a.dof_ids[static_cast<std::size_t>(d)]);
    }
    device::Array<double> x(gpu, std::span<const double>(values));
    device::Stream stream(gpu);
    exchange.start_halo(x.data(), stream);
    gpu->fill_zero(x.data(), sizeof(double) * static_cast<std::size_t>(a.owned), stream);
    exchange.finish_halo(x.data(), stream);
    stream.synchronize();
    const auto after = x.download();
    for (std::int64_t d = a.owned; d < a.local; ++d) {
      EXPECT_EQ(after[static_cast<std::size_t>(d)], a.dof_ids[static_cast<std::size_t>(d)]);
    }
  }
}

TEST_P(OnGpu, AMessageOfTheNextRoundDoesNotOverwriteOneThatIsNotReadYet) {
  const mpi::Comm comm;
  MPI_Comm other = MPI_COMM_NULL;  // all collectives on the exchange's communicator must be in one order
  MPI_Comm_dup(comm.get(), &other);
  const auto gpu = device::open(GetParam());
  const Ids ids{1, 2, 3, 4, 5, 6};
  const Assembly a(ids, 6, comm);
  for (const Choice& choice : all_choices()) {
    SCOPED_TRACE(name(choice));
    Exchange<double> exchange(a.pattern, gpu, comm, choice);
    const auto size = static_cast<std::size_t>(a.local + 1);
    std::vector<device::Array<double>> x;
    device::Stream stream(gpu);
    for (const double round : {1.0, 2.0}) {
      std::vector<double> values(size, round);
      std::fill(values.begin() + a.owned, values.begin() + a.local, -1.0);
      x.emplace_back(gpu, std::span<const double>(values));
      // The others' messages arrive before rank 0 starts; the copy of what it received in the previous round is still
      // pending.
      if (comm.rank() == 0) MPI_Barrier(other);
      exchange.start_halo(x.back().data(), stream);
      exchange.depart_halo();
      if (comm.rank() != 0) MPI_Barrier(other);
      exchange.finish_halo(x.back().data(), stream);
    }
    stream.synchronize();
    EXPECT_EQ(x[0].download(), std::vector<double>(size, 1.0));
    EXPECT_EQ(x[1].download(), std::vector<double>(size, 2.0));
  }
  MPI_Comm_free(&other);
}

TEST_P(OnGpu, MpiIsGivenDeviceMemoryOnlyWhereATransferProvedIt) {
  const mpi::Comm comm;
  const auto gpu = device::open(GetParam());
  const mpi::ProbeResult transfer = mpi::run_probe({WEFT_MPI_PROBE_FILE, GetParam()}, 60.0);
  EXPECT_TRUE(transfer.succeeded) << transfer.reason;  // this driver's memory is host memory

  EXPECT_TRUE(mpi::run_probe({WEFT_MPI_PROBE_FILE, GetParam(), "1"}, 60.0).succeeded);
  const mpi::ProbeResult absent = mpi::run_probe({WEFT_MPI_PROBE_FILE, GetParam(), "7"}, 60.0);
  EXPECT_NE(absent.reason.find(" 7 does not exist"), std::string::npos) << absent.reason;  // not another one instead

  // The child opens the GPU whose number it is given.
  const std::filesystem::path script = std::filesystem::temp_directory_path() / ("probe" + std::to_string(getpid()));
  std::ofstream(script) << "#!/bin/sh\necho asked for $1 $2\nexit 1\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  setenv("WEFT_MPI_PROBE", script.c_str(), 1);
  const mpi::GpuAware& second = mpi::gpu_aware(*device::open(GetParam(), 1));
  std::filesystem::remove(script);
  if (second.asked != "no") {
    EXPECT_NE(second.reason.find(std::string("asked for ") + GetParam() + " 1"), std::string::npos) << second.reason;
  }
  setenv("WEFT_MPI_PROBE", "/nowhere/weft_mpi_probe", 1);
  const mpi::GpuAware& aware = mpi::gpu_aware(*gpu);
  EXPECT_FALSE(aware.usable) << aware.reason;
  EXPECT_FALSE(aware.reason.empty());
  const Choice choice = choose("auto", *gpu, comm);
  EXPECT_EQ(choice.path, Path::staged);
  EXPECT_EQ(choice.reason, aware.reason);
  try {
    choose("pairwise:direct", *gpu, comm);
    FAIL() << "direct must be refused";
  } catch (const mpi::CollectiveError& error) {
    EXPECT_NE(std::string(error.what()).find("use 'pairwise:staged'"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OnGpu, testing::Values("cuda", "hip"));
