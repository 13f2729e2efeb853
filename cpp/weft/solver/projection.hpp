// Initial guesses for a sequence of systems A x = b with the same A: the best approximation in the A-norm among the
// last L solutions. P. F. Fischer, "Projection techniques for iterative solution of Ax = b with successive right-hand
// sides", Computer Methods in Applied Mechanics and Engineering 163 (1998) 193-204.
//
// The basis is A-orthonormal. Its image under A is not stored; one more application of A per solve replaces it. A full
// basis is reduced to one of the newest half of the solutions, so that the guesses stay good: as the coordinates of the
// solutions in the basis are known, this takes a small QR factorisation and one pass over the vectors.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/solver/chebyshev.hpp"

namespace weft::solver {

// Usage: project(); then the caller solves A correction = r from 0; then keep().
template <class T>
class Projection {
 public:
  // A is symmetric and positive semi-definite, and its null space must not matter to the caller. most: L, 0..16
  // solutions. image: [entries] lent for the duration of a call.
  Projection(Map<T> apply, T* image, std::int64_t entries, std::int64_t unknowns, int most,
             std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // Sets x to the guess, and r -= A x. Without earlier solutions, x is used as it is. Returns |r| before; NaN and Inf
  // are returned as they are. (collective)
  double project(T* r, T* x, device::Stream& stream);
  // Storage for the solution of A correction = r, [entries]; its halo entries and zero slot are 0.
  T* correction() { return basis_.data() + slot_ * entries_; }
  // x += correction, and adds the correction to the basis. (collective)
  void keep(T* x, device::Stream& stream);
  // Drops all solutions: because A has changed, or so that a restart from x is bit-identical.
  void reset() {
    count_ = 0;
    solutions_.clear();
  }

  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(basis_.bytes()); }

 private:
  static constexpr int max_vectors = 16;  // as in kernels/projection.hpp
  // By value into the kernels: matches Coefficients there.
  struct Coefficients {
    std::array<double, max_vectors> a;
  };
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
  device::Kernel<long, long, int, const T*, const T*, double*> products_;
  device::Kernel<long, long, int, Coefficients, T, const T*, T*> combine_;
  device::Kernel<long, long, int, int, const double*, T*> rotate_;
  device::Kernel<long, const double*, double*> sum_;
  device::Kernel<long, const T*, T*> copy_;
};

}  // namespace weft::solver
