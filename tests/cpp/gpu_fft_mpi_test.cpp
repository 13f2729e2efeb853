// Distributed transforms on the GPU backends, with the driver and the FFT libraries made for tests, against the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string>

#include "choices.hpp"
#include "error_of.hpp"
#include "fft_checks.hpp"
#include "find_fake_gpu.hpp"
#include "weft/fft/plan.hpp"
#include "weft/fft/tuner.hpp"

using namespace weft;
using namespace weft::fft;
using device::Array;

namespace {

class OnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fake = device::find_fake_gpu(GetParam());
    if (fake == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
    library = dlopen(GetParam() == std::string("hip") ? "libhipfft.so" : "libcufft.so.12", RTLD_NOW);
    ASSERT_NE(library, nullptr);
  }
  template <class Function>
  Function* of_library(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library, name));
  }

  FakeGpu* fake = nullptr;
  void* library = nullptr;
};

// Transforms of one rank, which no other takes part in.
class OnOneGpu : public OnGpu {
 protected:
  void SetUp() override {
    if (mpi::Comm().size() > 1) GTEST_SKIP() << "transforms of one rank";
    OnGpu::SetUp();
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

// The larger of two differences; a difference that is no number is larger than all.
template <class T>
double larger(double most, T difference) {
  return std::isfinite(difference) ? std::max(most, static_cast<double>(difference)) : INFINITY;
}

template <class T>
void expect_near(const std::vector<std::vector<T>>& found, const std::vector<std::vector<T>>& expected,
                 double tolerance) {
  for (std::size_t v = 0; v < expected.size(); ++v) {
    double most = 0;
    for (std::size_t i = 0; i < expected[v].size(); ++i) most = larger(most, std::abs(found[v][i] - expected[v][i]));
    EXPECT_LT(most, tolerance) << "variable " << v;
  }
}

// Several fields one after another, as in an array of Python: if a field has an odd number of points, every other one
// is not aligned for complex numbers.
template <class T>
struct Fields {
  using Complex = std::complex<T>;

  Fields(const Plan<T>& plan, int variables)
      : stream(plan.device()),
        points(plan.decomposition().physical().size()),
        modes(plan.decomposition().spectral().size()),
        physical(plan.device(), static_cast<std::size_t>(variables * points)),
        spectral(plan.device(), static_cast<std::size_t>(variables * modes)) {
    for (int v = 0; v < variables; ++v) {
      to_physical.push_back(physical.data() + v * points);
      to_spectral.push_back(spectral.data() + v * modes);
    }
    from_physical.assign(to_physical.begin(), to_physical.end());
    from_spectral.assign(to_spectral.begin(), to_spectral.end());
    std::vector<T> values;
    std::vector<Complex> coefficients;  // of no real field
    for (int v = 0; v < variables; ++v) {
      std::ranges::copy(field<T>(v, plan.decomposition().physical()), std::back_inserter(values));
      const auto real = field<T>(v + 7, plan.decomposition().spectral()),
                 imaginary = field<T>(v + 8, plan.decomposition().spectral());
      for (std::size_t i = 0; i < real.size(); ++i) coefficients.emplace_back(real[i], imaginary[i]);
    }
    physical.upload(values);
    spectral.upload(coefficients);
  }

  device::Stream stream;
  std::int64_t points, modes;
  Array<T> physical;
  Array<Complex> spectral;
  std::vector<T*> to_physical;
  std::vector<const T*> from_physical;
  std::vector<Complex*> to_spectral;
  std::vector<const Complex*> from_spectral;
};

enum class Call { forward, backward, overwriting };

template <class T>
void run(Call call, Plan<T>& plan, Fields<T>& fields) {
  if (call == Call::forward) plan.forward(fields.from_physical, fields.to_spectral, fields.stream);
  if (call == Call::backward) plan.backward(fields.from_spectral, fields.to_physical, fields.stream);
  if (call == Call::overwriting) plan.backward_overwriting(fields.to_spectral, fields.to_physical, fields.stream);
  fields.stream.synchronize();
}

template <class T>
struct Found {
  std::vector<T> physical;
  std::vector<std::complex<T>> spectral;
};
template <class T>
Found<T> after(Call call, const Options& options, const std::shared_ptr<device::Device>& device) {
  Plan<T> plan(options, device, mpi::Comm::self());
  Fields<T> fields(plan, 3);
  run(call, plan, fields);
  return {fields.physical.download(), fields.spectral.download()};
}

template <class T>
void expect_fields_near(const std::vector<T>& found, const std::vector<T>& expected, double tolerance) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    most = larger(most, std::abs(found[i] - expected[i]));
    largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
  }
  EXPECT_LT(most, tolerance * largest);
}

// Transforms of whole fields on one rank, by the 3-D plans of the library, against the panels of the host.
template <class T>
void expect_whole_fields_of_the_host(const std::string& gpu) {
  constexpr double tolerance = sizeof(T) == 8 ? 1e-14 : 4e-6;
  const std::vector<Sizes> all{{12, 10, 9}, {7, 5, 3}, {8, 8, 8},  {1, 4, 5},
                               {16, 3, 6},  {6, 1, 1}, {2, 13, 2}, {9, 1, 5}};
  for (const Sizes& sizes : all) {
    for (const Norm norm : {Norm::forward, Norm::backward, Norm::ortho}) {
      SCOPED_TRACE(std::to_string(sizes.x) + " " + std::to_string(sizes.y) + " " + std::to_string(sizes.z) + " norm " +
                   std::to_string(static_cast<int>(norm)));
      const Options options{.sizes = sizes, .norm = norm}, by_panels{.sizes = sizes, .norm = norm, .ways = Ways{}};
      const auto host = [&](Call call) { return after<T>(call, by_panels, device::open("host")); };
      const auto found = [&](Call call) { return after<T>(call, options, device::open(gpu)); };
      expect_fields_near(found(Call::forward).spectral, host(Call::forward).spectral, tolerance);
      const Found<T> expected = host(Call::backward), kept = found(Call::backward);
      expect_fields_near(kept.physical, expected.physical, tolerance);
      EXPECT_EQ(kept.spectral, expected.spectral) << "backward changed what it was given";
      expect_fields_near(found(Call::overwriting).physical, expected.physical, tolerance);
    }
  }
}

}  // namespace

TEST_P(OnOneGpu, WholeFieldsOfOneRankAreTransformedAsByPanelsOnTheHost) {
  expect_whole_fields_of_the_host<double>(GetParam());
  expect_whole_fields_of_the_host<float>(GetParam());
}

TEST_P(OnOneGpu, OneRankTransformsWholeFieldsBy3dPlansUnlessToldOtherwise) {
  const mpi::Comm self = mpi::Comm::self();
  const auto gpu = device::open(GetParam());
  const Way whole{Method::plan_3d};
  const auto ways = [&](const Options& options) { return Plan<double>(options, gpu, self).ways(); };
  EXPECT_EQ(ways({.sizes = {6, 5, 4}}), (Ways{whole, whole, whole}));
  EXPECT_EQ(ways({.sizes = {6, 5, 4}, .modes_x = 4}), (Ways{whole, whole, whole}));
  EXPECT_EQ(ways({.sizes = {6, 5, 4}, .modes_x = 3}), Ways{}) << "a 3-D plan has no truncated modes";
  EXPECT_EQ(ways({.sizes = {6, 5, 4}, .ways = Ways{.backward = whole}}), Ways{.backward = whole});
  const Options options{.sizes = {6, 5, 4}, .ways = Ways{.backward = {Method::planes}}};
  EXPECT_NE(error_of<mpi::CollectiveError>([&] { ways(options); }).find("planes only on the host"), std::string::npos);

  const Options by_panels{.sizes = {7, 5, 3}, .batch = 3, .ways = Ways{}}, by_fields{.sizes = {7, 5, 3}};
  for (const Call call : {Call::forward, Call::backward, Call::overwriting}) {
    const auto lines = after<double>(call, by_panels, gpu), fields = after<double>(call, by_fields, gpu);
    expect_fields_near(fields.physical, lines.physical, 1e-14);
    if (call != Call::overwriting) expect_fields_near(fields.spectral, lines.spectral, 1e-14);
  }
}

TEST_P(OnOneGpu, AFieldOfOneRankTakesOneTransformAndAScaleOf1TakesNothing) {
  const auto gpu = device::open(GetParam());
  const auto launches = [&](Call call, const Options& options) {
    Plan<double> plan(options, gpu, mpi::Comm::self());
    Fields<double> fields(plan, 1);
    run(call, plan, fields);
    const int before = fake->launches, made = of_library<int()>("fake_gpu_fft_plans")(), live = fake->live;
    run(call, plan, fields);
    EXPECT_EQ(of_library<int()>("fake_gpu_fft_plans")(), made) << "plans are made once";
    EXPECT_EQ(fake->live, live) << "a second call allocates nothing";
    return fake->launches - before;
  };
  const Options unscaled_backward{.sizes = {8, 6, 4}}, unscaled_forward{.sizes = {8, 6, 4}, .norm = Norm::backward};
  EXPECT_EQ(launches(Call::forward, unscaled_forward), 1);
  EXPECT_EQ(launches(Call::forward, unscaled_backward), 2);      // and the scale
  EXPECT_EQ(launches(Call::overwriting, unscaled_backward), 2);  // and the symmetry
  EXPECT_EQ(launches(Call::overwriting, unscaled_forward), 3);
  EXPECT_EQ(launches(Call::backward, unscaled_backward), 3);  // and a copy
  EXPECT_EQ(launches(Call::backward, unscaled_forward), 3);   // which scales
}

TEST_P(OnOneGpu, TransformsOfWholeFieldsShareAWorkAreaThatIsCounted) {
  Plan<double> plan({.sizes = {7, 6, 5}}, device::open(GetParam()), mpi::Comm::self());
  Fields<double> fields(plan, 1);
  EXPECT_EQ(plan.memory_bytes().at("panels"), 0);
  plan.forward(fields.from_physical, fields.to_spectral, fields.stream);
  plan.backward(fields.from_spectral, fields.to_physical, fields.stream);
  constexpr std::int64_t area = 7 * 6 * 5 * 16, tables = 64 * 10 * 8;  // of this library, and of one field
  EXPECT_EQ(plan.memory_bytes().at("panels"), area + tables);
  EXPECT_EQ(plan.memory_bytes().at("exchange buffers"), 4 * 6 * 5 * 16);  // the copy
}

TEST_P(OnOneGpu, A3dPlanThatTheLibraryRefusesIsAnErrorThatNamesTheField) {
  const auto make = [&](const Options& options) {
    return error_of<mpi::CollectiveError>([&] { Plan<double>(options, device::open(GetParam()), mpi::Comm::self()); });
  };
  of_library<void(int)>("fake_gpu_fft_refuse")(3);
  const std::string text = make({.sizes = {6, 5, 4}}), of_panels = make({.sizes = {6, 5, 4}, .ways = Ways{}});
  of_library<void(int)>("fake_gpu_fft_refuse")(0);
  EXPECT_NE(text.find("planning the transform of a field of 6 x 5 x 4 points failed: invalid size"), text.npos) << text;
  EXPECT_EQ(of_panels, "");
}

TEST_P(OnOneGpu, NoRaceChoosesTheBatchOfWholeFields) {
  const auto tune = [&](const mpi::Comm& comm, std::int64_t modes_x) {
    return tuned_plan<double>({.options = {.sizes = {6, 5, 4}, .modes_x = modes_x}, .variables = 2, .seconds = 0.1},
                              device::open(GetParam()), comm)
        .tuning;
  };
  const PlanTuning whole = tune(mpi::Comm::self(), 0);
  EXPECT_EQ(whole.chosen.batch, 1);
  EXPECT_TRUE(whole.timings.empty());
  EXPECT_FALSE(tune(mpi::Comm::self(), 3).timings.empty());
}

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

const auto name_of = [](const auto& parameter) { return std::string(parameter.param); };
INSTANTIATE_TEST_SUITE_P(Gpus, OnGpu, testing::Values("cuda", "hip"), name_of);
INSTANTIATE_TEST_SUITE_P(Gpus, OnOneGpu, testing::Values("cuda", "hip"), name_of);
