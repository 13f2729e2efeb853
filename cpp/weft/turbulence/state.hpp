// The state of a turbulence simulation: everything that statistics and checkpoints need from a Solver.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/plan.hpp"
#include "weft/turbulence/options.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// A view; the Solver owns the memory, which is all device memory.
template <class T>
struct State {
  using Complex = std::complex<T>;

  SpectralPart part;               // this rank's modes; a field has part.modes() of them, [kz][Ny][kx]
  const Truncation* truncation;    // modes that it does not keep are 0
  std::vector<Complex*> velocity;  // u, v, w: coefficients of exp(i k.x) as in Eq. 1, divided by the number of points
  std::vector<Complex*> scalars;
  double viscosity;
  const std::vector<ScalarOptions>* scalar_options;

  double& time;
  double& dt;          // of the last step, 0 before the first
  double& courant;     // at the beginning of the last step
  std::int64_t& step;  // number of steps done
  // Work done by the forcing so far, per unit mass.
  double& energy_input;

  // Free between steps: 5 fields, plus 3 for each scalar, of `field_values` complex numbers (enough for a field in
  // physical space, real or complex, in any pencil). May serve as RoundTrip::work.
  std::vector<Complex*> scratch;
  std::int64_t field_values;

  fft::Plan<T>& plan;  // gives access to its communicator and device too
  device::Stream& stream;
};

}  // namespace weft::turbulence
