// Initial guesses for a sequence of systems A x = b with the same A: the best approximation in the A-norm within the
// span of the last L solutions. P. F. Fischer, "Projection techniques for iterative solution of Ax = b with successive
// right-hand sides", Computer Methods in Applied Mechanics and Engineering 163 (1998) 193-204.
//
// The basis is A-orthonormal. Its image under A is not stored; one more application of A per solve replaces it. When
// the basis is full, it is reduced to a basis of the newest half of the solutions, so that the guesses stay good. Since
// the coordinates of the solutions in the basis are known, this takes a small QR factorisation and one pass over the
// vectors.
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

// Usage: project(); then the caller solves A correction = r, starting from 0; then keep().
template <class T>
class Projection {
 public:
  // A must be symmetric and positive semi-definite, and components in its null space must not matter to the caller.
  // most: L, 0..16 solutions. image: [entries], lent for the duration of a call.
  Projection(Map<T> apply, T* image, std::int64_t entries, std::int64_t unknowns, int most,
             std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // Sets x to the guess, and r -= A x. Without earlier solutions, x is used as it is. Returns |r| before the change;
  // NaN and Inf are returned as they are. (collective)
  double project(T* r, T* x, device::Stream& stream);
  // Storage for the solution of A correction = r, [entries]; its halo entries and zero slot are 0.
  T* correction() { return basis_.data() + slot_ * entries_; }
  // x += correction; adds the correction to the basis. (collective)
  void keep(T* x, device::Stream& stream);
  // Drops all solutions, because A has changed, or to make a restart from x bit-identical.
  void reset() {
    count_ = 0;
    solutions_.clear();
  }

  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(basis_.bytes()); }

 private:
  static constexpr int max_vectors = 16;  // must match kernels/projection.hpp
  // Passed to kernels by value: must match Coefficients in that file.
  struct Coefficients {
    std::array<double, max_vectors> a;
  };
  std::vector<double> products(int count, const T* y, device::Stream& stream);  // with the basis vectors, and y . y
  void combine(const std::vector<double>& a, double scale, T* y, device::Stream& stream);
  void make_room(device::Stream& stream);

  Map<T> apply_;
  T* image_;  // receives images under A
  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  std::int64_t entries_, unknowns_;
  int most_, count_ = 0, slot_ = 0;
  std::vector<double> guess_;                   // leading coordinates in the basis; the others are 0
  std::vector<std::vector<double>> solutions_;  // likewise, of what keep() was given, oldest first
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
