// Initial fields, computed mode by mode in double precision: bit-identical on any number of ranks, and then rounded if
// the run is in single precision.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weft/turbulence/random.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// Sets the modes of one plane of kz, for every field: values [fields][Ny][part.x.count], 0 on entry. In the plane kx =
// 0, the value at -k must be the conjugate of that at k.
using PlaneFunction = std::function<void(const SpectralPart& part, std::int64_t plane, std::complex<double>* values)>;

// A mode of a field that has few: the amplitude at n; that at -n is its conjugate.
struct Mode {
  std::array<std::int64_t, 3> n;
  int field;
  std::complex<double> amplitude;
};
PlaneFunction few_modes(std::vector<Mode> modes);

// u = V sin ax cos by cos cz, v = -V (a/b) cos ax sin by cos cz, w = 0, where a, b, c are the box's unit wavenumbers
// (Taylor & Green 1937). In two dimensions, without the factor in z, the solution is u exp(-nu (a^2 + b^2) t).
PlaneFunction taylor_green(const Box& box, double velocity);
PlaneFunction taylor_green_2d(const Box& box, double velocity);

// u = A sin kz + C cos ky, v = B sin kx + A cos kz, w = C sin ky + B cos kx, with wavenumber `index` times the box's
// unit: an eigenfunction of curl, with the solution u exp(-nu k^2 t). std::invalid_argument unless the sides are equal.
PlaneFunction abc(const Box& box, std::array<double, 3> amplitudes, int index);

// Computes E(k) at some wavenumbers.
using Spectrum = std::function<void(std::span<const double> k, std::span<double> energy)>;

// A solenoidal field with random phases and polarisations and the spectrum E(k): each kept mode has |u|^2 / 2 = E(k) /
// (4 pi k^2) times the volume of a mode (Rogallo 1981, section VI).
PlaneFunction random_velocity(const Truncation& truncation, Spectrum spectrum, std::uint64_t seed);
// The same for a scalar, |phi|^2 / 2; `number` is that of the scalar.
PlaneFunction random_scalar(const Truncation& truncation, Spectrum spectrum, std::uint64_t seed, int number);

}  // namespace weft::turbulence
