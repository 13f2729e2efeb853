// Forcing of the large scales: a few modes, whose forces are known to every rank.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "weft/mpi/comm.hpp"
#include "weft/turbulence/options.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// A forced mode k of this rank. In the plane kx = 0 both k and -k are listed, on the ranks that hold them.
struct ForcedMode {
  std::int64_t place;       // position in the rank's fields
  std::array<double, 3> k;  // its wavenumber
  int pair;                 // which process forces it
  bool conjugated;          // whether by the conjugate of that process
  int shell;                // round(|k| / unit), from 1
  double weight;            // number of modes of the full spectrum that it represents: 2 for kx > 0, else 1
};

using Complex3 = std::array<std::complex<double>, 3>;

// The forced modes and their forces. Values of forced modes are in the order of modes().
class Forcing {
 public:
  // std::invalid_argument for options that do not make sense.
  Forcing(const ForcingOptions& options, const Truncation& truncation, const SpectralPart& part, std::uint64_t seed);

  const std::vector<ForcedMode>& modes() const { return modes_; }
  const ForcingOptions& options() const { return options_; }

  // Stochastic forcing: velocity += dt times the current solenoidal force, and the processes advance to the end of step
  // `step` + 1 of length dt (Eswaran & Pope, Eqs. 7-12). The random numbers depend only on the seed, the step and the
  // mode. Returns this rank's part of the work done.
  double push(std::vector<Complex3>& velocity, double dt, std::int64_t step);
  // Band forcing: scales the velocity so that every shell has its prescribed energy. Returns the work done, the same on
  // all ranks. (collective)
  double hold(std::vector<Complex3>& velocity, const mpi::Comm& comm);

  // The state that a checkpoint must store: processes (stochastic) or prescribed energies (band), the same on all
  // ranks.
  std::vector<double> memory() const;
  void set_memory(const std::vector<double>& values);  // std::invalid_argument for the wrong number of values

 private:
  std::vector<double> shell_energies(const std::vector<Complex3>& velocity, const mpi::Comm& comm) const;

  ForcingOptions options_;
  std::uint64_t seed_;
  double unit_;
  int shells_ = 0;
  std::vector<ForcedMode> modes_;
  std::vector<Complex3> processes_;  // by pair
};

}  // namespace weft::turbulence
