// The dialect kernels are written in. One source, four targets:
//   host  (default)             a block is a function call, WEFT_THREADS are loops; instantiated by CMake
//   gpu   (WEFT_TARGET_GPU)     NVRTC and hipRTC, at run time
//   fiber (WEFT_TARGET_FIBER)   tests: the gpu branch on the CPU, one fiber per thread, random order between barriers
//
// A kernel file includes this header, uses the macros WEFT_N, WEFT_REAL and WEFT_TILE_* as its constants, and is
// self-contained: no standard headers (NVRTC has none). Example:
//
//   WEFT_KERNEL(axpy, 256, (int n, real a, const real* x, real* y)) {
//     WEFT_THREADS(t, 256) {
//       const int i = WEFT_BLOCK * 256 + t;
//       if (i < n) y[i] += a * x[i];
//     }
//   }
//
// WEFT_KERNEL(name, threads, (parameters)) declares a kernel of `threads` threads per block (the product of its shape).
// WEFT_SHARED(type, name[..]) is shared memory of the block. Threads exchange values through it, with WEFT_BARRIER()
//   between the WEFT_THREADS loops that write and read it.
// WEFT_WARP_BARRIER() is a barrier for the threads of each warp: 32 consecutive threads.
// weft_multiply_transposed(c, a, b) is c += a b^T for 8 x 8 matrices, one of each per warp. They are held in slots:
//   thread 4 i + j of a warp has elements 2 j and 2 j + 1 of row i. All threads of the block take part, outside
//   WEFT_THREADS.
// A register that lives across a barrier is `real r[WEFT_SLOTS(threads)][K]`, used as r[WEFT_SLOT(t)][k]: one slot
//   per thread on the host, a single one on a GPU.
// WEFT_THREADS / WEFT_THREADS_2D / WEFT_THREADS_3D open the body that each thread runs; no barrier inside.
// WEFT_STRIDED(i, n, threads) deals i = 0, …, n - 1 to the threads of a block in turn; no barrier inside.
// weft_reciprocal(x) and weft_reciprocal_root(x) are 1 / x and 1 / sqrt(x) to about one unit in the last place, and
//   faster than a division. On a GPU, x and the result must be normal numbers.
// weft_prefetch(begin, bytes) prefetches consecutive bytes of global memory into the L2 cache, on GPUs that support it
//   (sm_90 and later). Both arguments must be multiples of 16, and the same for all threads that call it.
// weft_anew(value) returns an int or a pointer, but hides this from compilers for NVIDIA GPUs: what follows from it is
//   computed again, or read again from a cache, instead of being kept in registers.
#pragma once

#if defined(WEFT_TARGET_GPU) || defined(WEFT_TARGET_FIBER)
#if defined(WEFT_TARGET_GPU)
// The minimum number of blocks that a multiprocessor should hold; a file may define it, and redefine it for each
// kernel. Without it, ptxas aims at full occupancy, 32 registers per thread, and spills. HIP's second launch bound has
// a different meaning.
#if defined(__HIP__)
#define WEFT_BOUNDS(threads) __launch_bounds__(threads, 1)
#else
#define WEFT_BOUNDS(threads) __launch_bounds__(threads, WEFT_MIN_BLOCKS)
#endif
#if !defined(WEFT_MIN_BLOCKS)
#define WEFT_MIN_BLOCKS 1
#endif
#define WEFT_ENTRY(name, threads, parameters) extern "C" __global__ WEFT_BOUNDS(threads) void name parameters
#if defined(WEFT_ONE_KERNEL)
// Compiles only one kernel of the file: the compiler is given -DWEFT_ONLY_<its name>=~,WEFT_ENTRY. No code is generated
// for the others, for which the tile sizes of this compilation are not meant.
#define WEFT_LEFT_OUT(name, threads, parameters) \
  template <int>                                 \
  __device__ void name parameters
#define WEFT_SECOND(first, second, ...) second
#define WEFT_CHOOSE(...) WEFT_SECOND(__VA_ARGS__)
#define WEFT_KERNEL(name, threads, parameters) \
  WEFT_CHOOSE(WEFT_ONLY_##name, WEFT_LEFT_OUT, ~)(name, threads, parameters)
#else
#define WEFT_KERNEL WEFT_ENTRY
#endif
#define WEFT_BLOCK (static_cast<int>(blockIdx.x))
#define WEFT_BARRIER() __syncthreads()
#if defined(__HIP__)
#define WEFT_WARP_BARRIER() (__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"), __builtin_amdgcn_wave_barrier())
#else
#define WEFT_WARP_BARRIER() __syncwarp()
#endif
#define WEFT_FUNCTION static __device__ __forceinline__
#define WEFT_SHARED(type, declaration) __shared__ type declaration
#define WEFT_RESTRICT __restrict__
#define WEFT_UNROLL _Pragma("unroll")
#define WEFT_NO_UNROLL _Pragma("unroll 1")
#else
#include "weft/kernels/fiber.hpp"
#endif
#define WEFT_SLOTS(threads) 1
#define WEFT_SLOT(t) 0
#define WEFT_THREADS(i, ni) if ([[maybe_unused]] const int i = static_cast<int>(threadIdx.x); true)
#define WEFT_STRIDED(i, n, threads) \
  WEFT_NO_UNROLL                    \
  for (int i = static_cast<int>(threadIdx.x); i < (n); i += (threads))
#define WEFT_THREADS_2D(i, ni, j, nj) \
  if (const int i = static_cast<int>(threadIdx.x), j = static_cast<int>(threadIdx.y); true)
#define WEFT_THREADS_3D(i, ni, j, nj, k, nk)                                          \
  if (const int i = static_cast<int>(threadIdx.x), j = static_cast<int>(threadIdx.y), \
      k = static_cast<int>(threadIdx.z);                                              \
      true)
#else
#include "weft/kernels/host.hpp"
#define WEFT_BARRIER() static_cast<void>(0)
#define WEFT_WARP_BARRIER() static_cast<void>(0)
#define WEFT_FUNCTION static inline
#define WEFT_SHARED(type, declaration) alignas(64) type declaration
#define WEFT_RESTRICT __restrict__
#define WEFT_UNROLL
#define WEFT_NO_UNROLL
#define WEFT_SLOTS(threads) (threads)
#define WEFT_SLOT(t) (t)
#define WEFT_THREADS(i, ni) for (int i = 0; i < (ni); ++i)
#define WEFT_STRIDED(i, n, threads) for (int i = 0; i < (n); ++i)
#define WEFT_THREADS_2D(i, ni, j, nj) \
  for (int j = 0; j < (nj); ++j)      \
    for (int i = 0; i < (ni); ++i)
#define WEFT_THREADS_3D(i, ni, j, nj, k, nk) \
  for (int k = 0; k < (nk); ++k)             \
    for (int j = 0; j < (nj); ++j)           \
      for (int i = 0; i < (ni); ++i)
#endif

#if defined(WEFT_TARGET_GPU)
#include "weft/kernels/gpu.hpp"
#else
#include "weft/kernels/plain.hpp"
#endif
