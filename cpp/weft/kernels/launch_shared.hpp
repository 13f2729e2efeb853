// Shared memory that a launch gives to a block, in addition to what its kernel declares with WEFT_SHARED. A kernel for
// NVIDIA's GPUs can declare at most 48 KB. A launch can request more.
//
// WEFT_LAUNCH_SHARED(kernel, bytes), after the kernel, says how much a block needs: 0 or a constant. The code that
// loads kernels (device/gpu_device.cpp) reads it and asks for as much. weft_launch_shared<T>() is where that memory
// begins. Other targets have none: a kernel tests weft_has_launch_shared and declares all of its memory there.
#pragma once
#include "weft/kernels/dialect.hpp"

#if defined(WEFT_TARGET_GPU) && !defined(__HIP__)
constexpr bool weft_has_launch_shared = true;
#define WEFT_LAUNCH_SHARED(kernel, bytes) extern "C" __device__ __attribute__((used)) int kernel##_launch_shared = bytes
template <class T>
WEFT_FUNCTION T* weft_launch_shared() {
  extern __shared__ __align__(16) char weft_shared_bytes[];
  return reinterpret_cast<T*>(weft_shared_bytes);
}
#else
constexpr bool weft_has_launch_shared = false;
#define WEFT_LAUNCH_SHARED(kernel, bytes) static_assert((bytes) == 0)
template <class T>
WEFT_FUNCTION T* weft_launch_shared() {
  return nullptr;
}
#endif
