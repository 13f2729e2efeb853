// The options of a turbulence simulation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/fft/grid.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// Runge-Kutta with an exact integrating factor for viscosity: of second order (predictor and corrector, Rogallo 1981),
// or the classical method of fourth order.
enum class Scheme { rk2, rk4 };
std::string name(Scheme scheme);

// none; stochastic: Eswaran & Pope 1988; band: constant energy in each low shell (Donzis & Yeung 2010).
enum class ForcingKind { none, stochastic, band };
std::string name(ForcingKind kind);

struct ForcingOptions {
  ForcingKind kind = ForcingKind::stochastic;
  double radius = 2 * std::numbers::sqrt2;  // modes with 0 < |k| <= radius are forced
  double amplitude = 0;  // stochastic: sigma^2 T, the paper's epsilon*, as an acceleration squared times time
  double time = 0;       // stochastic: T, the correlation time
  // band: energy of the shells round(|k| / unit) = 1, 2, …, where unit is the smallest wavenumber; empty: the energies
  // at the first step
  std::vector<double> energies = {};
};

// d phi/dt + u . grad phi = -u . gradient + (nu / schmidt) laplacian phi, where phi is the fluctuation about the mean
// gradient.
struct ScalarOptions {
  double schmidt = 1;
  std::array<double, 3> gradient{};
};

struct Options {
  Box box;
  double viscosity = 0.01;
  Scheme scheme = Scheme::rk2;
  Dealiasing dealiasing = Dealiasing::phase_shift;
  double dt = 0;             // fixed time step; if 0, it follows from
  double courant = 0;        // the Courant number of Eq. 8
  double courant_limit = 1;  // a step whose Courant number exceeds it stops the run
  double max_dt = 0;         // longest step allowed by the Courant number's choice; 0: no limit
  ForcingOptions forcing = {.kind = ForcingKind::none};
  std::vector<ScalarOptions> scalars;
  std::uint64_t seed = 0;                       // for phase shifts and forcing
  std::optional<fft::Grid> grid = fft::Grid{};  // Pr x Pc ranks; empty: the fastest, by timing
  std::optional<int> batch = 1;                 // Q: number of variables per message; empty: the fastest, by timing
  exchange::Asked row, column;
  std::shared_ptr<device::Device> device;
};

// std::invalid_argument if an option has no meaning.
void check(const Options& options);

}  // namespace weft::turbulence
