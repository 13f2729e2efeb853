// The turbulence solver on the GPU backends, with the driver and the FFT libraries made for tests: streams do nothing
// until somebody waits for them, and kernels run as fibers. The trajectory must be the host's.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "find_fake_gpu.hpp"
#include "turbulence_checks.hpp"
#include "weft/mpi/free_memory.hpp"
#include "weft/turbulence/memory.hpp"
#include "weft/turbulence/solver.hpp"

using namespace weft;
using namespace weft::turbulence;

namespace {

void compare(const char* gpu, const Options& options) {
  if (device::find_fake_gpu(gpu) == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  for (const fft::Grid& grid : fft::grids_of(mpi::Comm().size())) {
    const auto found = test::run_turbulence<double>(gpu, options, grid),
               expected = test::run_turbulence<double>("host", options, grid);
    ASSERT_EQ(found.modes.size(), expected.modes.size());
    for (std::size_t i = 0; i < found.modes.size(); ++i)
      ASSERT_NEAR(std::abs(found.modes[i] - expected.modes[i]), 0, 1e-13) << fft::name(grid) << " mode " << i;
    ASSERT_EQ(found.points.size(), expected.points.size());
    for (std::size_t i = 0; i < found.points.size(); ++i)
      ASSERT_NEAR(found.points[i], expected.points[i], 1e-12) << fft::name(grid) << " point " << i;
    EXPECT_NEAR(found.courant, expected.courant, 1e-13);
    EXPECT_NEAR(found.energy_input, expected.energy_input, 1e-13);
  }
}

}  // namespace

TEST(GpuTurbulence, PredictorAndCorrectorWithShiftsAndStochasticForcingAgreeWithTheHostOnCuda) {
  compare("cuda", test::stochastic_turbulence());
}
TEST(GpuTurbulence, FourthOrderWithTwoThirdsAndBandForcingAgreesWithTheHostOnHip) {
  compare("hip", test::band_turbulence());
}

namespace {

Options box_of(std::int64_t n, const char* gpu) {
  Options options;
  options.box.sizes = {n, n, n};
  options.dt = 0.001;
  options.device = device::open(gpu);
  return options;
}

}  // namespace

TEST(GpuTurbulence, ABoxThatDoesNotFitIntoWhatIsFreeOfTheCardIsRefusedBeforeAnythingIsAllocated) {
  FakeGpu* fake = device::find_fake_gpu("cuda");
  if (fake == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const auto card = *fake;
  const auto refused = [&](const Options& options, std::size_t card_bytes, std::size_t used_by_others) -> std::string {
    fake->memory_bytes = card_bytes;
    fake->used_by_others = used_by_others;
    const int before = fake->live;
    std::string text;
    try {
      Solver<double> solver(options, mpi::Comm::self());
    } catch (const mpi::CollectiveError& error) {
      text = error.what();
      EXPECT_EQ(fake->live, before);
    } catch (const std::exception&) {  // there is no such memory here
    }
    fake->memory_bytes = card.memory_bytes;
    fake->used_by_others = card.used_by_others;
    return text.find("are free for each") == text.npos ? "" : text;
  };
  const Options large = box_of(1024, "cuda"), small = box_of(512, "cuda");
  const auto bytes = static_cast<double>(predicted_bytes(large, 1, 8));
  EXPECT_GT(bytes, 150e9);
  EXPECT_LT(bytes, 250e9);
  EXPECT_NEAR(static_cast<double>(predicted_bytes(large, 1, 4)), bytes / 2, 0.01 * bytes);
  for (const std::size_t card_bytes : {80'000'000'000, 141'000'000'000}) {
    const std::string text = refused(large, card_bytes, 0);
    EXPECT_NE(text.find("1024 x 1024 x 1024 points need 1"), text.npos) << text;  // 1xx.x GiB
    EXPECT_EQ(text.find('\n'), text.npos);
  }
  EXPECT_LT(predicted_bytes(small, 1, 8), 30'000'000'000);
  EXPECT_NE(refused(small, 80'000'000'000, 70'000'000'000), "");
  // Sizes that are not powers of two need a work area: in this library it is as large as a variable.
  Options uneven = small;
  uneven.box.sizes = {500, 500, 500};
  const double smaller = std::pow(500.0 / 512, 3);
  EXPECT_GT(static_cast<double>(predicted_bytes(uneven, 1, 8)),
            smaller * static_cast<double>(predicted_bytes(small, 1, 8)) + 251.0 * 500 * 500 * 16 * 0.9);
}

TEST(GpuTurbulence, FreeMemoryIsSharedByTheRanksOfACard) {
  if (device::find_fake_gpu("cuda") == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mpi::Comm comm;
  const auto shared = device::open("cuda", 0), own = device::open("cuda", comm.rank() % 2);
  const std::int64_t free = shared->free_bytes();
  EXPECT_LE(mpi::free_bytes_per_rank(*shared, comm), free / comm.size());
  EXPECT_GT(mpi::free_bytes_per_rank(*shared, comm), free / comm.size() / 2);
  EXPECT_GT(mpi::free_bytes_per_rank(*own, comm), free / ((comm.size() + 1) / 2) / 2);
}

TEST(GpuTurbulence, ThePredictedMemoryIsWhatTheSolverHolds) {
  if (device::find_fake_gpu("hip") == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mpi::Comm comm;
  Options options = box_of(24, "hip");
  options.scalars = {{0.7, {0, 1, 0.5}}};
  options.row = options.column = "pairwise:staged";
  for (const Scheme scheme : {Scheme::rk2, Scheme::rk4}) {
    options.scheme = scheme;
    if (scheme == Scheme::rk4) options.dealiasing = Dealiasing::two_thirds;
    for (const fft::Grid& grid : fft::grids_of(comm.size())) {
      options.grid = grid;
      Solver<double> solver(options, comm);
      solver.step(1);
      double held = 0;
      for (const auto& [name, bytes] : solver.memory_bytes()) held += static_cast<double>(bytes);
      const auto predicted = static_cast<double>(predicted_bytes(options, comm.size(), 8));
      held = comm.max(held);
      EXPECT_LT(held, 1.05 * predicted) << fft::name(grid);
      EXPECT_GT(held, 0.9 * predicted) << fft::name(grid);
    }
  }
}

TEST(GpuTurbulence, WhereMemoryRunsOutInAStepOnOneRankAllRanksStopAndCanGoOn) {
  FakeGpu* fake = device::find_fake_gpu("cuda");
  if (fake == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  const mpi::Comm comm;
  Options options = box_of(8, "cuda");
  options.grid = fft::Grid{1, comm.size()};
  options.row = options.column = "pairwise:staged";
  Solver<double> solver(options, comm);
  if (comm.rank() == comm.size() - 1) fake->fail = "cuMemAlloc_v2";
  EXPECT_THROW(solver.step(1), mpi::CollectiveError);
  solver.step(1);
}
