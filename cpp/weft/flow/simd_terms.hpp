// The flow's terms on host processors, with one vector lane per element, on the blocks of a space.
//
// Communication is in Terms; docs/cpu-kernels.md explains the kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/work.hpp"
#include "weft/simd/thread_scratch.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

// T: float or double.
template <class T>
class SimdTerms {
 public:
  explicit SimdTerms(space::Space<T>& space);  // the space must have blocks and outlive this object

  // Computes a term of f [count][entries] (and u) into out [outputs][entries]: call begin(),
  // then work() for the parts in the order of space/overlap.hpp. The owned entries of f and u must be complete before
  // part 0, their halo entries before the halo part. Afterwards, shared entries of out lack the contributions of other
  // ranks, and its halo entries hold the contributions to other ranks.
  void begin(T* out, int outputs) const;
  void work(Term term, const T* u, const T* f, int count, T* out, int outputs, space::Part part) const;

  std::int64_t blocks(Shape shape) const;
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  space::Space<T>& space_;
  std::vector<Shape> shapes_;  // [blocks]
  device::Array<T> values_, coordinates_;
  SimdTables<T> tables_{};
  SimdGeometry<T> geometry_{};
  simd::ThreadScratch<T> scratch_;
};

}  // namespace weft::flow
