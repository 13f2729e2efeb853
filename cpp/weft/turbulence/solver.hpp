// Incompressible Navier-Stokes in a periodic box by the pseudo-spectral method of Rogallo (GESTS, section 3.1).
//
// A substep of Runge-Kutta is one Plan::run: shift and transform u, v, w backward, five products (and three of every
// scalar) at each point, forward again, where the four that are left before the transform in y are projected and
// update the fields, all of it in passes over what the transforms hold in cache (on a GPU in kernels between them).
//
// What it does not do: statistics and checkpoints, which work on state().
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/fft/plan.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/turbulence/forcing.hpp"
#include "weft/turbulence/initial.hpp"
#include "weft/turbulence/options.hpp"
#include "weft/turbulence/state.hpp"

namespace weft::turbulence {

// A run that has gone wrong: a Courant number beyond the limit, or velocities that are no numbers. The same on all
// ranks. The fields are those before the step that failed.
class BlownUp : public mpi::CollectiveError {
 public:
  BlownUp(const std::string& message, std::int64_t step, double courant)
      : mpi::CollectiveError(message), step(step), courant(courant) {}
  std::int64_t step;
  double courant;
};

// T: float or double. Fields begin as 0.
template <class T>
class Solver {
 public:
  using Complex = std::complex<T>;

  // CollectiveError on all ranks for options that do not make sense. (collective)
  Solver(const Options& options, const mpi::Comm& comm);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // `steps` more steps. BlownUp. (collective)
  void step(std::int64_t steps);

  // Fields from modes; those that are not kept are left out, and of the velocity what is not solenoidal. (collective)
  void set_velocity(const PlaneFunction& modes);
  void set_scalar(int number, const PlaneFunction& modes);
  // From values at this rank's points, [3][z][y][x] of plan().decomposition().physical(), or [z][y][x]; device memory.
  // (collective)
  void set_velocity(const T* values);
  void set_scalar(int number, const T* values);
  // Fields at this rank's points, in the same layout, to device memory. (collective)
  void velocity(T* values);
  void scalar(int number, T* values);
  // After fields were written through state(): the plane kx = 0 is made that of real fields, modes that are not kept
  // are 0, the velocity is solenoidal. (collective)
  void clean();

  State<T> state();
  Forcing& forcing();
  fft::Plan<T>& plan();
  const Options& options() const;
  const Truncation& truncation() const;
  std::map<std::string, std::int64_t> memory_bytes() const;  // of this rank, by what it holds
  // So far, on the host, of this rank: the pointwise functions' part of what the recorder has as transforms.
  double pointwise_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Bytes a rank needs by Eq. 9 with what this solver holds beside it: fields of `modes` kept, of which 3 + scalars are
// kept, 5 + 3 scalars are work, 3 + scalars more for RK4, 1 for each scalar with a mean gradient; 2 Q buffers where
// there is more than one rank; on GPUs what the transforms hold of all variables of a stage, modes and points.
std::int64_t predicted_bytes(const Options& options, int ranks, int bytes_of_real);

}  // namespace weft::turbulence
