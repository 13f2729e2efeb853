#include "weft/turbulence/initial.hpp"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace weft::turbulence {
namespace {

using Complex = std::complex<double>;
using Vector = std::array<double, 3>;
constexpr Complex sine{0, -0.5}, cosine{0.5, 0};  // amplitudes of exp(i k x)

// Adds amplitude times f(x) g(y) h(z) as modes with nx > 0; each factor is a sine or cosine of the unit wavenumber, or
// 1 (its amplitude is 0).
void add_product(std::vector<Mode>& modes, int field, double amplitude, Complex x, Complex y, Complex z) {
  for (const int ny : {-1, 1}) {
    for (const int nz : {-1, 1}) {
      if (z == Complex(0) && nz > 0) continue;
      const Complex in_y = ny > 0 ? y : std::conj(y), in_z = z == Complex(0) ? 1 : nz > 0 ? z : std::conj(z);
      modes.push_back({{1, ny, z == Complex(0) ? 0 : nz}, field, amplitude * x * in_y * in_z});
    }
  }
}

PlaneFunction vortices(const Box& box, double velocity, Complex z) {
  std::vector<Mode> modes;
  add_product(modes, 0, velocity, sine, cosine, z);
  add_product(modes, 1, -velocity * box.unit(0) / box.unit(1), cosine, sine, z);
  return few_modes(std::move(modes));
}

// Calls set(i, n, k, conjugated) for the kept modes of a plane; i is the position in the plane. Of each pair n, -n in
// the plane nx = 0, both get the n of one of them, and the other has conjugated = true.
template <class F>
void for_plane(const SpectralPart& part, const Truncation& truncation, std::int64_t plane, const F& set) {
  const Box& box = part.box;
  const std::int64_t nz = signed_index(part.z.begin + plane, box.sizes[2]);
  for (std::int64_t iy = 0; iy < box.sizes[1]; ++iy) {
    const std::int64_t ny = signed_index(iy, box.sizes[1]), kept = truncation.kept(ny, nz);
    for (std::int64_t ix = 0; ix < part.x.count && part.x.begin + ix < kept; ++ix) {
      const std::int64_t nx = part.x.begin + ix;
      if (nx == 0 && ny == 0 && nz == 0) continue;  // no mean
      const bool other = nx == 0 && (ny < 0 || (ny == 0 && nz < 0));
      const std::array<std::int64_t, 3> n{nx, other ? -ny : ny, other ? -nz : nz};
      Vector k;
      for (int axis = 0; axis < 3; ++axis) k[axis] = box.unit(axis) * static_cast<double>(n[axis]);
      set(iy * part.x.count + ix, n, k, other);
    }
  }
}

double magnitude(const Vector& k) { return std::sqrt(k[0] * k[0] + k[1] * k[1] + k[2] * k[2]); }

Counter counter(const std::array<std::int64_t, 3>& n, std::uint32_t draw) {
  return {static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1]), static_cast<std::uint32_t>(n[2]), draw};
}

// [modes of the plane] sqrt(2 E(k) / (4 pi k^2) times the volume of a mode), with a single call of the spectrum.
std::vector<double> amplitudes(const SpectralPart& part, const Truncation& truncation, std::int64_t plane,
                               const Spectrum& spectrum) {
  std::vector<double> k, result(part.box.sizes[1] * part.x.count);
  std::vector<std::int64_t> places;
  for_plane(part, truncation, plane, [&](std::int64_t i, const auto&, const Vector& wavenumber, bool) {
    places.push_back(i);
    k.push_back(magnitude(wavenumber));
  });
  std::vector<double> energy(k.size());
  spectrum(k, energy);
  const double volume = part.box.unit(0) * part.box.unit(1) * part.box.unit(2);
  for (std::size_t i = 0; i < k.size(); ++i) {
    if (!(energy[i] >= 0) || !std::isfinite(energy[i]))
      throw std::invalid_argument("turbulence: the spectrum is " + std::to_string(energy[i]) +
                                  " at k = " + std::to_string(k[i]) + "; it must be a number of at least 0");
    result[places[i]] = std::sqrt(energy[i] * volume / (2 * std::numbers::pi)) / k[i];
  }
  return result;
}

}  // namespace

PlaneFunction few_modes(std::vector<Mode> modes) {
  std::vector<Mode> all;
  for (const Mode& mode : modes) {
    const auto& n = mode.n;
    if (n[0] >= 0) all.push_back(mode);
    if (n[0] <= 0 && n != std::array<std::int64_t, 3>{0, 0, 0})
      all.push_back({{-n[0], -n[1], -n[2]}, mode.field, std::conj(mode.amplitude)});
  }
  return [all = std::move(all)](const SpectralPart& part, std::int64_t plane, Complex* values) {
    const std::int64_t modes_of_plane = part.box.sizes[1] * part.x.count;
    for (const Mode& mode : all) {
      const std::int64_t place = part.place(mode.n[0], mode.n[1], mode.n[2]);
      if (place < 0 || place / modes_of_plane != plane) continue;
      values[mode.field * modes_of_plane + place % modes_of_plane] += mode.amplitude;
    }
  };
}

PlaneFunction taylor_green(const Box& box, double velocity) { return vortices(box, velocity, cosine); }

PlaneFunction taylor_green_2d(const Box& box, double velocity) { return vortices(box, velocity, 0); }

PlaneFunction abc(const Box& box, std::array<double, 3> amplitudes, int index) {
  if (box.lengths[0] != box.lengths[1] || box.lengths[0] != box.lengths[2])
    throw std::invalid_argument("turbulence: an ABC flow needs a box of equal sides");
  const auto [a, b, c] = amplitudes;
  const std::array<std::int64_t, 3> x{index, 0, 0}, y{0, index, 0}, z{0, 0, index};
  return few_modes({{z, 0, a * sine},
                    {y, 0, c * cosine},
                    {x, 1, b * sine},
                    {z, 1, a * cosine},
                    {y, 2, c * sine},
                    {x, 2, b * cosine}});
}

PlaneFunction random_velocity(const Truncation& truncation, Spectrum spectrum, std::uint64_t seed) {
  return [truncation, spectrum = std::move(spectrum), seed](const SpectralPart& part, std::int64_t plane,
                                                            Complex* values) {
    const std::vector<double> size = amplitudes(part, truncation, plane, spectrum);
    const std::int64_t field = part.box.sizes[1] * part.x.count;
    for_plane(part, truncation, plane, [&](std::int64_t i, const auto& n, const Vector& k, bool conjugated) {
      const std::uint32_t draw = static_cast<std::uint32_t>(Draw::velocity);
      const auto [first, second] = uniform(counter(n, draw), seed);
      const auto [third, unused] = uniform(counter(n, draw + 0x100), seed);
      const double angle = 2 * std::numbers::pi * third;
      const Complex alpha = std::polar(size[i] * std::cos(angle), 2 * std::numbers::pi * first);
      const Complex beta = std::polar(size[i] * std::sin(angle), 2 * std::numbers::pi * second);
      // Two unit vectors orthogonal to k and to each other: e1 = k x z, e2 = k x e1.
      const double flat = std::hypot(k[0], k[1]), length = magnitude(k);
      Vector e1{1, 0, 0}, e2{0, 1, 0};
      if (flat > 0) {
        e1 = {k[1] / flat, -k[0] / flat, 0};
        e2 = {k[0] * k[2] / (flat * length), k[1] * k[2] / (flat * length), -flat / length};
      }
      for (int c = 0; c < 3; ++c) {
        const Complex value = alpha * e1[c] + beta * e2[c];
        values[c * field + i] = conjugated ? std::conj(value) : value;
      }
    });
  };
}

PlaneFunction random_scalar(const Truncation& truncation, Spectrum spectrum, std::uint64_t seed, int number) {
  return [truncation, spectrum = std::move(spectrum), seed, number](const SpectralPart& part, std::int64_t plane,
                                                                    Complex* values) {
    const std::vector<double> size = amplitudes(part, truncation, plane, spectrum);
    for_plane(part, truncation, plane, [&](std::int64_t i, const auto& n, const Vector&, bool conjugated) {
      const std::uint32_t draw = static_cast<std::uint32_t>(Draw::scalar) + 0x100 * static_cast<std::uint32_t>(number);
      const auto [first, unused] = uniform(counter(n, draw), seed);
      const Complex value = std::polar(size[i], 2 * std::numbers::pi * first);
      values[i] = conjugated ? std::conj(value) : value;
    });
  };
}

}  // namespace weft::turbulence
