// Sums over the modes of a simulation: totals, and sums over shells of wavenumbers. They need no transform.
//
// Shell m holds the modes with round(|k| / width) = m, where width is the smallest wavenumber of the box. Every mode is
// in exactly one shell, so the shells of a quantity add up to its total (Parseval). Modes with kx > 0 count twice,
// because those at -k are not stored for real fields.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "weft/turbulence/state.hpp"

namespace weft::turbulence {

struct Spectra {
  double width = 1;  // of a shell, as a wavenumber

  // By shell: sums over its modes, to be divided by width for a spectral density.
  std::vector<double> modes;                                             // number of modes
  std::vector<double> energy;                                            // |u|^2 / 2
  std::vector<double> dissipation;                                       // nu k^2 |u|^2
  std::vector<std::vector<double>> scalar_variance, scalar_dissipation;  // |phi|^2, 2 kappa k^2 |phi|^2, by scalar

  // Totals. Angle brackets are means over the box.
  std::array<double, 3> square{};           // <u^2>, <v^2>, <w^2>
  std::array<double, 3> gradient_square{};  // <(du/dx)^2>, <(dv/dy)^2>, <(dw/dz)^2>
  double enstrophy = 0;                     // <omega_i omega_i>
  double helicity = 0;                      // <u . omega>
  double energy_over_wavenumber = 0;        // sum of |u|^2 / (2 |k|); times pi / (2 u'^2): the integral scale
  double divergence = 0;                    // largest |k . u| of any mode divided by sqrt(<omega_i omega_i>)
  double kmax = 0;                          // the largest wavenumber up to which all modes are kept
};

// (collective)
template <class T>
Spectra spectra(const State<T>& state);

// The number of shells that contain kept modes, and the width of a shell.
std::int64_t shell_count(const Truncation& truncation, const Box& box);
double shell_width(const Box& box);

}  // namespace weft::turbulence
