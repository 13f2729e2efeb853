// Forcing of the large scales: few modes, whose forces every rank knows.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "weft/mpi/comm.hpp"
#include "weft/turbulence/options.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// A forced mode k of this rank. Of k and -k in the plane kx = 0 both are here, on the ranks that hold them.
struct ForcedMode {
  std::int64_t place;       // in the rank's fields
  std::array<double, 3> k;  // its wavenumber
  int pair;                 // which process forces it
  bool conjugated;          // as the conjugate of that process
  int shell;                // round(|k| / unit), from 1
  double weight;            // modes of the whole spectrum it stands for: 2 for kx > 0, else 1
};

using Complex3 = std::array<std::complex<double>, 3>;

// Which modes are forced, and with what. Values of forced modes come in the order of modes().
class Forcing {
 public:
  // std::invalid_argument for options that do not make sense.
  Forcing(const ForcingOptions& options, const Truncation& truncation, const SpectralPart& part, std::uint64_t seed);

  const std::vector<ForcedMode>& modes() const { return modes_; }
  const ForcingOptions& options() const { return options_; }

  // Stochastic: the processes go on to the end of step `step` + 1 of length dt, and velocity += dt times the force of
  // before, solenoidal (Eswaran & Pope, Eqs. 7-12). The numbers drawn depend on the seed, the step and the mode alone.
  // Returns this rank's part of the work done.
  double push(std::vector<Complex3>& velocity, double dt, std::int64_t step);
  // Band: velocity times what gives every shell its energy. Returns the work done, the same on all ranks. (collective)
  double hold(std::vector<Complex3>& velocity, const mpi::Comm& comm);

  // What a checkpoint must keep: processes (stochastic) or energies held (band), the same on all ranks.
  std::vector<double> memory() const;
  void set_memory(const std::vector<double>& values);  // std::invalid_argument if there are not as many

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
