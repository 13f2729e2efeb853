// Operations that need special GPU instructions: see dialect.hpp.
#pragma once

// A division in double precision contains a branch. Instead, this starts from the hardware's approximation y (PTX ISA:
// about 2^-20; gfx: 2^-24 or better) and computes y (1 + e + e^2) with e = 1 - x y, whose relative error is e^3.
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

WEFT_FUNCTION int weft_anew(int value) {
  int none = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(none));
#endif
  return value + none;
}
template <class T>
WEFT_FUNCTION const T* weft_anew(const T* pointer) {
  return pointer + weft_anew(0);
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

// One multiply-add takes an 8 x 4 matrix a and a 4 x 8 matrix b: thread 4 i + j holds a[i][j] and b[j][i], and the same
// part of c as here (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type"). The sum over k may be
// in any order, so even k are taken first, then odd k: then each thread already holds what it needs.
WEFT_FUNCTION void weft_multiply_transposed(double (&c)[1][2], const double (&a)[1][2], const double (&b)[1][2]) {
#if defined(__CUDA_ARCH__)
  WEFT_UNROLL
  for (int k = 0; k < 2; ++k)
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c[0][0]), "+d"(c[0][1])
                 : "d"(a[0][k]), "d"(b[0][k]));
#else
  const int lane = static_cast<int>(threadIdx.x) % 64, first = lane / 32 * 32, own = lane % 32;
  const auto of = [](double value, int from) {
    int words[2];
    __builtin_memcpy(words, &value, sizeof value);
    for (int& word : words) word = __builtin_amdgcn_ds_bpermute(4 * from, word);
    __builtin_memcpy(&value, words, sizeof value);
    return value;
  };
  WEFT_NO_UNROLL  // registers are scarce
      for (int k = 0; k < 4; ++k) WEFT_UNROLL for (int e = 0; e < 2; ++e) WEFT_UNROLL for (int p = 0; p < 2; ++p)
          c[0][e] += of(a[0][p], first + own / 4 * 4 + k) * of(b[0][p], first + own % 4 * 8 + 4 * e + k);
#endif
}
