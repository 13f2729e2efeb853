#include <gtest/gtest.h>

#include <algorithm>

#include "choices.hpp"
#include "fft_checks.hpp"
#include "weft/fft/plan.hpp"

using namespace weft;
using namespace weft::fft;

namespace {

const std::vector<Sizes> all_sizes{{8, 8, 8}, {12, 10, 9}, {7, 5, 11}, {16, 3, 6}, {1, 4, 5}, {6, 1, 1}, {2, 13, 2}};

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
    for (const Sizes& sizes : all_sizes) {
      batch = batch % 4 + 1;  // each size with another, in turn from grid to grid
      SCOPED_TRACE(name(grid) + " batch " + std::to_string(batch) + " sizes " + std::to_string(sizes.x) + " " +
                   std::to_string(sizes.y) + " " + std::to_string(sizes.z));
      Plan<T> plan({.sizes = sizes, .grid = grid, .batch = batch}, device::open("host"), comm);
      Fields<T> fields(plan, 3);
      fields.forward(plan);
      for (int v = 0; v < 3; ++v) EXPECT_LT(error_of(plan, fields, v), tolerance<T>);
      const auto kept = fields.spectral;
      fields.backward(plan);
      EXPECT_EQ(fields.spectral, kept) << "backward changed what it was given";
      for (std::size_t v = 0; v < 3; ++v)
        EXPECT_LT(largest_difference(fields.physical[v], fields.back[v]), 20 * tolerance<T>);
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
