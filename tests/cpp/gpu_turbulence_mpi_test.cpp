// The turbulence solver on the GPU backends, over the driver and the FFT libraries made for tests: streams there do
// nothing until somebody waits for them, and kernels run as fibers. The trajectory is the host's.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "find_fake_gpu.hpp"
#include "weft/turbulence/solver.hpp"

using namespace weft;
using namespace weft::turbulence;

namespace {

struct Result {
  std::vector<std::complex<double>> modes;
  std::vector<double> points;
  double courant, energy_input;
};

Result run(const std::string& which, Options options, const fft::Grid& grid) {
  const mpi::Comm comm;
  options.box.sizes = {8, 6, 10};
  options.box.lengths = {6.0, 5.0, 7.0};
  options.viscosity = 0.05;
  options.courant = 0.4;
  options.grid = grid;
  options.row = options.column = "pairwise:staged";
  options.scalars = {{0.7, {0, 1, 0.5}}, {2.0, {0, 0, 0}}};
  options.device = device::open(which);
  Solver<double> solver(options, comm);
  const Spectrum spectrum = [](std::span<const double> k, std::span<double> energy) {
    for (std::size_t i = 0; i < k.size(); ++i) energy[i] = 0.05 * std::pow(k[i], 4) * std::exp(-0.2 * k[i] * k[i]);
  };
  solver.set_velocity(random_velocity(solver.truncation(), spectrum, 3));
  solver.set_scalar(1, random_scalar(solver.truncation(), spectrum, 5, 1));
  // There and back through physical space.
  const std::int64_t points = solver.plan().decomposition().physical().size();
  device::Array<double> values(options.device, static_cast<std::size_t>(3 * points));
  solver.velocity(values.data());
  solver.set_velocity(values.data());
  solver.step(2);
  Result result;
  State<double> state = solver.state();
  const auto modes = static_cast<std::size_t>(state.part.modes());
  device::Stream stream(options.device);
  for (const auto* fields : {&state.velocity, &state.scalars}) {
    for (const std::complex<double>* field : *fields) {
      std::vector<std::complex<double>> host(modes);
      if (modes > 0)
        options.device->copy(host.data(), field, modes * sizeof(host[0]), device::CopyKind::device_to_host, stream);
      stream.synchronize();
      result.modes.insert(result.modes.end(), host.begin(), host.end());
    }
  }
  solver.velocity(values.data());
  result.points = values.download();
  result.courant = state.courant;
  result.energy_input = state.energy_input;
  return result;
}

void compare(const char* gpu, const Options& options) {
  if (device::find_fake_gpu(gpu) == nullptr) GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  for (const fft::Grid& grid : fft::grids_of(mpi::Comm().size())) {
    const Result found = run(gpu, options, grid), expected = run("host", options, grid);
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

Options stochastic() {
  Options options;
  options.forcing = {ForcingKind::stochastic, 2.9, 0.1, 0.5, {}};
  return options;
}

Options band() {
  Options options;
  options.scheme = Scheme::rk4;
  options.dealiasing = Dealiasing::two_thirds;
  options.forcing = {ForcingKind::band, 1.5, 0, 0, {}};
  options.batch = 3;
  return options;
}

}  // namespace

TEST(GpuTurbulence, PredictorAndCorrectorWithShiftsAndStochasticForcingAgreeWithTheHostOnCuda) {
  compare("cuda", stochastic());
}
TEST(GpuTurbulence, FourthOrderWithTwoThirdsAndBandForcingAgreesWithTheHostOnHip) { compare("hip", band()); }
