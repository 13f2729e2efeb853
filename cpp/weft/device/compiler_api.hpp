// The functions of the run-time compilers, with their names in the vendors' headers. tests/headers compares them with
// those headers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::device {

// NVRTC and hipRTC provide the same functions under different prefixes.
struct CompilerApi {
  std::string problem;
  std::string version_text;

  int (*version)(int* major, int* minor);
  int (*create)(void** program, const char* text, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names);
  int (*compile)(void* program, int options, const char* const* option_texts);
  int (*log_size)(void* program, std::size_t* bytes);
  int (*log)(void* program, char* text);
  int (*image_size)(void* program, std::size_t* bytes);
  int (*image)(void* program, char* bytes);
  int (*destroy)(void** program);
  const char* (*error_text)(int code);
  // NVRTC only, since CUDA 11.2; null where absent.
  int (*ptx_size)(void* program, std::size_t* bytes);
  int (*ptx)(void* program, char* bytes);
  int (*count_known)(int* count);
  int (*known_to)(int* architectures);

  std::vector<int> known;  // NVRTC's architectures: 90 for sm_90; empty if it does not list them
};

#define WEFT_COMPILER_FUNCTIONS(X)                             \
  X(version, nvrtcVersion, hiprtcVersion)                      \
  X(create, nvrtcCreateProgram, hiprtcCreateProgram)           \
  X(compile, nvrtcCompileProgram, hiprtcCompileProgram)        \
  X(log_size, nvrtcGetProgramLogSize, hiprtcGetProgramLogSize) \
  X(log, nvrtcGetProgramLog, hiprtcGetProgramLog)              \
  X(image_size, nvrtcGetCUBINSize, hiprtcGetCodeSize)          \
  X(image, nvrtcGetCUBIN, hiprtcGetCode)                       \
  X(destroy, nvrtcDestroyProgram, hiprtcDestroyProgram)        \
  X(error_text, nvrtcGetErrorString, hiprtcGetErrorString)
#define WEFT_NVRTC_FUNCTIONS(X)             \
  X(ptx_size, nvrtcGetPTXSize)              \
  X(ptx, nvrtcGetPTX)                       \
  X(count_known, nvrtcGetNumSupportedArchs) \
  X(known_to, nvrtcGetSupportedArchs)

}  // namespace weft::device
