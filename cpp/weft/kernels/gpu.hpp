// Instructions that C++ has no words for: see dialect.hpp.
#pragma once

// In double a division has a branch, so it starts from the hardware's approximation y (PTX ISA: about 2^-20; gfx: 2^-24
// or better) and takes y (1 + e + e^2) with e = 1 - x y, whose relative error is e^3. Not for sm_80, where this makes
// the operator on trilinear elements spill at N = 7.
WEFT_FUNCTION float weft_reciprocal(float x) { return 1.0f / x; }
WEFT_FUNCTION double weft_reciprocal(double x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  return 1.0 / x;
#else
  double y;
#if defined(__CUDA_ARCH__)
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
#else
  y = __builtin_amdgcn_rcp(x);
#endif
  const double e = fma(-x, y, 1.0);
  return fma(y, fma(e, e, e), y);
#endif
}
