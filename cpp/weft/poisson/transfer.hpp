// Transfers between the vectors of two Poisson operators of different orders on the same mesh: P and P^T of a
// p-multigrid.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/poisson/simd_levels.hpp"

namespace weft::poisson {

template <class T>
class Transfer {
 public:
  // Both must have the same mesh, kernels, device and boundary conditions, and fine.order > coarse.order.
  Transfer(Operator<T>& fine, Operator<T>& coarse);

  // x_f += P x_c, or x_f = P x_c. Fills the halo of x_c. (collective)
  void prolong(T* x_c, T* x_f, bool add, device::Stream& stream);
  // r_c = P^T r_f. (collective)
  void restrict_to(const T* r_f, T* r_c, device::Stream& stream);
  std::int64_t memory_bytes() const;

 private:
  void set_up_portable();
  void set_up_simd();
  std::vector<std::int32_t> coarse_index() const;  // [points] of the coarse order, in the fine operator's elements

  Operator<T>& fine_;
  Operator<T>& coarse_;
  int coarse_points_;
  device::Shape shape_;
  device::Array<T> interpolation_;
  device::Array<std::int32_t> place_, index_;
  std::optional<space::Gather<T>> gather_;  // portable; for points of the coarse order
  device::Kernel<int, int, const T*, const std::int32_t*, const std::int32_t*, const T*, T*> prolong_;
  device::Kernel<int, const T*, const std::int32_t*, const T*, T*> restrict_;
  // simd: index_ is [blocks][coarse^3][lanes]
  device::Array<std::uint16_t> speaks_;
  std::vector<std::uint8_t> conflict_;
  SimdInterpolation<T> simd_{};
};

// Whether kernels/transfer.hpp with this fine order fits into the shared memory of a GPU block.
bool transfer_fits(int order, int scalar_bytes);

}  // namespace weft::poisson
