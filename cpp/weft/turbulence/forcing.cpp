#include "weft/turbulence/forcing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "weft/turbulence/random.hpp"

namespace weft::turbulence {

Forcing::Forcing(const ForcingOptions& options, const Truncation& truncation, const SpectralPart& part,
                 std::uint64_t seed)
    : options_(options), seed_(seed), unit_(std::min({part.box.unit(0), part.box.unit(1), part.box.unit(2)})) {
  if (options_.kind == ForcingKind::none) return;
  const std::string where = "turbulence: " + name(options_.kind) + " forcing";
  if (!(options_.radius >= unit_))
    throw std::invalid_argument(where + " of |k| <= " + std::to_string(options_.radius) +
                                " forces no mode; the box's smallest wavenumber is " + std::to_string(unit_));
  if (options_.radius > truncation.largest_wavenumber())
    throw std::invalid_argument(where + " of |k| <= " + std::to_string(options_.radius) +
                                " reaches beyond the largest wavenumber kept, " +
                                std::to_string(truncation.largest_wavenumber()));
  if (options_.kind == ForcingKind::stochastic && !(options_.amplitude > 0 && options_.time > 0))
    throw std::invalid_argument(where + " needs an amplitude and a time above 0");

  // All ranks number the pairs k, -k in the same way.
  std::array<std::int64_t, 3> reach;
  for (int axis = 0; axis < 3; ++axis)
    reach[axis] = static_cast<std::int64_t>(std::floor(options_.radius / part.box.unit(axis)));
  int pairs = 0;
  for (std::int64_t nx = 0; nx <= reach[0]; ++nx) {
    for (std::int64_t ny = -reach[1]; ny <= reach[1]; ++ny) {
      for (std::int64_t nz = -reach[2]; nz <= reach[2]; ++nz) {
        if (nx == 0 && (ny < 0 || (ny == 0 && nz <= 0))) continue;
        std::array<double, 3> k{part.box.unit(0) * static_cast<double>(nx), part.box.unit(1) * static_cast<double>(ny),
                                part.box.unit(2) * static_cast<double>(nz)};
        const double length = std::sqrt(k[0] * k[0] + k[1] * k[1] + k[2] * k[2]);
        if (length > options_.radius) continue;
        const int pair = pairs++, shell = std::max(1, static_cast<int>(std::lround(length / unit_)));
        shells_ = std::max(shells_, shell);
        if (const std::int64_t place = part.place(nx, ny, nz); place >= 0)
          modes_.push_back({place, k, pair, false, shell, nx > 0 ? 2.0 : 1.0});
        if (nx > 0) continue;
        if (const std::int64_t place = part.place(0, -ny, -nz); place >= 0)
          modes_.push_back({place, {-k[0], -k[1], -k[2]}, pair, true, shell, 1.0});
      }
    }
  }
  if (options_.kind == ForcingKind::band && !options_.energies.empty()) {
    if (static_cast<int>(options_.energies.size()) != shells_)
      throw std::invalid_argument(where + " of |k| <= " + std::to_string(options_.radius) + " has " +
                                  std::to_string(shells_) + " shells, and " + std::to_string(options_.energies.size()) +
                                  " energies are given");
    for (const double energy : options_.energies)
      if (!(energy >= 0)) throw std::invalid_argument(where + ": every energy must be a number of at least 0");
  }
  if (options_.kind == ForcingKind::band) return;
  // The processes start in their stationary state: the variance of every real number is sigma^2.
  processes_.resize(pairs);
  const double sigma = std::sqrt(options_.amplitude / options_.time);
  for (int pair = 0; pair < pairs; ++pair) {
    for (std::uint32_t c = 0; c < 3; ++c) {
      const auto [re, im] =
          normal({static_cast<std::uint32_t>(pair), 0, 0x100 + c, static_cast<std::uint32_t>(Draw::forcing)}, seed_);
      processes_[pair][c] = {sigma * re, sigma * im};
    }
  }
}

double Forcing::push(std::vector<Complex3>& velocity, double dt, std::int64_t step) {
  double work = 0;
  for (std::size_t m = 0; m < modes_.size(); ++m) {
    const ForcedMode& mode = modes_[m];
    Complex3 force = processes_[mode.pair];
    double square = 0;
    for (int c = 0; c < 3; ++c) square += mode.k[c] * mode.k[c];
    std::complex<double> along = 0;
    if (mode.conjugated)
      for (auto& value : force) value = std::conj(value);
    for (int c = 0; c < 3; ++c) along += mode.k[c] * force[c];
    for (int c = 0; c < 3; ++c) {
      const std::complex<double> change = dt * (force[c] - mode.k[c] * along / square);
      work += mode.weight * (std::real(std::conj(velocity[m][c]) * change) + std::norm(change) / 2);
      velocity[m][c] += change;
    }
  }
  // The exact solution of the Ornstein-Uhlenbeck process over dt.
  const double kept = std::exp(-dt / options_.time);
  const double fresh = std::sqrt(options_.amplitude / options_.time * -std::expm1(-2 * dt / options_.time));
  for (std::size_t pair = 0; pair < processes_.size(); ++pair) {
    for (std::uint32_t c = 0; c < 3; ++c) {
      const auto bits = static_cast<std::uint64_t>(step);
      const auto [re, im] =
          normal({static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(bits),
                  static_cast<std::uint32_t>(bits >> 32) << 9 | c, static_cast<std::uint32_t>(Draw::forcing)},
                 seed_);
      processes_[pair][c] = kept * processes_[pair][c] + fresh * std::complex<double>(re, im);
    }
  }
  return work;
}

std::vector<double> Forcing::shell_energies(const std::vector<Complex3>& velocity, const mpi::Comm& comm) const {
  std::vector<double> energies(shells_);
  for (std::size_t m = 0; m < modes_.size(); ++m)
    for (const auto& value : velocity[m]) energies[modes_[m].shell - 1] += modes_[m].weight * std::norm(value) / 2;
  comm.sum(energies.data(), shells_);
  return energies;
}

double Forcing::hold(std::vector<Complex3>& velocity, const mpi::Comm& comm) {
  const std::vector<double> found = shell_energies(velocity, comm);
  if (options_.energies.empty()) {
    options_.energies = found;
    return 0;
  }
  double work = 0;
  std::vector<double> factors(shells_, 1.0);
  for (int shell = 0; shell < shells_; ++shell) {
    if (!(found[shell] > 0)) continue;  // an empty shell cannot be amplified
    factors[shell] = std::sqrt(options_.energies[shell] / found[shell]);
    work += options_.energies[shell] - found[shell];
  }
  for (std::size_t m = 0; m < modes_.size(); ++m)
    for (auto& value : velocity[m]) value *= factors[modes_[m].shell - 1];
  return work;
}

std::vector<double> Forcing::memory() const {
  if (options_.kind == ForcingKind::band) return options_.energies;
  std::vector<double> values;
  for (const Complex3& process : processes_)
    for (const auto& value : process) values.insert(values.end(), {value.real(), value.imag()});
  return values;
}

void Forcing::set_memory(const std::vector<double>& values) {
  const std::size_t expected = options_.kind == ForcingKind::band ? shells_ : 6 * processes_.size();
  if (values.size() != expected && !(options_.kind == ForcingKind::band && values.empty()))
    throw std::invalid_argument("turbulence: the forcing remembers " + std::to_string(expected) + " numbers, not " +
                                std::to_string(values.size()));
  if (options_.kind == ForcingKind::band) {
    options_.energies = values;
    return;
  }
  for (std::size_t i = 0; i < processes_.size(); ++i)
    for (int c = 0; c < 3; ++c) processes_[i][c] = {values[6 * i + 2 * c], values[6 * i + 2 * c + 1]};
}

}  // namespace weft::turbulence
