// The drivers' functions and constants under weft's names, with their names in CUDA's and HIP's headers. weft builds
// without those headers; tests/headers compares the signatures, values and sizes with them.
#pragma once

// Functions of GpuApi (gpu_api.hpp): member, CUDA's name, HIP's name.
#define WEFT_GPU_FUNCTIONS(X)                                                                                   \
  X(init, cuInit, hipInit)                                                                                      \
  X(version_of_driver, cuDriverGetVersion, hipDriverGetVersion)                                                 \
  X(count_devices, cuDeviceGetCount, hipGetDeviceCount)                                                         \
  X(device_name, cuDeviceGetName, hipDeviceGetName)                                                             \
  X(device_memory, cuDeviceTotalMem_v2, hipDeviceTotalMem)                                                      \
  X(device_attribute, cuDeviceGetAttribute, hipDeviceGetAttribute)                                              \
  X(memory_info, cuMemGetInfo_v2, hipMemGetInfo)                                                                \
  X(allocate, cuMemAlloc_v2, hipMalloc)                                                                         \
  X(release, cuMemFree_v2, hipFree)                                                                             \
  X(allocate_pinned, cuMemHostAlloc, hipHostMalloc)                                                             \
  X(release_pinned, cuMemFreeHost, hipHostFree)                                                                 \
  X(copy_to_device, cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)                                                   \
  X(copy_to_host, cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)                                                     \
  X(copy_on_device, cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)                                                   \
  X(fill, cuMemsetD8Async, hipMemsetD8Async)                                                                    \
  X(create_stream, cuStreamCreate, hipStreamCreateWithFlags)                                                    \
  X(destroy_stream, cuStreamDestroy_v2, hipStreamDestroy)                                                       \
  X(synchronize_stream, cuStreamSynchronize, hipStreamSynchronize)                                              \
  X(stream_wait_event, cuStreamWaitEvent, hipStreamWaitEvent)                                                   \
  X(create_event, cuEventCreate, hipEventCreateWithFlags)                                                       \
  X(destroy_event, cuEventDestroy_v2, hipEventDestroy)                                                          \
  X(record_event, cuEventRecord, hipEventRecord)                                                                \
  X(synchronize_event, cuEventSynchronize, hipEventSynchronize)                                                 \
  X(add_callback, cuStreamAddCallback, hipStreamAddCallback)                                                    \
  X(event_milliseconds, cuEventElapsedTime, hipEventElapsedTime)                                                \
  X(load_module, cuModuleLoadData, hipModuleLoadData)                                                           \
  X(unload_module, cuModuleUnload, hipModuleUnload)                                                             \
  X(module_function, cuModuleGetFunction, hipModuleGetFunction)                                                 \
  X(function_attribute, cuFuncGetAttribute, hipFuncGetAttribute)                                                \
  X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(launch, cuLaunchKernel, hipModuleLaunchKernel)                                                              \
  X(begin_capture, cuStreamBeginCapture_v2, hipStreamBeginCapture)                                              \
  X(end_capture, cuStreamEndCapture, hipStreamEndCapture)                                                       \
  X(instantiate_graph, cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)                               \
  X(launch_graph, cuGraphLaunch, hipGraphLaunch)                                                                \
  X(destroy_graph, cuGraphDestroy, hipGraphDestroy)                                                             \
  X(destroy_executable, cuGraphExecDestroy, hipGraphExecDestroy)

// Functions that a driver may lack: member, CUDA's name, HIP's name.
#define WEFT_GPU_OPTIONAL_FUNCTIONS(X)                       \
  X(device_uuid, cuDeviceGetUuid_v2, hipDeviceGetUuid)       \
  X(memory_handle, cuIpcGetMemHandle, hipIpcGetMemHandle)    \
  X(open_memory, cuIpcOpenMemHandle_v2, hipIpcOpenMemHandle) \
  X(close_memory, cuIpcCloseMemHandle, hipIpcCloseMemHandle) \
  X(event_handle, cuIpcGetEventHandle, hipIpcGetEventHandle) \
  X(open_event, cuIpcOpenEventHandle, hipIpcOpenEventHandle)

// Constants with the same value in both drivers: value, CUDA's name, HIP's name.
#define WEFT_GPU_CONSTANTS(X)                                                                                    \
  X(ordered_stream, 0, CU_STREAM_DEFAULT, hipStreamDefault)                                                      \
  X(portable_pinned_memory, 1, CU_MEMHOSTALLOC_PORTABLE, hipHostMallocPortable)                                  \
  X(capture_of_this_thread, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, hipStreamCaptureModeThreadLocal)             \
  X(untimed_event, 2, CU_EVENT_DISABLE_TIMING, hipEventDisableTiming)                                            \
  X(event_between_processes, 4, CU_EVENT_INTERPROCESS, hipEventInterprocess)                                     \
  X(max_threads_per_block, 0, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) \
  X(shared_bytes, 1, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)                  \
  X(local_bytes, 3, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)                     \
  X(register_count, 4, CU_FUNC_ATTRIBUTE_NUM_REGS, HIP_FUNC_ATTRIBUTE_NUM_REGS)                                  \
  X(launch_shared_bytes, 8, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,                                     \
    HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)                                                            \
  X(not_found, 500, CUDA_ERROR_NOT_FOUND, hipErrorNotFound)

// Attributes of a device: CUDA's value and name, HIP's value and name.
#define WEFT_GPU_ATTRIBUTES(X)                                                                                \
  X(multiprocessors, 16, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 63, hipDeviceAttributeMultiprocessorCount) \
  X(warp_size, 10, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 87, hipDeviceAttributeWarpSize)                             \
  X(registers, 82, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 72,                                  \
    hipDeviceAttributeMaxRegistersPerMultiprocessor)                                                          \
  X(shared_bytes, 81, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 10002,                        \
    hipDeviceAttributeMaxSharedMemoryPerMultiprocessor)                                                       \
  X(threads, 39, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 57, hipDeviceAttributeMaxThreadsPerMultiProcessor)

namespace weft::device::gpu {

// Functions that only one of the drivers has.
struct CudaFunctions {
  int (*error_string)(int code, const char** text);
  int (*retain)(void** context, int ordinal);
  int (*set_current)(void* context);
  int (*module_variable)(void** pointer, std::size_t* bytes, void* module, const char* name);
  int (*set_function_attribute)(void* function, int attribute, int value);
};
#define WEFT_CUDA_FUNCTIONS(X)             \
  X(error_string, cuGetErrorString)        \
  X(retain, cuDevicePrimaryCtxRetain)      \
  X(set_current, cuCtxSetCurrent)          \
  X(module_variable, cuModuleGetGlobal_v2) \
  X(set_function_attribute, cuFuncSetAttribute)
struct HipFunctions {
  const char* (*error_string)(int code);
  int (*set_device)(int ordinal);
};
#define WEFT_HIP_FUNCTIONS(X)        \
  X(error_string, hipGetErrorString) \
  X(set_device, hipSetDevice)

#define WEFT_CONSTANT(name, value, cuda, hip) inline constexpr int name = value;
WEFT_GPU_CONSTANTS(WEFT_CONSTANT)
#undef WEFT_CONSTANT
inline constexpr int capability_major = 75, capability_minor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*

// The flag required to open another process's memory: CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
// hipIpcMemLazyEnablePeerAccess. Before version 6 HIP's flag was 0, and HIP refuses any other value.
constexpr unsigned with_peer_access(bool hip, int driver_version) {
  constexpr int hip_6 = 60000000;
  return hip && driver_version < hip_6 ? 0 : 1;
}

}  // namespace weft::device::gpu
