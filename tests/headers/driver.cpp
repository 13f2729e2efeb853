// weft's declarations of the GPU drivers, compared with the vendors' headers. Compiled by test_gpu_headers.py.
#include <cstddef>

#include "same_abi.hpp"
#include "weft/device/gpu_api.hpp"
#include "weft/device/gpu_names.hpp"

#ifdef WEFT_HEADERS_OF_HIP
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1  // overloads of what the library exports
#include <hip/hip_runtime_api.h>
#define WEFT_CHOOSE(cuda, hip) hip
#else
#define __CUDA_API_VERSION_INTERNAL 1  // every version under its own name: what dlsym finds
#include <cuda.h>
#define WEFT_CHOOSE(cuda, hip) cuda
#endif

using namespace weft::device;

#define WEFT_CHECK(ours, theirs)                                                             \
  static_assert(same_abi<std::remove_pointer_t<decltype(ours)>, decltype(theirs)>(), #theirs \
                " has another "                                                              \
                "signature");
#define WEFT_CHECK_FUNCTION(member, cuda, hip) WEFT_CHECK(GpuApi::member, WEFT_CHOOSE(cuda, hip))
WEFT_GPU_FUNCTIONS(WEFT_CHECK_FUNCTION)
WEFT_GPU_OPTIONAL_FUNCTIONS(WEFT_CHECK_FUNCTION)

#define WEFT_CHECK_CONSTANT(name, value, cuda, hip) \
  static_assert(gpu::name == static_cast<int>(WEFT_CHOOSE(cuda, hip)), #name " has another value");
WEFT_GPU_CONSTANTS(WEFT_CHECK_CONSTANT)
#define WEFT_CHECK_ATTRIBUTE(name, cuda_value, cuda, hip_value, hip)                            \
  static_assert(WEFT_CHOOSE(cuda_value, hip_value) == static_cast<int>(WEFT_CHOOSE(cuda, hip)), \
                #name " has another value");
WEFT_GPU_ATTRIBUTES(WEFT_CHECK_ATTRIBUTE)

#ifdef WEFT_HEADERS_OF_HIP
#define WEFT_CHECK_OWN(member, name) WEFT_CHECK(gpu::HipFunctions::member, name)
WEFT_HIP_FUNCTIONS(WEFT_CHECK_OWN)
static_assert(hipSuccess == 0);
static_assert(gpu::with_peer_access(true, HIP_VERSION) == hipIpcMemLazyEnablePeerAccess);
static_assert(sizeof(hipIpcMemHandle_t) == sizeof(SharedHandle) && sizeof(hipIpcEventHandle_t) == sizeof(SharedHandle));
static_assert(sizeof(hipDeviceptr_t) == sizeof(void*));
// The name of the device, behind which the architecture is looked for.
static_assert(offsetof(hipDeviceProp_t, name) == 0 && sizeof(hipDeviceProp_t::name) == 256);
static_assert(offsetof(hipDeviceProp_t, gcnArchName) + sizeof(hipDeviceProp_t::gcnArchName) <= 16384);
#else
#define WEFT_CHECK_OWN(member, name) WEFT_CHECK(gpu::CudaFunctions::member, name)
WEFT_CUDA_FUNCTIONS(WEFT_CHECK_OWN)
static_assert(CUDA_SUCCESS == 0);
static_assert(gpu::with_peer_access(false, CUDA_VERSION) == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(gpu::capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(gpu::capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(sizeof(CUipcMemHandle) == sizeof(SharedHandle) && sizeof(CUipcEventHandle) == sizeof(SharedHandle));
static_assert(sizeof(CUuuid) == 16 && sizeof(CUdeviceptr) == sizeof(void*));
#endif
