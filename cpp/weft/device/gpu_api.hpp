// The GPU drivers as a table of entry points. CUDA's driver API and HIP's runtime API have functions of the same form
// under different names (gpu_names.hpp), so one implementation (gpu_device.cpp) serves both. The few functions that
// differ are std::functions here.
//
// Handles (streams, events, modules, graphs) and device addresses are void*: CUdeviceptr has the same representation on
// every system weft builds on. Functions return 0 for success.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "weft/device/device.hpp"

namespace weft::device {

struct GpuApi {
  Backend backend{};
  std::string problem;  // why the driver cannot be used; if set, do not call the functions below
  int driver_version = 0;
  int device_count = 0;

  int (*init)(unsigned flags);
  int (*version_of_driver)(int* version);
  int (*count_devices)(int* count);
  int (*device_name)(char* name, int length, int ordinal);
  int (*device_memory)(std::size_t* bytes, int ordinal);
  int (*device_attribute)(int* value, int attribute, int ordinal);
  int (*device_uuid)(void* sixteen_bytes, int ordinal);  // null if the driver lacks this function
  int (*memory_info)(std::size_t* free, std::size_t* total);
  int (*allocate)(void** pointer, std::size_t bytes);
  int (*release)(void* pointer);
  int (*allocate_pinned)(void** pointer, std::size_t bytes, unsigned flags);
  int (*release_pinned)(void* pointer);
  int (*copy_to_device)(void* to, const void* from, std::size_t bytes, void* stream);
  int (*copy_to_host)(void* to, void* from, std::size_t bytes, void* stream);
  int (*copy_on_device)(void* to, void* from, std::size_t bytes, void* stream);
  int (*fill)(void* pointer, unsigned char value, std::size_t bytes, void* stream);
  int (*create_stream)(void** stream, unsigned flags);
  int (*destroy_stream)(void* stream);
  int (*synchronize_stream)(void* stream);
  int (*stream_wait_event)(void* stream, void* event, unsigned flags);
  int (*create_event)(void** event, unsigned flags);
  int (*destroy_event)(void* event);
  int (*record_event)(void* event, void* stream);
  int (*synchronize_event)(void* event);
  int (*add_callback)(void* stream, void (*function)(void* stream, int code, void* data), void* data, unsigned flags);
  int (*event_milliseconds)(float* milliseconds, void* begin, void* end);
  int (*load_module)(void** module, const void* image);
  int (*unload_module)(void* module);
  int (*module_function)(void** function, void* module, const char* name);
  int (*function_attribute)(int* value, int attribute, void* function);
  int (*occupancy)(int* blocks, void* function, int threads, std::size_t dynamic_shared);
  int (*launch)(void* function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                unsigned threads_y, unsigned threads_z, unsigned dynamic_shared, void* stream, void** arguments,
                void** extra);
  int (*begin_capture)(void* stream, int mode);
  int (*end_capture)(void* stream, void** graph);
  int (*instantiate_graph)(void** executable, void* graph, unsigned long long flags);
  int (*launch_graph)(void* executable, void* stream);
  int (*destroy_graph)(void* graph);
  int (*destroy_executable)(void* executable);

  // Null if the driver has no inter-process handles.
  int (*memory_handle)(SharedHandle* handle, void* pointer);
  int (*open_memory)(void** pointer, SharedHandle handle, unsigned flags);
  int (*close_memory)(void* pointer);
  int (*event_handle)(SharedHandle* handle, void* event);
  int (*open_event)(void** event, SharedHandle handle);

  std::function<std::string(int code)> error_text;
  std::function<std::string(int ordinal)> architecture;  // "sm_90", "gfx90a:sramecc+:xnack-"
  std::function<int(void** context, int ordinal)>
      retain_context;                                       // CUDA's primary context, which CuPy and PyTorch share
  std::function<int(void* context, int ordinal)> activate;  // for the calling thread
  // Empty for HIP, whose kernels declare all of their shared memory.
  std::function<int(void** pointer, std::size_t* bytes, void* module, const char* name)> module_variable;
  std::function<int(void* function, int attribute, int value)> set_function_attribute;

  struct {
    int multiprocessors, warp_size, registers, shared_bytes, threads;  // the last three are per multiprocessor
  } attributes;
};

// Opened once. If that fails, `problem` says why.
const GpuApi& cuda_api();
const GpuApi& hip_api();
inline const GpuApi& gpu_api(Backend backend) { return backend == Backend::hip ? hip_api() : cuda_api(); }

}  // namespace weft::device
