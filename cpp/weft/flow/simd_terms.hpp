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
#include "weft/simd/thread_scratch.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

// T: float or double.
template <class T>
class SimdTerms {
 public:
  explicit SimdTerms(space::Space<T>& space);  // which has blocks and must live as long

  // A term, 0..5 as in enum Term, of f [count][entries] (and u) to out [outputs][entries]: begin(), then the parts of
  // space/overlap.hpp in their order. f's and u's owned entries must be there before part 0, halo entries before
  // that of the halo; shared entries of out lack what other ranks add, and its halo entries hold what goes to them.
  void begin(T* out, int outputs) const;
  void work(int term, const T* u, const T* f, int count, T* out, int outputs, space::Part part) const;

  std::int64_t blocks(Shape shape) const;
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  space::Space<T>& space_;
  device::Array<T> values_, coordinates_;
  SimdTables<T> tables_{};
  SimdGeometry<T> geometry_{};
  simd::ThreadScratch<T> scratch_;
};

}  // namespace weft::flow
