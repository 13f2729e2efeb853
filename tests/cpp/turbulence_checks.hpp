// A box of turbulence with all features, for tests: scalars with and without a mean gradient, forcings, both schemes.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/turbulence/solver.hpp"

namespace weft::test {

inline turbulence::Options stochastic_turbulence() {
  turbulence::Options options;
  options.forcing = {turbulence::ForcingKind::stochastic, 2.9, 0.1, 0.5, {}};
  return options;
}

inline turbulence::Options band_turbulence() {
  turbulence::Options options;
  options.scheme = turbulence::Scheme::rk4;
  options.dealiasing = turbulence::Dealiasing::two_thirds;
  options.forcing = {turbulence::ForcingKind::band, 1.5, 0, 0, {}};
  options.batch = 3;
  return options;
}

// The modes and the values at points after two steps from a random velocity.
template <class T>
struct TurbulenceResult {
  std::vector<std::complex<T>> modes;
  std::vector<T> points;
  double courant, energy_input;
};

template <class T>
TurbulenceResult<T> run_turbulence(const std::string& which, turbulence::Options options, const fft::Grid& grid) {
  using namespace turbulence;
  const mpi::Comm comm;
  options.box.sizes = {8, 6, 10};
  options.box.lengths = {6.0, 5.0, 7.0};
  options.viscosity = 0.05;
  options.courant = 0.4;
  options.grid = grid;
  options.row = options.column = "pairwise:staged";
  options.scalars = {{0.7, {0, 1, 0.5}}, {2.0, {0, 0, 0}}};
  options.device = device::open(which);
  Solver<T> solver(options, comm);
  const Spectrum spectrum = [](std::span<const double> k, std::span<double> energy) {
    for (std::size_t i = 0; i < k.size(); ++i) energy[i] = 0.05 * std::pow(k[i], 4) * std::exp(-0.2 * k[i] * k[i]);
  };
  solver.set_velocity(random_velocity(solver.truncation(), spectrum, 3));
  solver.set_scalar(1, random_scalar(solver.truncation(), spectrum, 5, 1));
  // There and back through physical space.
  const std::int64_t points = solver.plan().decomposition().physical().size();
  device::Array<T> values(options.device, static_cast<std::size_t>(3 * points));
  solver.velocity(values.data());
  solver.set_velocity(values.data());
  solver.step(2);
  TurbulenceResult<T> result;
  State<T> state = solver.state();
  const auto modes = static_cast<std::size_t>(state.part.modes());
  device::Stream stream(options.device);
  for (const auto* fields : {&state.velocity, &state.scalars}) {
    for (const std::complex<T>* field : *fields) {
      std::vector<std::complex<T>> host(modes);
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

}  // namespace weft::test
