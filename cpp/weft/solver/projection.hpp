// First guesses for a sequence of systems A x = b with one A: the best approximation in the A-norm among the last L
// solutions. P. F. Fischer, "Projection techniques for iterative solution of Ax = b with successive right-hand sides",
// Computer Methods in Applied Mechanics and Engineering 163 (1998) 193-204.
//
// The basis is A-orthonormal; what A makes of it is not stored, one more application of A a solve takes its place. When
// it is full it is turned into one of the newest half of the solutions, so that guesses do not become bad again: the
// solutions' coordinates in the basis are known, so that this is a small QR factorisation and one pass over the
// vectors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/solver/chebyshev.hpp"

namespace weft::solver {

// A solve: project(), then A correction = r is solved by the caller from 0, then keep().
template <class T>
class Projection {
 public:
  // A symmetric and positive semi-definite: its null space must not matter to the caller. most: L, 0..16 solutions.
  // image: [entries] lent for the time of a call.
  Projection(Map<T> apply, T* image, std::int64_t entries, std::int64_t unknowns, int most,
             std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // x becomes the guess, r -= A x. Without solutions to start from, x is taken as it is. Returns |r| before; NaN and
  // Inf come out as they are. (collective)
  double project(T* r, T* x, device::Stream& stream);
  // Where the solution of A correction = r goes, [entries]; its halo entries and the zero slot hold 0.
  T* correction() { return basis_.data() + slot_ * entries_; }
  // x += correction, which is taken into the basis. (collective)
  void keep(T* x, device::Stream& stream);
  // Forgets all solutions: A has changed, or a run from here is to repeat bit for bit from x.
  void reset() {
    count_ = 0;
    solutions_.clear();
  }

  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(basis_.bytes()); }

 private:
  std::vector<double> products(int count, const T* y, device::Stream& stream);  // with the basis, and y . y
  void combine(const std::vector<double>& a, double scale, T* y, device::Stream& stream);
  void make_room(device::Stream& stream);

  Map<T> apply_;
  T* image_;  // A of something
  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  std::int64_t entries_, unknowns_;
  int most_, count_ = 0, slot_ = 0;
  std::vector<double> guess_;                   // in the basis, its first entries
  std::vector<std::vector<double>> solutions_;  // the same of what keep() took, oldest first
  device::Array<T> basis_;                      // [max(most, 1)][entries]
  device::Array<double> partials_, sums_, matrix_;
  device::Buffer host_;
  device::Kernel products_, combine_, rotate_, sum_, copy_;
};

}  // namespace weft::solver
