// The functions and constants of cuFFT and hipFFT, with their names in the vendors' headers (which tests/headers
// compares with them).
#pragma once

#include <cstddef>

#include "weft/fft/gpu_library.hpp"

namespace weft::fft::gpu {

// cufftType and hipfftType have the same values (cuFFT documentation, section 3.2.3; hipfft.h).
enum Type { r2c = 0x2a, c2r = 0x2c, c2c = 0x29, d2z = 0x6a, z2d = 0x6c, z2z = 0x69 };
inline constexpr int forward = -1, backward = 1;  // CUFFT_FORWARD, CUFFT_INVERSE
enum Code { success = 0, alloc_failed = 2 };

// cuFFT's plan is an int, hipFFT's a pointer. A pointer holds either, and both are passed in a register.
using Handle = void*;

struct Functions : GpuLibrary {
  bool hip = false;
  int (*version_of)(int* version);
  int (*create)(Handle* plan);
  int (*destroy)(Handle plan);
  int (*set_auto_allocation)(Handle plan, int automatic);
  int (*make_many)(Handle plan, int rank, int* n, int* embed_in, int stride_in, int distance_in, int* embed_out,
                   int stride_out, int distance_out, int type, int batch, std::size_t* work_bytes);
  int (*make_many_64)(Handle plan, int rank, long long* n, long long* embed_in, long long stride_in,
                      long long distance_in, long long* embed_out, long long stride_out, long long distance_out,
                      int type, long long batch, std::size_t* work_bytes);
  int (*set_work_area)(Handle plan, void* memory);
  int (*set_stream)(Handle plan, void* stream);
  // Indexed by precision: double, float.
  int (*execute_r2c[2])(Handle plan, void* in, void* out);
  int (*execute_c2r[2])(Handle plan, void* in, void* out);
  int (*execute_c2c[2])(Handle plan, void* in, void* out, int sign);
};

// Names without the prefix "cufft" or "hipfft".
#define WEFT_FFT_FUNCTIONS(X)               \
  X(version_of, GetVersion)                 \
  X(create, Create)                         \
  X(destroy, Destroy)                       \
  X(set_auto_allocation, SetAutoAllocation) \
  X(make_many, MakePlanMany)                \
  X(make_many_64, MakePlanMany64)           \
  X(set_work_area, SetWorkArea)             \
  X(set_stream, SetStream)                  \
  X(execute_r2c[0], ExecD2Z)                \
  X(execute_r2c[1], ExecR2C)                \
  X(execute_c2r[0], ExecZ2D)                \
  X(execute_c2r[1], ExecC2R)                \
  X(execute_c2c[0], ExecZ2Z)                \
  X(execute_c2c[1], ExecC2C)

}  // namespace weft::fft::gpu
