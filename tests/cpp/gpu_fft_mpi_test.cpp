// Distributed transforms on the GPU backends, with the driver and the FFT libraries made for tests, against the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "choices.hpp"
#include "fft_checks.hpp"
#include "find_fake_gpu.hpp"
#include "weft/fft/plan.hpp"

using namespace weft;
using namespace weft::fft;
using device::Array;

namespace {

class OnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (device::find_fake_gpu(GetParam()) == nullptr)
      GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  }
};

template <class T>
struct Results {
  std::vector<std::vector<std::complex<T>>> spectral;
  std::vector<std::vector<T>> physical;
};

// Fields forward, then a round trip of all of them: a factor for each mode, squares, a sum with the next variable after
// z, a factor after y; then backward.
template <class T>
Results<T> transforms(const std::shared_ptr<device::Device>& where, const Options& options, const mpi::Comm& comm) {
  using Complex = std::complex<T>;
  constexpr int variables = 3;
  Plan<T> plan(options, where, comm);
  device::Stream stream(where);
  const auto modes = static_cast<std::size_t>(plan.decomposition().spectral().size());
  std::vector<Array<T>> physical;
  std::vector<Array<Complex>> spectral, work;
  std::vector<const T*> inputs;
  std::vector<T*> back;
  RoundTrip<T> trip;
  for (int v = 0; v < variables; ++v) {
    physical.emplace_back(where, std::span<const T>(field<T>(v, plan.decomposition().physical())));
    spectral.emplace_back(where, modes);
    inputs.push_back(physical.back().data());
    back.push_back(physical.back().data());
    trip.from.push_back(spectral.back().data());
    trip.to.push_back(spectral.back().data());
  }
  plan.forward(inputs, trip.to, stream);

  trip.backward = trip.forward = variables;
  // The memory of the driver made for tests is host memory; pending work of the stream must be done first.
  const auto each = [](const auto& function) {
    return [function](const auto& block, device::Stream& s) {
      s.synchronize();
      for (std::int64_t z = 0; z < block.box.count[2]; ++z)
        for (std::int64_t y = 0; y < block.box.count[1]; ++y)
          for (std::int64_t x = 0; x < block.box.count[0]; ++x) {
            const auto place =
                static_cast<T>(block.box.first[0] + x + 2 * (block.box.first[1] + y) + 3 * (block.box.first[2] + z)) /
                T(100);
            for (int v = 0; v < variables; ++v) function(block, v, x, y, z, place);
          }
    };
  };
  const auto weigh = [](const auto& b, int v, auto x, auto y, auto z, T place) {
    b.row(v, y, z)[x] *= place + static_cast<T>(v);
  };
  trip.before_y = each(weigh);
  trip.physical = each([](const auto& b, int v, auto x, auto y, auto z, T) { b.row(v, y, z)[x] *= b.row(v, y, z)[x]; });
  trip.after_z = each([](const auto& b, int v, auto x, auto y, auto z, T place) {
    if (v > 0) b.row(v, y, z)[x] += place * b.row(v - 1, y, z)[x];
  });
  trip.after_y = each(weigh);
  for (int f = 0; f < plan.work_fields(trip); ++f) {
    work.emplace_back(where, static_cast<std::size_t>(plan.field_values()));
    trip.work.push_back(work.back().data());
  }
  plan.run(trip, stream);
  plan.backward({trip.to.begin(), trip.to.end()}, back, stream);
  stream.synchronize();
  Results<T> results;
  for (const auto& values : spectral) results.spectral.push_back(values.download());
  for (const auto& values : physical) results.physical.push_back(values.download());
  return results;
}

template <class T>
void expect_near(const std::vector<std::vector<T>>& found, const std::vector<std::vector<T>>& expected,
                 double tolerance) {
  for (std::size_t v = 0; v < expected.size(); ++v) {
    double most = 0;
    for (std::size_t i = 0; i < expected[v].size(); ++i)
      most = std::max(most, static_cast<double>(std::abs(found[v][i] - expected[v][i])));
    EXPECT_LT(most, tolerance) << "variable " << v;
  }
}

}  // namespace

TEST_P(OnGpu, TransformsAndPointwiseWorkGiveTheHostsValues) {
  const mpi::Comm comm;
  for (const Grid& grid : grids_of(comm.size())) {
    for (const int batch : {1, 3}) {
      for (const std::int64_t modes : {0, 4}) {
        SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch) + " modes " + std::to_string(modes));
        const Options options{.sizes = {10, 7, 6}, .modes_x = modes, .grid = grid, .batch = batch};
        const auto expected = transforms<double>(device::open("host"), options, comm);
        const auto found = transforms<double>(device::open(GetParam()), options, comm);
        expect_near(found.spectral, expected.spectral, 1e-13);
        expect_near(found.physical, expected.physical, 1e-12);
      }
    }
  }
  // With an odd number of points every variable must still be aligned for complex numbers.
  const Options options{.sizes = {9, 7, 5}, .grid = {1, comm.size()}, .batch = 2};
  const auto expected = transforms<float>(device::open("host"), options, comm);
  expect_near(transforms<float>(device::open(GetParam()), options, comm).physical, expected.physical, 2e-5);
}

TEST_P(OnGpu, EveryScheduleAndPathGivesTheSameBits) {
  const mpi::Comm comm;
  const auto gpu = device::open(GetParam());
  for (const Grid& grid : grids_of(comm.size())) {
    Options options{.sizes = {6, 5, 4}, .grid = grid, .batch = 2};
    const auto expected = transforms<double>(gpu, options, comm);
    for (const exchange::Choice& choice : choices_in_turn(comm, static_cast<std::size_t>(grid.rows))) {
      SCOPED_TRACE(name(grid) + " " + name(choice));
      options.row = options.column = choice;
      EXPECT_EQ(transforms<double>(gpu, options, comm).physical, expected.physical);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, OnGpu, testing::Values("cuda", "hip"));
