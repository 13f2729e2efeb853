#include "weft/device/gpu_api.hpp"

#include <cstring>
#include <vector>

#include "weft/device/dynamic_library.hpp"
#include "weft/device/gpu_names.hpp"

namespace weft::device {
namespace {

// The entry points that have the same signature in both drivers.
void find_functions(GpuApi& api, DynamicLibrary& library) {
  const bool hip = api.backend == Backend::hip;
#define WEFT_FIND(member, cuda_name, hip_name) library.find(api.member, hip ? #hip_name : #cuda_name);
  WEFT_GPU_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
#define WEFT_FIND(member, cuda_name, hip_name) library.find_optional(api.member, hip ? #hip_name : #cuda_name);
  WEFT_GPU_OPTIONAL_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
}

// Starts the driver and counts its devices; an error is reported in api.problem.
void start(GpuApi& api, const DynamicLibrary& library) {
  if (!library) {
    api.problem = library.problem;
    return;
  }
  int code = api.init(0);
  if (code == 0) code = api.count_devices(&api.device_count);
  if (code != 0) {
    api.problem = "the driver does not start: " + api.error_text(code);
  } else if (api.device_count == 0) {
    api.problem = "the driver finds no GPU";
  } else {
    api.version_of_driver(&api.driver_version);
  }
}

GpuApi open_cuda_api() {
  GpuApi api{};
  api.backend = Backend::cuda;
  DynamicLibrary library({"libcuda.so.1"});
  find_functions(api, library);
  gpu::CudaFunctions own{};
#define WEFT_FIND(member, name) library.find(own.member, #name);
  WEFT_CUDA_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  api.error_text = [=](int code) {
    const char* text = nullptr;
    own.error_string(code, &text);
    return std::string(text != nullptr ? text : "unknown error") + " (" + std::to_string(code) + ")";
  };
  api.retain_context = [=](void** context, int ordinal) { return own.retain(context, ordinal); };
  api.activate = [=](void* context, int) { return own.set_current(context); };
  api.module_variable = own.module_variable;
  api.set_function_attribute = own.set_function_attribute;
  api.architecture = [attribute = api.device_attribute](int ordinal) {
    int major = 0, minor = 0;
    attribute(&major, gpu::capability_major, ordinal);
    attribute(&minor, gpu::capability_minor, ordinal);
    return "sm_" + std::to_string(10 * major + minor);
  };
#define WEFT_SET(name, value, cuda_name, hip_value, hip_name) api.attributes.name = value;
  WEFT_GPU_ATTRIBUTES(WEFT_SET)
#undef WEFT_SET
  start(api, library);
  return api;
}

GpuApi open_hip_api() {
  GpuApi api{};
  api.backend = Backend::hip;
  DynamicLibrary library({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
  find_functions(api, library);
  gpu::HipFunctions own{};
#define WEFT_FIND(member, name) library.find(own.member, #name);
  WEFT_HIP_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  // hipDeviceProp_t has two layouts in different versions, and the function two names.
  auto* properties = library.find_optional<int(void*, int)>("hipGetDevicePropertiesR0600");
  if (properties == nullptr) library.find(properties, "hipGetDeviceProperties");
  api.error_text = [=](int code) { return std::string(own.error_string(code)) + " (" + std::to_string(code) + ")"; };
  api.retain_context = [](void**, int) { return 0; };  // HIP has a current device instead
  api.activate = [=](void*, int ordinal) { return own.set_device(ordinal); };
  api.architecture = [=](int ordinal) -> std::string {
    // In both layouts the architecture is the only string beginning with "gfx" after the 256 bytes of the name.
    constexpr std::size_t name_bytes = 256;
    std::vector<char> buffer(16384);
    if (properties(buffer.data(), ordinal) != 0) return "";
    const std::string text(buffer.begin() + name_bytes, buffer.end());
    const std::size_t found = text.find("gfx");
    return found == text.npos ? "" : std::string(text.c_str() + found);
  };
#define WEFT_SET(name, cuda_value, cuda_name, value, hip_name) api.attributes.name = value;
  WEFT_GPU_ATTRIBUTES(WEFT_SET)
#undef WEFT_SET
  start(api, library);
  return api;
}

}  // namespace

const GpuApi& cuda_api() {
  static const GpuApi api = open_cuda_api();
  return api;
}

const GpuApi& hip_api() {
  static const GpuApi api = open_hip_api();
  return api;
}

}  // namespace weft::device
