// Instructions that C++ has no words for: see dialect.hpp.
#pragma once

// In double a division has a branch, so it starts from the hardware's approximation y (PTX ISA: about 2^-20; gfx: 2^-24
// or better) and takes y (1 + e + e^2) with e = 1 - x y, whose relative error is e^3.
WEFT_FUNCTION float weft_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return __builtin_amdgcn_rcpf(x);
#endif
}
WEFT_FUNCTION double weft_reciprocal(double x) {
  double y;
#if defined(__CUDA_ARCH__)
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
#else
  y = __builtin_amdgcn_rcp(x);
#endif
  const double e = fma(-x, y, 1.0);
  return fma(y, fma(e, e, e), y);
}

WEFT_FUNCTION void weft_prefetch(const void* begin, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(begin), "r"(bytes));
#endif
}

template <class T>
WEFT_FUNCTION const T* weft_anew(const T* pointer) {
  int none = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(none));
#endif
  return pointer + none;
}

WEFT_FUNCTION float weft_reciprocal_root(float x) {
#if defined(__CUDA_ARCH__)
  return rsqrtf(x);
#else
  return __builtin_amdgcn_rsqf(x);
#endif
}
WEFT_FUNCTION double weft_reciprocal_root(double x) {
  double y;
#if defined(__CUDA_ARCH__)
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
#else
  y = __builtin_amdgcn_rsq(x);
#endif
  const double e = fma(-x * y, y, 1.0);
  return fma(y * e, fma(e, 0.375, 0.5), y);
}
