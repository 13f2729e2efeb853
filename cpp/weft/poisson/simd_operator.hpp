// The screened Poisson operator on host processors, with one vector lane per element, directly between assembled
// vectors. docs/cpu-kernels.md explains the design.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/poisson/options.hpp"
#include "weft/poisson/simd_kernel.hpp"
#include "weft/simd/thread_scratch.hpp"
#include "weft/space/space.hpp"

namespace weft::poisson {

// T: float or double.
template <class T>
class SimdOperator {
 public:
  // Uses the blocks of a space, which must outlive this object. std::invalid_argument for a space without blocks and
  // for trilinear geometry on a curved mesh; CollectiveError for a Jacobian that is not positive. (collective)
  SimdOperator(space::Space<T>& space, Geometry geometry, double lambda);

  // y = S x + lambda x for `fields` vectors, [fields][entries]; a block's geometry and index are used for all fields
  // while in cache. (collective)
  void apply(T* x, T* y, int fields, device::Stream& stream) const;
  // The same without communication: call begin(), then work() for the parts in the order of space/overlap.hpp. The
  // owned entries of x must be complete before begin(), its halo entries before the halo part. Afterwards, shared
  // entries of y lack the contributions of other ranks, and its halo entries hold the contributions to other ranks.
  void begin(const T* x, T* y, int fields = 1) const;
  void work(const T* x, T* y, space::Part part, int fields = 1) const;

  // The geometry in use. automatic has become stored, trilinear or mixed, depending on the elements of all ranks; other
  // values are unchanged.
  Geometry geometry() const { return geometry_; }
  const std::string& geometry_reason() const { return geometry_reason_; }  // if it was chosen by timing or memory
  std::array<std::int64_t, 4> elements_by_shape() const;     // of this rank, in blocks treated as a mesh::Shape
  std::map<std::string, std::int64_t> memory_bytes() const;  // by array, without the space's

  space::Space<T>& space() const { return space_; }
  const space::Plan& plan() const { return space_.blocks()->plan(); }
  const SimdElements<T>& elements() const { return elements_; }
  int order() const { return space_.order(); }
  T lambda() const { return lambda_; }
  T* scratch(int thread) const { return scratch_.of(thread); }  // for a pass over elements()

 private:
  void choose_metric();  // of straight elements

  space::Space<T>& space_;
  T lambda_;
  Geometry geometry_;
  std::string geometry_reason_;
  device::Array<T> tables_, factors_;
  std::vector<mesh::Shape> shapes_;   // of the blocks; curved: stored
  std::vector<std::int32_t> stored_;  // place of a block among the stored ones
  SimdElements<T> elements_{};
  simd::ThreadScratch<T> scratch_;
};

}  // namespace weft::poisson
