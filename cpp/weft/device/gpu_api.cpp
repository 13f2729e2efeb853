#include "weft/device/gpu_api.hpp"

#include <cstring>
#include <vector>

#include "weft/device/dynamic_library.hpp"

namespace weft::device {
namespace {

// The entry points that have the same signature in both drivers, with their two names.
void find_functions(GpuApi& api, DynamicLibrary& library) {
  const bool hip = api.backend == Backend::hip;
  const auto find = [&](auto*& function, const char* cuda_name, const char* hip_name) {
    library.find(function, hip ? hip_name : cuda_name);
  };
  find(api.device_name, "cuDeviceGetName", "hipDeviceGetName");
  find(api.device_memory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem");
  find(api.device_attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute");
  find(api.allocate, "cuMemAlloc_v2", "hipMalloc");
  find(api.release, "cuMemFree_v2", "hipFree");
  find(api.allocate_pinned, "cuMemHostAlloc", "hipHostMalloc");
  find(api.release_pinned, "cuMemFreeHost", "hipHostFree");
  find(api.copy_to_device, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync");
  find(api.copy_to_host, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync");
  find(api.copy_on_device, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync");
  find(api.fill, "cuMemsetD8Async", "hipMemsetD8Async");
  find(api.create_stream, "cuStreamCreate", "hipStreamCreateWithFlags");
  find(api.destroy_stream, "cuStreamDestroy_v2", "hipStreamDestroy");
  find(api.synchronize_stream, "cuStreamSynchronize", "hipStreamSynchronize");
  find(api.stream_wait_event, "cuStreamWaitEvent", "hipStreamWaitEvent");
  find(api.create_event, "cuEventCreate", "hipEventCreateWithFlags");
  find(api.destroy_event, "cuEventDestroy_v2", "hipEventDestroy");
  find(api.record_event, "cuEventRecord", "hipEventRecord");
  find(api.synchronize_event, "cuEventSynchronize", "hipEventSynchronize");
  find(api.add_callback, "cuStreamAddCallback", "hipStreamAddCallback");
  find(api.event_milliseconds, "cuEventElapsedTime", "hipEventElapsedTime");
  find(api.load_module, "cuModuleLoadData", "hipModuleLoadData");
  find(api.unload_module, "cuModuleUnload", "hipModuleUnload");
  find(api.module_function, "cuModuleGetFunction", "hipModuleGetFunction");
  find(api.function_attribute, "cuFuncGetAttribute", "hipFuncGetAttribute");
  find(api.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",
       "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
  find(api.launch, "cuLaunchKernel", "hipModuleLaunchKernel");
  find(api.begin_capture, "cuStreamBeginCapture_v2", "hipStreamBeginCapture");
  find(api.end_capture, "cuStreamEndCapture", "hipStreamEndCapture");
  find(api.instantiate_graph, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags");
  find(api.launch_graph, "cuGraphLaunch", "hipGraphLaunch");
  find(api.destroy_graph, "cuGraphDestroy", "hipGraphDestroy");
  find(api.destroy_executable, "cuGraphExecDestroy", "hipGraphExecDestroy");
  const auto find_optional = [&]<class F>(F*& function, const char* cuda_name, const char* hip_name) {
    function = library.find_optional<F>(hip ? hip_name : cuda_name);
  };
  find_optional(api.memory_handle, "cuIpcGetMemHandle", "hipIpcGetMemHandle");
  find_optional(api.open_memory, "cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle");
  find_optional(api.close_memory, "cuIpcCloseMemHandle", "hipIpcCloseMemHandle");
  find_optional(api.event_handle, "cuIpcGetEventHandle", "hipIpcGetEventHandle");
  find_optional(api.open_event, "cuIpcOpenEventHandle", "hipIpcOpenEventHandle");
}

// Starts the driver and counts its devices; an error is reported in api.problem.
void start(GpuApi& api, DynamicLibrary& library, const char* prefix, const char* count_name) {
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  library.find(init, (std::string(prefix) + "Init").c_str());
  library.find(version, (std::string(prefix) + "DriverGetVersion").c_str());
  library.find(count, count_name);
  if (!library) {
    api.problem = library.problem;
    return;
  }
  int code = init(0);
  if (code == 0) code = count(&api.device_count);
  if (code != 0) {
    api.problem = "the driver does not start: " + api.error_text(code);
  } else if (api.device_count == 0) {
    api.problem = "the driver finds no GPU";
  } else {
    version(&api.driver_version);
  }
}

GpuApi open_cuda_api() {
  GpuApi api{};
  api.backend = Backend::cuda;
  DynamicLibrary library({"libcuda.so.1"});
  find_functions(api, library);
  int (*error_string)(int, const char**) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  library.find(error_string, "cuGetErrorString");
  library.find(retain, "cuDevicePrimaryCtxRetain");
  library.find(set_current, "cuCtxSetCurrent");
  api.error_text = [=](int code) {
    const char* text = nullptr;
    error_string(code, &text);
    return std::string(text != nullptr ? text : "unknown error") + " (" + std::to_string(code) + ")";
  };
  api.retain_context = [=](void** context, int ordinal) { return retain(context, ordinal); };
  api.activate = [=](void* context, int) { return set_current(context); };
  api.architecture = [attribute = api.device_attribute](int ordinal) {
    constexpr int capability_major = 75, capability_minor = 76;
    int major = 0, minor = 0;
    attribute(&major, capability_major, ordinal);
    attribute(&minor, capability_minor, ordinal);
    return "sm_" + std::to_string(10 * major + minor);
  };
  api.attributes = {.multiprocessors = 16, .warp_size = 10, .registers = 82, .shared_bytes = 81, .threads = 39};
  start(api, library, "cu", "cuDeviceGetCount");
  return api;
}

GpuApi open_hip_api() {
  GpuApi api{};
  api.backend = Backend::hip;
  DynamicLibrary library({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
  find_functions(api, library);
  const char* (*error_string)(int) = nullptr;
  int (*set_device)(int) = nullptr;
  library.find(error_string, "hipGetErrorString");
  library.find(set_device, "hipSetDevice");
  // hipDeviceProp_t has two layouts in different versions, and the function two names.
  auto* properties = library.find_optional<int(void*, int)>("hipGetDevicePropertiesR0600");
  if (properties == nullptr) library.find(properties, "hipGetDeviceProperties");
  api.error_text = [=](int code) { return std::string(error_string(code)) + " (" + std::to_string(code) + ")"; };
  api.retain_context = [](void**, int) { return 0; };  // HIP has a current device instead
  api.activate = [=](void*, int ordinal) { return set_device(ordinal); };
  api.architecture = [=](int ordinal) -> std::string {
    // In both layouts the architecture is the only string beginning with "gfx" after the 256 bytes of the name.
    constexpr std::size_t name_bytes = 256;
    std::vector<char> buffer(16384);
    if (properties(buffer.data(), ordinal) != 0) return "";
    const std::string text(buffer.begin() + name_bytes, buffer.end());
    const std::size_t found = text.find("gfx");
    return found == text.npos ? "" : std::string(text.c_str() + found);
  };
  api.attributes = {.multiprocessors = 63, .warp_size = 87, .registers = 72, .shared_bytes = 10002, .threads = 57};
  start(api, library, "hip", "hipGetDeviceCount");
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
