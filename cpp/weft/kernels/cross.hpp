// The cross product of three-vectors of any kind, for kernels and for the host: an array or a struct with three
// members, which may be numbers or SIMD vectors of the host.
#pragma once

#if defined(WEFT_TARGET_GPU)
#define WEFT_CROSS_FUNCTION static __device__ __forceinline__
#else
#define WEFT_CROSS_FUNCTION inline __attribute__((always_inline))
#endif

namespace weft {

template <class V>
WEFT_CROSS_FUNCTION V cross(const V& a, const V& b) {
  const auto& [ax, ay, az] = a;
  const auto& [bx, by, bz] = b;
  return V{ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx};
}

}  // namespace weft
