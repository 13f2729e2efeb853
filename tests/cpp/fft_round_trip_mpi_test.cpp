// Pointwise work between transforms, as in a time step: two fields backward, one of them shifted into a third on the
// way, four products, combined into three after z and into two after y.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "choices.hpp"
#include "fft_checks.hpp"
#include "weft/fft/plan.hpp"

using namespace weft;
using namespace weft::fft;

namespace {

using Complex = std::complex<double>;
using Spectral = std::vector<std::vector<Complex>>;

// A factor that differs from mode to mode.
double weight(const Block<Complex>& block, std::int64_t x, std::int64_t y, std::int64_t z) {
  return 1 + 0.1 * static_cast<double>(block.box.first[0] + x) + 0.01 * static_cast<double>(block.box.first[1] + y) -
         0.05 * static_cast<double>(block.box.first[2] + z);
}

template <class V, class F>
void for_each(const Block<V>& block, F&& function) {
  for (std::int64_t z = 0; z < block.box.count[2]; ++z)
    for (std::int64_t y = 0; y < block.box.count[1]; ++y)
      for (std::int64_t x = 0; x < block.box.count[0]; ++x) function(x, y, z);
}

void expand(const Block<Complex>& b, device::Stream&) {
  for_each(b, [&](auto x, auto y, auto z) { b.row(2, y, z)[x] = b.row(0, y, z)[x] * weight(b, x, y, z); });
}
void products(const Block<double>& b, device::Stream&) {
  for_each(b, [&](auto x, auto y, auto z) {
    const double u = b.row(0, y, z)[x], v = b.row(1, y, z)[x], w = b.row(2, y, z)[x];
    const double at = 0.1 * static_cast<double>(b.box.first[0] + x) - 0.2 * static_cast<double>(b.box.first[1] + y) +
                      0.3 * static_cast<double>(b.box.first[2] + z);
    b.row(0, y, z)[x] = u * u;
    b.row(1, y, z)[x] = u * v;
    b.row(2, y, z)[x] = v * w + at;
    b.row(3, y, z)[x] = w * w;
  });
}
void combine_z(const Block<Complex>& b, device::Stream&) {
  for_each(b, [&](auto x, auto y, auto z) { b.row(0, y, z)[x] += weight(b, x, y, z) * b.row(3, y, z)[x]; });
}
void combine_y(const Block<Complex>& b, device::Stream&) {
  for_each(b, [&](auto x, auto y, auto z) { b.row(1, y, z)[x] -= weight(b, x, y, z) * b.row(2, y, z)[x]; });
}

RoundTrip<double> nonlinear_terms() {
  RoundTrip<double> trip;
  trip.before_y = expand;
  trip.backward = 3;
  trip.physical = products;
  trip.forward = 4;
  trip.after_z = combine_z;
  trip.spectral = 3;
  trip.after_y = combine_y;
  return trip;
}

Spectral run(const Options& options, const mpi::Comm& comm, RoundTrip<double> trip) {
  Plan<double> plan(options, device::open("host"), comm);
  device::Stream stream(plan.device());
  std::vector<std::vector<double>> u;
  Spectral from(2), to, work;
  const auto local = static_cast<std::size_t>(plan.decomposition().spectral().size());
  for (int v = 0; v < 2; ++v) {
    u.push_back(field<double>(v, plan.decomposition().physical()));
    from[static_cast<std::size_t>(v)].resize(local);
    plan.forward({u.back().data()}, {from[static_cast<std::size_t>(v)].data()}, stream);
    trip.from.push_back(from[static_cast<std::size_t>(v)].data());
    to.emplace_back(local);
  }
  for (auto& values : to) trip.to.push_back(values.data());
  for (int f = 0; f < plan.work_fields(trip); ++f) work.emplace_back(static_cast<std::size_t>(plan.field_values()));
  for (auto& values : work) trip.work.push_back(values.data());
  if (trip.own_work) plan.own_work(4, options.column);
  plan.run(trip, stream);
  const Spectral first = to;
  plan.run(trip, stream);
  EXPECT_EQ(first, to) << "a second run gives other values";
  return to;
}

// Computed by one rank, on whole fields.
Spectral by_one_rank(const Options& options) {
  Options alone = options;
  alone.grid = {1, 1};
  alone.batch = 4;
  return run(alone, mpi::Comm::self(), nonlinear_terms());
}

// A rank's part of fields that are stored as a whole.
Spectral share_of(const Spectral& whole_fields, const Sizes& sizes, const Box& box) {
  Spectral result;
  for (const auto& values : whole_fields) {
    auto& mine = result.emplace_back();
    for_each(Block<Complex>{.box = box}, [&](auto x, auto y, auto z) {
      mine.push_back(values[static_cast<std::size_t>(
          ((box.first[2] + z) * sizes.y + box.first[1] + y) * (sizes.x / 2 + 1) + box.first[0] + x)]);
    });
  }
  return result;
}

void expect_near(const Spectral& found, const Spectral& expected, double tolerance) {
  for (std::size_t v = 0; v < expected.size(); ++v) {
    double most = 0;
    for (std::size_t i = 0; i < expected[v].size(); ++i) most = std::max(most, std::abs(found[v][i] - expected[v][i]));
    EXPECT_LT(most, tolerance) << "variable " << v;
  }
}

}  // namespace

TEST(RoundTrip, PointwiseFunctionsSeeEveryModeAndPointOnceOnEveryGridAndBatch) {
  const mpi::Comm comm;
  const Sizes sizes{12, 9, 10};
  const Spectral expected = by_one_rank({.sizes = sizes});
  for (const Grid& grid : grids_of(comm.size())) {
    for (const int batch : {1, 2, 3, 4}) {
      SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch));
      const Options options{.sizes = sizes, .grid = grid, .batch = batch};
      const Spectral found = run(options, comm, nonlinear_terms());
      expect_near(found, share_of(expected, sizes, Decomposition(sizes, 0, grid, comm.rank()).spectral()), 1e-13);
    }
  }
}

// Omits each optional part of a round trip, and compares with functions that do nothing.
TEST(RoundTrip, PartsThatAreLeftOutChangeNothing) {
  const mpi::Comm comm;
  const Sizes sizes{8, 6, 10};
  const auto nothing = [](const auto&, device::Stream&) {};
  for (const Grid& grid : grids_of(comm.size())) {
    for (const int batch : comm.size() <= 2 ? std::vector{1, 2} : std::vector{1}) {
      const Options options{.sizes = sizes, .grid = grid, .batch = batch};
      RoundTrip<double> trip;
      trip.backward = trip.forward = 2;
      const Spectral expected = run(options, comm, trip);
      for (int part = 0; part < 6; ++part) {
        SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch) + " part " + std::to_string(part));
        RoundTrip<double> with = trip;
        if (part == 0) with.before_y = nothing;
        if (part == 1) with.before_y = nothing, with.before_y_each = true;
        if (part == 2) with.physical = nothing;
        if (part == 3) with.after_z = nothing;
        if (part == 4) with.after_y = nothing;
        if (part == 5) with.after_y = nothing, with.after_z = nothing;
        EXPECT_EQ(run(options, comm, with), expected);
      }
    }
  }
}

TEST(RoundTrip, BeforeYOfEachVariableIsToldWhichItHas) {
  const mpi::Comm comm;
  const Sizes sizes{8, 6, 10};
  for (const int batch : {1, 2}) {
    const Options options{.sizes = sizes, .grid = {1, comm.size()}, .batch = batch};
    RoundTrip<double> trip;
    trip.backward = trip.forward = 2;
    Spectral expected = run(options, comm, trip);
    for (std::size_t v = 0; v < 2; ++v)
      for (Complex& value : expected[v]) value *= static_cast<double>(v + 2);
    trip.before_y_each = true;
    trip.before_y = [](const Block<Complex>& b, device::Stream&) {
      for (int v = 0; v < b.variables; ++v)
        for_each(b, [&](auto x, auto y, auto z) { b.row(v, y, z)[x] *= b.first_variable + v + 2; });
    };
    expect_near(run(options, comm, trip), expected, 1e-14);
  }
}

TEST(RoundTrip, EveryScheduleAndPathGivesTheSameBits) {
  const mpi::Comm comm;
  const Sizes sizes{12, 9, 10};
  for (const Grid& grid : grids_of(comm.size())) {
    for (const int batch : comm.size() <= 2 ? std::vector{1, 4} : std::vector{grid.rows % 2 == 0 ? 4 : 1}) {
      const Options options{.sizes = sizes, .grid = grid, .batch = batch};
      const Spectral expected = run(options, comm, nonlinear_terms());
      for (const exchange::Choice& choice : choices_in_turn(comm, static_cast<std::size_t>(grid.rows + batch))) {
        SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch) + " " + name(choice));
        Options other = options;
        other.row = other.column = choice;
        EXPECT_EQ(run(other, comm, nonlinear_terms()), expected);
        if (grid.rows == 1 || grid.columns == 1) continue;
        other.row = exchange::Choice{};
        EXPECT_EQ(run(other, comm, nonlinear_terms()), expected) << "the row exchange another way than the column's";
      }
    }
  }
}

// On several ranks of a node, these fields are shared unless the exchange excludes it.
TEST(RoundTrip, WorkFieldsOfThePlanGiveTheSameBits) {
  const mpi::Comm comm;
  const Sizes sizes{12, 9, 10};
  for (const Grid& grid : grids_of(comm.size())) {
    for (const int batch : {1, 4}) {
      Options options{.sizes = sizes, .grid = grid, .batch = batch};
      const Spectral expected = run(options, comm, nonlinear_terms());
      RoundTrip<double> trip = nonlinear_terms();
      trip.own_work = true;
      for (const char* const column : {"auto", "pairwise:ipc", "pairwise:direct"}) {
        SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch) + " " + column);
        options.column = column;
        EXPECT_EQ(run(options, comm, trip), expected);
      }
    }
  }
}

TEST(RoundTrip, WorkFieldsOfThePlanAreZeroAndMayBeInputsAndOutputs) {
  const mpi::Comm comm;
  Plan<double> plan({.sizes = {12, 9, 10}, .grid = {1, comm.size()}}, device::open("host"), comm);
  device::Stream stream(plan.device());
  const std::vector<Complex*>& work = plan.own_work(3, "auto");
  const std::int64_t size = plan.decomposition().spectral().size();
  for (Complex* const field : work)
    EXPECT_TRUE(std::all_of(field, field + plan.field_values(), [](const Complex& value) { return value == 0.0; }));
  Spectral before;
  for (int v = 0; v < 2; ++v) {
    const auto u = field<double>(v, plan.decomposition().physical());
    plan.forward({u.data()}, {work[static_cast<std::size_t>(v)]}, stream);
    before.emplace_back(work[static_cast<std::size_t>(v)], work[static_cast<std::size_t>(v)] + size);
  }
  RoundTrip<double> trip;
  trip.from = {work[0], work[1]};
  trip.to = {work[0], work[1]};
  trip.backward = trip.forward = 2;
  trip.own_work = true;
  for (int times = 0; times < 3; ++times) plan.run(trip, stream);
  expect_near({{work[0], work[0] + size}, {work[1], work[1] + size}}, before, 1e-14);
  trip.from = {work[0], work[1], work[2], work[0]};
  trip.to = {work[0], work[1], work[2], work[0]};
  trip.backward = trip.forward = 4;
  EXPECT_THROW(plan.run(trip, stream), std::invalid_argument);
}

TEST(RoundTrip, OutputsMayBeTheInputs) {
  const mpi::Comm comm;
  for (const int batch : {1, 3}) {
    Plan<double> plan({.sizes = {12, 9, 10}, .grid = {1, comm.size()}, .batch = batch}, device::open("host"), comm);
    device::Stream stream(plan.device());
    Spectral fields(2), work(3);
    RoundTrip<double> trip;
    for (auto& values : fields) values.resize(static_cast<std::size_t>(plan.decomposition().spectral().size()));
    for (auto& values : work) values.resize(static_cast<std::size_t>(plan.field_values()));
    for (std::size_t v = 0; v < 2; ++v) {
      const auto u = field<double>(static_cast<int>(v), plan.decomposition().physical());
      plan.forward({u.data()}, {fields[v].data()}, stream);
      trip.from.push_back(fields[v].data());
      trip.to.push_back(fields[v].data());
    }
    for (auto& values : work) trip.work.push_back(values.data());
    trip.backward = trip.forward = 2;
    const Spectral before = fields;
    plan.run(trip, stream);
    expect_near(fields, before, 1e-14);
  }
}

TEST(RoundTrip, AFunctionThatRunsItsOwnPlanIsToldSo) {
  Plan<double> plan({.sizes = {4, 4, 4}}, device::open("host"), mpi::Comm::self());
  device::Stream stream(plan.device());
  std::vector<double> u(64, 1.0);
  std::vector<Complex> to(48);
  RoundTrip<double> trip;
  trip.physical_from = {u.data()};
  trip.forward = 1;
  trip.to = {to.data()};
  trip.physical = [&](const Block<double>&, device::Stream& s) { plan.forward({u.data()}, {to.data()}, s); };
  EXPECT_THROW(plan.run(trip, stream), std::logic_error);
  trip.physical = nullptr;
  plan.run(trip, stream);  // usable after the error
  EXPECT_NEAR(to[0].real(), 1.0, 1e-15);
}

TEST(RoundTrip, NumbersOfVariablesThatDoNotFitAreSaid) {
  Plan<double> plan({.sizes = {4, 4, 4}}, device::open("host"), mpi::Comm::self());
  device::Stream stream(plan.device());
  std::vector<double> u(64, 1.0);
  std::vector<Complex> to(48);
  RoundTrip<double> trip;
  trip.physical_from = {u.data()};
  trip.forward = 2;
  trip.to = {to.data(), to.data()};
  EXPECT_THROW(plan.run(trip, stream), std::invalid_argument);  // one field, two transforms
  trip.forward = 1;
  EXPECT_THROW(plan.run(trip, stream), std::invalid_argument);  // one transform, two places
  trip.to.pop_back();
  trip.spectral = 2;
  EXPECT_THROW(plan.run(trip, stream), std::invalid_argument);  // two in y of one in z
  EXPECT_THROW(plan.forward({u.data(), u.data()}, {to.data()}, stream), std::invalid_argument);
  trip.physical_from = {u.data(), u.data()};
  trip.forward = trip.spectral = 2;
  trip.to = {to.data(), to.data()};
  EXPECT_EQ(plan.work_fields(trip), 2);
  EXPECT_THROW(plan.run(trip, stream), std::invalid_argument);  // without work fields
}

namespace {

// Sets the number of threads during its lifetime.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

constexpr Sizes enough_for_threads{40, 36, 30};

}  // namespace

TEST(RoundTripOnThreads, GivesTheSameBitsAsOneThread) {
  const mpi::Comm comm;
  const auto check = [&](const Options& options, RoundTrip<double> trip) {
    trip.concurrent = true;
    const Spectral expected = run(options, comm, trip);
    const Threads some(3);
    EXPECT_EQ(run(options, comm, trip), expected);
  };
  std::vector<std::int64_t> kept(30);
  for (std::size_t z = 0; z < kept.size(); ++z) kept[z] = z < 10 || z > 20 ? 17 : 0;
  const auto only_kept = [&](const Block<Complex>& b, device::Stream&) {
    for (int v = 0; v < 2; ++v)
      for_each(b, [&](auto x, auto y, auto z) {
        if (b.box.first[0] + x >= kept[static_cast<std::size_t>(b.box.first[2] + z)]) b.row(v, y, z)[x] = 0;
      });
  };
  RoundTrip<double> of_some;
  of_some.backward = of_some.forward = 2;
  of_some.kept = kept;
  of_some.before_y = of_some.after_y = only_kept;
  for (const Grid& grid : grids_of(comm.size())) {
    for (const int batch : comm.size() <= 2 ? std::vector{1, 4} : std::vector{1}) {
      const Options options{.sizes = enough_for_threads, .grid = grid, .batch = batch};
      SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch));
      check(options, nonlinear_terms());
      check(options, of_some);
    }
  }
}

TEST(RoundTripOnThreads, FunctionsThatAreNotConcurrentAreCalledByOneThread) {
  const Threads some(3);
  for (const bool concurrent : {false, true}) {
    std::atomic<int> together = 0, most = 0;
    const auto count = [&](const auto&, device::Stream&) {
      if (const int now = ++together; now > most) most = now;
      if (omp_in_parallel() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --together;
    };
    RoundTrip<double> trip;
    trip.backward = trip.forward = 2;
    trip.before_y = trip.after_y = trip.after_z = count;
    trip.physical = count;
    trip.concurrent = concurrent;
    run({.sizes = enough_for_threads, .grid = {1, 1}, .batch = 2}, mpi::Comm::self(), trip);
    EXPECT_EQ(most > 1, concurrent);
  }
}

TEST(RoundTripOnThreads, AnErrorOnOneThreadComesToTheCaller) {
  const Threads some(3);
  RoundTrip<double> trip;
  trip.backward = trip.forward = 2;
  trip.concurrent = true;
  trip.physical = [](const Block<double>& block, device::Stream&) {
    if (block.box.first[1] == 20) throw std::runtime_error("row 20");
  };
  EXPECT_THROW(run({.sizes = enough_for_threads, .grid = {1, 1}, .batch = 2}, mpi::Comm::self(), trip),
               std::runtime_error);
}

TEST(RoundTripOnThreads, WholeFieldsAreTransformedAsByOneThread) {
  const mpi::Comm comm;
  const Way planes{Method::planes, 0};
  for (const Ways& ways : {Ways{}, Ways{planes, planes, planes}}) {
    const Options options{.sizes = enough_for_threads, .grid = {1, comm.size()}, .ways = ways};
    Spectral modes[2];
    std::vector<double> back[2];
    for (const int threads : {1, 3}) {
      const Threads some(threads);
      Plan<double> plan(options, device::open("host"), comm);
      device::Stream stream(plan.device());
      const auto u = field<double>(0, plan.decomposition().physical());
      Spectral& found = modes[threads / 3];
      found.assign(1, std::vector<Complex>(static_cast<std::size_t>(plan.decomposition().spectral().size())));
      back[threads / 3].resize(u.size());
      plan.forward({u.data()}, {found[0].data()}, stream);
      plan.backward({found[0].data()}, {back[threads / 3].data()}, stream);
      for (std::size_t i = 0; i < u.size(); ++i) ASSERT_NEAR(back[threads / 3][i], u[i], 1e-13);
    }
    expect_near(modes[1], modes[0], 1e-15);
  }
}
