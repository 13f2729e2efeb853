// Statistics and checkpoints of a solver on the GPU backends, with the driver and the FFT libraries made for tests,
// against the host's.
#include <gtest/gtest.h>

#include <cmath>

#include "find_fake_gpu.hpp"
#include "folder.hpp"
#include "weft/turbulence/checkpoint_file.hpp"
#include "weft/turbulence/solver.hpp"
#include "weft/turbulence/spectra.hpp"
#include "weft/turbulence/statistics.hpp"

using namespace weft;
using namespace weft::turbulence;

namespace {

class TurbulenceOutputOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (device::find_fake_gpu(GetParam()) == nullptr)
      GTEST_SKIP() << "needs the driver made for tests: run it by ctest";
  }
};

std::unique_ptr<Solver<double>> solver_on(std::shared_ptr<device::Device> where, const mpi::Comm& comm) {
  Options options;
  options.box.sizes = {12, 10, 8};
  options.viscosity = 0.05;
  options.dt = 0.01;
  options.grid = {1, comm.size()};
  options.scalars = {ScalarOptions{}};
  options.device = std::move(where);
  auto solver = std::make_unique<Solver<double>>(options, comm);
  const auto spectrum = [](std::span<const double> k, std::span<double> energy) {
    for (std::size_t i = 0; i < k.size(); ++i) energy[i] = k[i] * k[i] * std::exp(-k[i]);
  };
  solver->set_velocity(random_velocity(solver->truncation(), spectrum, 5));
  solver->set_scalar(0, random_scalar(solver->truncation(), spectrum, 5, 0));
  return solver;
}

SpectralFields<double> fields_of(State<double>& state) {
  SpectralFields<double> fields{state.part, *state.truncation, state.velocity, state.plan.device()};
  fields.fields.push_back(state.scalars[0]);
  return fields;
}

std::vector<std::complex<double>> values(State<double>& state) {
  std::vector<std::complex<double>> all;
  for (const std::complex<double>* field : fields_of(state).fields) {
    std::vector<std::complex<double>> one(static_cast<std::size_t>(state.part.modes()));
    device::Stream stream(state.plan.device());
    state.plan.device()->copy(one.data(), field, one.size() * sizeof one[0], device::CopyKind::device_to_host, stream);
    stream.synchronize();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return largest / std::max(scale, 1e-300);
}

}  // namespace

TEST_P(TurbulenceOutputOnGpu, statistics_are_those_of_the_host) {
  const mpi::Comm comm;
  const auto on_gpu = solver_on(device::open(GetParam()), comm);
  const auto on_host = solver_on(device::open("host"), comm);
  State<double> gpu = on_gpu->state(), host = on_host->state();
  EXPECT_LT(difference(spectra(gpu).energy, spectra(host).energy), 1e-13);
  Asked asked;
  asked.slice = 3;
  const Statistics found = statistics(gpu, asked), expected = statistics(host, asked);
  EXPECT_LT(difference(found.transfer, expected.transfer), 1e-12);
  ASSERT_EQ(found.distributions.size(), expected.distributions.size());
  for (std::size_t i = 0; i < found.distributions.size(); ++i) {
    EXPECT_EQ(found.distributions[i].name, expected.distributions[i].name);
    EXPECT_LT(difference(found.distributions[i].moments, expected.distributions[i].moments), 1e-10)
        << found.distributions[i].name;
    EXPECT_NEAR(found.distributions[i].largest, expected.distributions[i].largest, 1e-10);
  }
  ASSERT_EQ(found.enstrophy.values.size(), expected.enstrophy.values.size());
  for (std::size_t i = 0; i < found.enstrophy.values.size(); ++i)
    EXPECT_NEAR(found.enstrophy.values[i], expected.enstrophy.values[i], 1e-5 * expected.enstrophy.values[i] + 1e-6);
}

TEST_P(TurbulenceOutputOnGpu, the_host_reads_a_gpus_checkpoint_and_a_gpu_the_hosts) {
  const mpi::Comm comm;
  const auto on_gpu = solver_on(device::open(GetParam()), comm);
  const auto on_host = solver_on(device::open("host"), comm);
  State<double> gpu = on_gpu->state(), host = on_host->state();
  const Folder folder(comm);
  CheckpointHeader header;
  header.step = 1;
  write_checkpoint(header, fields_of(gpu), {folder.path}, comm);
  const auto written = values(gpu);
  Checkpoint(folder.path, comm).read(fields_of(host));
  EXPECT_EQ(values(host), written) << "also what the GPU goes on with is what is read";
  on_gpu->set_velocity(taylor_green(on_gpu->options().box, 1.0));
  Checkpoint(folder.path, comm).read(fields_of(gpu));
  EXPECT_EQ(values(gpu), written);
}

INSTANTIATE_TEST_SUITE_P(Backends, TurbulenceOutputOnGpu, testing::Values("cuda", "hip"));
