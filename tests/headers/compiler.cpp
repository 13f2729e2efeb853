// weft's declarations of the run-time compilers, compared with the vendors' headers. Compiled by test_gpu_headers.py.
#include "same_abi.hpp"
#include "weft/device/compiler_api.hpp"

#ifdef WEFT_HEADERS_OF_HIP
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hiprtc.h>
#define WEFT_CHOOSE(nvrtc, hiprtc) hiprtc
#else
#include <nvrtc.h>
#define WEFT_CHOOSE(nvrtc, hiprtc) nvrtc
#endif

using weft::device::CompilerApi;

#define WEFT_CHECK(member, name)                                                                  \
  static_assert(same_abi<std::remove_pointer_t<decltype(CompilerApi::member)>, decltype(name)>(), \
                #name " has another signature");
#define WEFT_CHECK_FUNCTION(member, nvrtc, hiprtc) WEFT_CHECK(member, WEFT_CHOOSE(nvrtc, hiprtc))
WEFT_COMPILER_FUNCTIONS(WEFT_CHECK_FUNCTION)
#ifdef WEFT_HEADERS_OF_HIP
static_assert(HIPRTC_SUCCESS == 0);
#else
WEFT_NVRTC_FUNCTIONS(WEFT_CHECK)
static_assert(NVRTC_SUCCESS == 0);
#endif
