// weft's declarations of cuFFT and hipFFT, compared with the vendors' headers. Compiled by test_gpu_headers.py.
#include <utility>

#include "same_abi.hpp"
#include "weft/fft/gpu_library_api.hpp"

#ifdef WEFT_HEADERS_OF_HIP
#define __HIP_PLATFORM_AMD__ 1
#include <hipfft/hipfft.h>
#define WEFT_CHOOSE(cufft, hipfft) hipfft
#else
#include <cufft.h>
#define WEFT_CHOOSE(cufft, hipfft) cufft
#endif

using namespace weft::fft;

#define WEFT_CHECK_FUNCTION(member, name)                                                                              \
  static_assert(SameFftFunction<                                                                                       \
                    std::remove_pointer_t<std::remove_reference_t<decltype((std::declval<gpu::Functions>().member))>>, \
                    decltype(WEFT_CHOOSE(cufft##name, hipfft##name))>::value,                                          \
                #name " has another signature");
WEFT_FFT_FUNCTIONS(WEFT_CHECK_FUNCTION)

#define WEFT_CHECK_CONSTANT(ours, name) \
  static_assert(static_cast<int>(gpu::ours) == static_cast<int>(WEFT_CHOOSE(CUFFT_##name, HIPFFT_##name)), #name);
WEFT_CHECK_CONSTANT(r2c, R2C)
WEFT_CHECK_CONSTANT(c2r, C2R)
WEFT_CHECK_CONSTANT(c2c, C2C)
WEFT_CHECK_CONSTANT(d2z, D2Z)
WEFT_CHECK_CONSTANT(z2d, Z2D)
WEFT_CHECK_CONSTANT(z2z, Z2Z)
WEFT_CHECK_CONSTANT(success, SUCCESS)
WEFT_CHECK_CONSTANT(alloc_failed, ALLOC_FAILED)
#ifdef WEFT_HEADERS_OF_HIP
static_assert(gpu::forward == HIPFFT_FORWARD && gpu::backward == HIPFFT_BACKWARD);
static_assert(sizeof(hipfftHandle) == sizeof(gpu::Handle));
#else
static_assert(gpu::forward == CUFFT_FORWARD && gpu::backward == CUFFT_INVERSE);
static_assert(sizeof(cufftHandle) == sizeof(int));
#endif
