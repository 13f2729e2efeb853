#include <gtest/gtest.h>

#include <algorithm>

#include "choices.hpp"
#include "fft_checks.hpp"
#include "weft/fft/library.hpp"
#include "weft/fft/plan.hpp"

using namespace weft;
using namespace weft::fft;

namespace {

// Powers of two, products of small primes, primes, and fewer points than ranks; fewer cases if ranks share cores.
std::vector<Sizes> all_sizes(const mpi::Comm& comm) {
  std::vector<Sizes> sizes{{12, 10, 9}, {7, 5, 11}, {1, 4, 5}, {8, 8, 8}, {16, 3, 6}, {6, 1, 1}, {2, 13, 2}};
  if (comm.size() > 4) sizes.resize(3);
  return sizes;
}

template <class T>
constexpr double tolerance = sizeof(T) == 8 ? 1e-14 : 2e-6;

template <class T>
struct Fields {
  Fields(const Plan<T>& plan, int variables) : stream(plan.device()) {
    for (int v = 0; v < variables; ++v) {
      physical.push_back(field<T>(v, plan.decomposition().physical()));
      spectral.emplace_back(static_cast<std::size_t>(plan.decomposition().spectral().size()));
      back.emplace_back(physical.back().size());
      const std::complex<T>* from = spectral.back().data();
      inputs.push_back(physical.back().data());
      outputs.push_back(spectral.back().data());
      from_spectral.push_back(from);
      to_physical.push_back(back.back().data());
    }
  }
  void forward(Plan<T>& plan) { plan.forward(inputs, outputs, stream); }
  void backward(Plan<T>& plan) { plan.backward(from_spectral, to_physical, stream); }

  device::Stream stream;
  std::vector<std::vector<T>> physical, back;
  std::vector<std::vector<std::complex<T>>> spectral;
  std::vector<const T*> inputs;
  std::vector<std::complex<T>*> outputs;
  std::vector<const std::complex<T>*> from_spectral;
  std::vector<T*> to_physical;
};

template <class T>
double error_of(const Plan<T>& plan, const Fields<T>& fields, int variable) {
  const Sizes sizes = plan.decomposition().sizes();
  const auto expected = coefficients(variable, sizes);
  const Box box = plan.decomposition().spectral();
  double error = 0;
  std::size_t i = 0;
  for (std::int64_t z = 0; z < box.count[2]; ++z)
    for (std::int64_t y = 0; y < box.count[1]; ++y)
      for (std::int64_t x = 0; x < box.count[0]; ++x) {
        const auto at = ((box.first[2] + z) * sizes.y + y) * (sizes.x / 2 + 1) + box.first[0] + x;
        const auto found = std::complex<double>(fields.spectral[static_cast<std::size_t>(variable)][i++]);
        error = std::max(error, std::abs(found - expected[static_cast<std::size_t>(at)]));
      }
  return error;
}

template <class T>
double largest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
  return most;
}

// Checks forward transforms against the definition, and both backward transforms: the one that preserves its input, and
// the one that need not.
template <class T>
void expect_right(Plan<T>& plan) {
  Fields<T> fields(plan, 3);
  fields.forward(plan);
  for (int v = 0; v < 3; ++v) EXPECT_LT(error_of(plan, fields, v), tolerance<T>);
  const auto kept = fields.spectral;
  fields.backward(plan);
  EXPECT_EQ(fields.spectral, kept) << "backward changed what it was given";
  for (std::size_t v = 0; v < 3; ++v)
    EXPECT_LT(largest_difference(fields.physical[v], fields.back[v]), 20 * tolerance<T>);
  for (auto& values : fields.back) std::fill(values.begin(), values.end(), T(7));
  plan.backward_overwriting(fields.outputs, fields.to_physical, fields.stream);
  for (std::size_t v = 0; v < 3; ++v)
    EXPECT_LT(largest_difference(fields.physical[v], fields.back[v]), 20 * tolerance<T>);
}

template <class T>
class FourierTransforms : public testing::Test {};
using Reals = testing::Types<double, float>;
TYPED_TEST_SUITE(FourierTransforms, Reals);

}  // namespace

TYPED_TEST(FourierTransforms, ForwardGivesTheSumsOfEquation2AndBackwardUndoesIt) {
  using T = TypeParam;
  const mpi::Comm comm;
  for (const Grid& grid : grids_of(comm.size())) {
    int batch = grid.rows;
    for (const Sizes& sizes : all_sizes(comm)) {
      batch = batch % 4 + 1;  // each size with a different batch, varying from grid to grid
      SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch) + " sizes " + std::to_string(sizes.x) + " " +
                   std::to_string(sizes.y) + " " + std::to_string(sizes.z));
      for (int library = 0; library < host_libraries(); ++library) {
        Plan<T> plan({.sizes = sizes, .grid = grid, .batch = batch, .library = library}, device::open("host"), comm);
        expect_right(plan);
      }
    }
  }
}

TYPED_TEST(FourierTransforms, EveryWayOfOneRankGivesTheSumsAndKeepsWhatMustBeKept) {
  using T = TypeParam;
  const mpi::Comm comm(MPI_COMM_SELF);
  for (const Sizes& sizes : all_sizes(comm)) {
    for (const Norm norm : {Norm::forward, Norm::ortho}) {
      for (int library = 0; library < host_libraries(); ++library) {
        for (const Method method : {Method::panels, Method::planes, Method::plan_3d}) {
          const Way way{method, library, method == Method::planes ? (library + 1) % host_libraries() : library};
          SCOPED_TRACE(name(way) + " sizes " + std::to_string(sizes.x) + " " + std::to_string(sizes.y) + " " +
                       std::to_string(sizes.z));
          Options options{.sizes = sizes, .norm = norm, .library = library, .ways = Ways{way, way, way}};
          if (method == Method::plan_3d && !host_library(library).backward_3d) {
            for (Way Ways::* direction : {&Ways::backward, &Ways::overwriting}) {
              EXPECT_THROW(Plan<T>(options, device::open("host"), comm), mpi::CollectiveError);
              (*options.ways).*direction = {Method::planes, library};
            }
          }
          Plan<T> plan(options, device::open("host"), comm);
          EXPECT_TRUE(plan.has_ways());
          EXPECT_EQ(plan.ways(), *options.ways);
          if (norm == Norm::forward) {
            expect_right(plan);
          } else {
            Fields<T> fields(plan, 1);
            fields.forward(plan);
            fields.backward(plan);
            EXPECT_LT(largest_difference(fields.physical[0], fields.back[0]), 20 * tolerance<T>);
          }
        }
      }
    }
  }
}

TYPED_TEST(FourierTransforms, PlanesInMemoryThatTheRanksOfANodeShareGiveTheSumsInAnyOrderOfCalls) {
  using T = TypeParam;
  const mpi::Comm comm;
  if (comm.size() == 1) GTEST_SKIP() << "one rank shares nothing";
  for (const Sizes& sizes : all_sizes(comm)) {
    for (int library = 0; library < host_libraries(); ++library) {
      SCOPED_TRACE(host_library(library).name + " sizes " + std::to_string(sizes.x) + " " + std::to_string(sizes.y) +
                   " " + std::to_string(sizes.z));
      const Way way{Method::planes, library, (library + 1) % host_libraries()};
      Plan<T> plan({.sizes = sizes, .grid = {1, comm.size()}, .column = "pairwise:ipc", .ways = Ways{way, way, way}},
                   device::open("host"), comm);
      expect_right(plan);  // three fields forward, backward, and backward again
      const Sizes& n = sizes;
      EXPECT_LE(plan.memory_bytes().at("exchange buffers"),
                ((n.z + comm.size() - 1) / comm.size()) *
                    (n.y * (n.x / 2 + 1) * static_cast<std::int64_t>(sizeof(std::complex<T>)) + 128))
          << "more than this rank's part of one field";
      Fields<T> fields(plan, 1);
      for (int turn = 0; turn < 3; ++turn) {
        fields.forward(plan);
        EXPECT_LT(error_of(plan, fields, 0), tolerance<T>);
        fields.backward(plan);
        EXPECT_LT(largest_difference(fields.physical[0], fields.back[0]), 20 * tolerance<T>);
      }
    }
  }
}

TYPED_TEST(FourierTransforms, EveryWayMakesTheSameOfCoefficientsThatAreNoRealFields) {
  using T = TypeParam;
  const mpi::Comm comm(MPI_COMM_SELF);
  for (const Sizes& sizes : all_sizes(comm)) {
    std::vector<T> first;
    for (int library = 0; library < host_libraries(); ++library) {
      for (const Method method : {Method::panels, Method::planes, Method::plan_3d}) {
        if (method == Method::plan_3d && !host_library(library).backward_3d) continue;
        const Way way{method, library};
        SCOPED_TRACE(name(way) + " sizes " + std::to_string(sizes.x) + " " + std::to_string(sizes.y) + " " +
                     std::to_string(sizes.z));
        Plan<T> plan({.sizes = sizes, .library = library, .ways = Ways{.backward = way, .overwriting = way}},
                     device::open("host"), comm);
        Fields<T> fields(plan, 1);
        const auto real = field<T>(0, plan.decomposition().spectral()),
                   imaginary = field<T>(1, plan.decomposition().spectral());
        for (std::size_t i = 0; i < real.size(); ++i) fields.spectral[0][i] = {real[i], imaginary[i]};
        fields.backward(plan);
        if (first.empty()) first = fields.back[0];
        const double most = 20 * tolerance<T> * std::sqrt(static_cast<double>(sizes.points()));
        EXPECT_LT(largest_difference(fields.back[0], first), most);
        plan.backward_overwriting(fields.outputs, fields.to_physical, fields.stream);
        EXPECT_LT(largest_difference(fields.back[0], first), most) << "overwriting";
      }
    }
  }
}

TYPED_TEST(FourierTransforms, ModesInXThatAreNotKeptAreDroppedForwardAndZeroBackward) {
  using T = TypeParam;
  const mpi::Comm comm;
  const Sizes sizes{12, 10, 9};
  for (const Grid& grid : grids_of(comm.size())) {
    for (const std::int64_t modes : {1, 4, 6}) {
      SCOPED_TRACE(name(grid) + " modes " + std::to_string(modes));
      Plan<T> plan({.sizes = sizes, .modes_x = modes, .grid = grid}, device::open("host"), comm);
      Fields<T> fields(plan, 2);
      fields.forward(plan);
      EXPECT_LT(error_of(plan, fields, 1), tolerance<T>);
      fields.backward(plan);
      fields.physical = fields.back;
      for (std::size_t v = 0; v < 2; ++v) fields.inputs[v] = fields.physical[v].data();
      fields.forward(plan);
      EXPECT_LT(error_of(plan, fields, 1), 2 * tolerance<T>) << "what is truncated comes back";
      Plan<T> all({.sizes = sizes, .grid = grid}, device::open("host"), comm);
      Fields<T> whole(all, 1);
      whole.physical = {fields.back[0]};
      whole.inputs = {whole.physical[0].data()};
      whole.forward(all);
      const Box box = all.decomposition().spectral();
      for (std::size_t i = 0; i < whole.spectral[0].size(); ++i) {
        const std::int64_t kx = box.first[0] + static_cast<std::int64_t>(i) % box.count[0];
        if (kx >= modes) {
          EXPECT_LT(std::abs(whole.spectral[0][i]), tolerance<T>) << "kx " << kx;
        }
      }
    }
  }
}

TEST(FourierTransforms, EveryNormOfNumpyIsUndone) {
  const mpi::Comm comm;
  for (const Norm norm : {Norm::forward, Norm::backward, Norm::ortho}) {
    Plan<double> plan({.sizes = {6, 4, 10}, .grid = {1, comm.size()}, .norm = norm}, device::open("host"), comm);
    Fields<double> fields(plan, 1);
    fields.forward(plan);
    const double factor = norm == Norm::forward ? 1 : norm == Norm::backward ? 240 : std::sqrt(240.0);
    for (auto& value : fields.spectral[0]) value /= factor;
    EXPECT_LT(error_of(plan, fields, 0), 1e-14);
    for (auto& value : fields.spectral[0]) value *= factor;
    fields.backward(plan);
    EXPECT_LT(largest_difference(fields.physical[0], fields.back[0]), 1e-13);
  }
}

// GESTS, section 4.3: 4 N^3 / (P Pc) bytes per variable in single precision, N/2 modes in x; its cases 16 and 18.
TEST(Decompositions, MessagesOfTheColumnExchangeAreAsLongAsThePaperSays) {
  const auto message_bytes = [](std::int64_t n, const Grid& grid) {
    const Decomposition mine({n, n, n}, n / 2, grid, 0);
    const int other = grid.size() - grid.rows;  // the last of the same column
    return intersection(mine.spectral(), mine.middle(other)).size() * 8;
  };
  EXPECT_EQ(message_bytes(32768, {4, 8192}), 1 << 19);
  EXPECT_EQ(message_bytes(32768, {1, 32768}), 1 << 17);
  for (const std::int64_t n : {2048, 4096}) {
    for (const Grid& grid : grids_of(64))
      EXPECT_EQ(message_bytes(n, grid), 4 * n * n * n / (std::int64_t{64} * grid.columns)) << name(grid);
  }
}

TEST(Decompositions, EveryPointAndModeHasOneOwnerOnAnyGrid) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12}) {
    for (const Grid& grid : grids_of(ranks)) {
      const Sizes sizes{7, 5, 3};
      std::vector<int> points(105), middle(60), spectral(60);
      const auto count = [](const Box& box, std::int64_t nx, std::int64_t ny, std::vector<int>& owners) {
        for (std::int64_t z = box.first[2]; z < box.first[2] + box.count[2]; ++z)
          for (std::int64_t y = box.first[1]; y < box.first[1] + box.count[1]; ++y)
            for (std::int64_t x = box.first[0]; x < box.first[0] + box.count[0]; ++x)
              ++owners[static_cast<std::size_t>((z * ny + y) * nx + x)];
      };
      for (int rank = 0; rank < ranks; ++rank) {
        const Decomposition d(sizes, 0, grid, rank);
        count(d.physical(), 7, 5, points);
        count(d.middle(), 4, 5, middle);
        count(d.spectral(), 4, 5, spectral);
      }
      EXPECT_EQ(points, std::vector<int>(105, 1)) << name(grid);
      EXPECT_EQ(middle, std::vector<int>(60, 1)) << name(grid);
      EXPECT_EQ(spectral, std::vector<int>(60, 1)) << name(grid);
    }
  }
}

TEST(Decompositions, AGridIsReadAndWritten) {
  EXPECT_EQ(name(parse_grid("2x16")), "2x16");
  for (const char* text : {"", "2", "x", "2x", "x2", "0x4", "-1x4", "2x4x", "2 x 4", "99999999999x1"})
    EXPECT_THROW(parse_grid(text), std::invalid_argument) << text;
}

// GESTS, Eq. 9: 2 Q variables for both exchanges together.
TEST(FourierTransforms, BothExchangesTogetherHoldTwoBuffersOfABatch) {
  const mpi::Comm comm;
  for (const Grid& grid : grids_of(comm.size())) {
    for (const int batch : {1, 3}) {
      Plan<float> plan({.sizes = {16, 12, 24}, .grid = grid, .batch = batch, .row = "pairwise", .column = "pairwise"},
                       device::open("host"), comm);
      Fields<float> fields(plan, 4);
      fields.forward(plan);
      fields.backward(plan);
      const std::int64_t field = plan.field_values() * static_cast<std::int64_t>(sizeof(std::complex<float>));
      EXPECT_EQ(plan.memory_bytes().at("exchange buffers"), (comm.size() == 1 ? 1 : 2) * batch * field) << name(grid);
    }
  }
}

TEST(FourierTransforms, BricksReadWhereTheyLieTakeNoMoreMemoryThanBricksThatAreSent) {
  const mpi::Comm comm;
  if (comm.size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  Plan<float> plan({.sizes = {16, 12, 24}, .grid = {1, comm.size()}, .batch = 3, .column = "pairwise:ipc"},
                   device::open("host"), comm);
  Fields<float> fields(plan, 4);
  fields.forward(plan);
  fields.backward(plan);
  const std::int64_t slot = 3 * plan.field_values() * static_cast<std::int64_t>(sizeof(std::complex<float>));
  EXPECT_EQ(plan.memory_bytes().at("exchange buffers"), 2 * ((slot + 255) / 256 * 256));
}

TEST(FourierTransforms, WhatCannotBePlannedIsSaidOnAllRanks) {
  const mpi::Comm comm;
  const auto host = device::open("host");
  const Grid grid{1, comm.size()};
  const auto message = [&](const Options& options) -> std::string {
    try {
      const Plan<double> plan(options, host, comm);
    } catch (const mpi::CollectiveError& error) {
      return error.what();
    }
    return "planned";
  };
  const auto says = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string wrong = message({.sizes = {8, 8, 8}, .grid = {3, comm.size()}});
  EXPECT_TRUE(says(wrong, "1x" + std::to_string(comm.size())) && says(wrong, "is not one of")) << wrong;
  EXPECT_TRUE(says(message({.sizes = {8, 0, 8}, .grid = grid}), "at least 1"));
  EXPECT_TRUE(says(message({.sizes = {8, 8, 8}, .modes_x = 6, .grid = grid}), "1 to 5"));
  EXPECT_TRUE(
      says(message({.sizes = {8, 8, std::int64_t{1} << 31}, .grid = grid}), "exceeds what FFT libraries can count"));
  EXPECT_TRUE(says(message({.sizes = {8, 8, 8}, .grid = grid, .batch = 0}), "at least one variable"));
  if (comm.size() > 1) {
    EXPECT_TRUE(says(message({.sizes = {8, 8, 8}, .grid = grid, .column = "fastest"}), "fastest"));
    const Way planes{Method::planes, 0}, whole{Method::plan_3d, 0};
    EXPECT_TRUE(says(message({.sizes = {8, 8, 8}, .modes_x = 3, .grid = grid, .ways = Ways{planes, planes, planes}}),
                     "all modes in x"));
    EXPECT_TRUE(says(message({.sizes = {8, 8, 8}, .grid = grid, .ways = Ways{.forward = whole}}), "one rank"));
    const Way backward{Method::plan_3d, host_libraries() - 1};
    EXPECT_FALSE(message({.sizes = {8, 8, 8}, .grid = grid, .ways = Ways{.backward = backward}}).empty());
  }
}
