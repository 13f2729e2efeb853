// The state of a turbulence simulation: all that statistics and checkpoints need from a Solver.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/plan.hpp"
#include "weft/turbulence/options.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// A view: the memory is the Solver's. Device memory throughout.
template <class T>
struct State {
  using Complex = std::complex<T>;

  SpectralPart part;               // this rank's modes; a field has part.modes() of them, [kz][Ny][kx]
  const Truncation* truncation;    // modes it does not keep are 0
  std::vector<Complex*> velocity;  // u, v, w: coefficients of Eq. 1, of exp(i k.x), divided by the number of points
  std::vector<Complex*> scalars;
  double viscosity;
  const std::vector<ScalarOptions>* scalar_options;

  double& time;
  double& dt;          // of the last step, 0 before the first
  double& courant;     // of the last step's beginning
  std::int64_t& step;  // steps done
  // Work done by the forcing so far, per unit of mass.
  double& energy_input;

  // Free between steps: fields of `field_values` complex numbers (enough for a field in physical space, real or
  // complex, in any pencil), 5 of them and 3 for each scalar. May serve as RoundTrip::work.
  std::vector<Complex*> scratch;
  std::int64_t field_values;

  fft::Plan<T>& plan;  // its communicator and device too
  device::Stream& stream;
};

}  // namespace weft::turbulence
