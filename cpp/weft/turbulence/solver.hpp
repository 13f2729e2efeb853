// Incompressible Navier-Stokes in a periodic box by the pseudo-spectral method of Rogallo (GESTS, section 3.1).
//
// A substep of Runge-Kutta is one Plan::run: shift and transform u, v, w backward, five products (and three of every
// scalar) at each point, transform forward again; the four products that remain before the transform in y are projected
// and update the fields. All this happens in passes over data that the transforms hold in cache (on a GPU, in kernels
// between them).
//
// Statistics and checkpoints are separate and work on state().
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/fft/plan.hpp"
#include "weft/fft/tuner.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/turbulence/forcing.hpp"
#include "weft/turbulence/initial.hpp"
#include "weft/turbulence/options.hpp"
#include "weft/turbulence/state.hpp"
#include "weft/turbulence/time_step.hpp"

namespace weft::turbulence {

// T: float or double. Fields begin as 0.
template <class T>
class Solver {
 public:
  using Complex = std::complex<T>;

  // CollectiveError on all ranks for invalid options. (collective)
  Solver(const Options& options, const mpi::Comm& comm);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Takes `steps` steps, or fewer if the time reaches `end` before: the last two are then of equal length and end
  // there. May throw BlownUp. (collective)
  void step(std::int64_t steps, double end = std::numeric_limits<double>::infinity());

  // Sets fields from modes; truncated modes and the part of the velocity that is not solenoidal are removed.
  // (collective)
  void set_velocity(const PlaneFunction& modes);
  void set_scalar(int number, const PlaneFunction& modes);
  // Sets fields from values at this rank's points, [3][z][y][x] of plan().decomposition().physical(), or [z][y][x];
  // device memory. (collective)
  void set_velocity(const T* values);
  void set_scalar(int number, const T* values);
  // Fields at this rank's points, in the same layout, to device memory. (collective)
  void velocity(T* values);
  void scalar(int number, T* values);
  // Call this after writing to fields through state(): makes the plane kx = 0 that of real fields, truncated modes 0,
  // and the velocity solenoidal. (collective)
  void clean();

  State<T> state();
  Forcing& forcing();
  fft::Plan<T>& plan();
  const Options& options() const;                        // as given; the grid and the batch as chosen
  const std::optional<fft::PlanTuning>& tuning() const;  // none if neither was to be chosen
  const Truncation& truncation() const;
  std::map<std::string, std::int64_t> memory_bytes() const;  // of this rank, by what it holds
  // Total so far on this rank, on the host: the part of pointwise functions in the time that the recorder assigns to
  // transforms.
  double pointwise_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::turbulence
