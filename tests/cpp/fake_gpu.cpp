#include "fake_gpu.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace {

enum Code {
  ok = 0,
  invalid_value = 1,
  out_of_memory = 2,
  no_context = 201,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  not_permitted_in_capture = 900
};

FakeGpu gpu;
thread_local bool context_is_current = false;

using Work = std::function<void()>;
struct Stream {
  std::deque<Work> queue;
  bool capturing = false, spoiled = false;
  std::vector<Work> captured;
};
struct Event {
  Stream* stream = nullptr;
  bool done = false;
  std::chrono::steady_clock::time_point time;
};
struct Module {
  std::string file, text, options;
};
struct Function {
  Module* module;
  std::string name;
};
struct Graph {
  std::vector<Work> work;
};
struct Program {
  std::string file, text, options, log;
};

std::set<void*> handles;  // of every kind
std::map<char*, std::size_t> device_memory, pinned_memory;

template <class T>
T* make(T value = {}) {
  T* handle = new T(std::move(value));
  handles.insert(handle);
  ++gpu.live;
  return handle;
}
template <class T>
int destroy(void* handle) {
  if (handles.erase(handle) == 0) return invalid_handle;
  --gpu.live;
  delete static_cast<T*>(handle);
  return ok;
}

bool within(const std::map<char*, std::size_t>& memory, const void* pointer, std::size_t bytes) {
  auto* p = static_cast<char*>(const_cast<void*>(pointer));
  auto next = memory.upper_bound(p);
  if (next == memory.begin()) return false;
  --next;
  return p + bytes <= next->first + next->second;
}

void drain(Stream& stream) {
  while (!stream.queue.empty()) {
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    work();
  }
}

int enqueue(void* handle, Work work) {
  if (handles.count(handle) == 0) return invalid_handle;
  auto& stream = *static_cast<Stream*>(handle);
  if (stream.capturing)
    stream.captured.push_back(std::move(work));
  else
    stream.queue.push_back(std::move(work));
  return ok;
}

// The error every call may begin with.
int entry(const char* function) {
  if (gpu.fail == function) {
    gpu.fail.clear();
    return out_of_memory;
  }
  return context_is_current ? ok : no_context;
}

std::string file_of(const std::string& name) { return name.substr(0, name.find('.')); }

}  // namespace

extern "C" {

FakeGpu* fake_gpu() { return &gpu; }

int cuInit(unsigned) { return ok; }
int cuDriverGetVersion(int* version) { return *version = gpu.driver_version, ok; }
int cuDeviceGetCount(int* count) { return *count = gpu.devices, ok; }
int cuDeviceGetName(char* name, int length, int ordinal) {
  if (ordinal >= gpu.devices) return invalid_value;
  const std::string text = "Fake GPU " + std::to_string(ordinal);
  std::strncpy(name, text.c_str(), static_cast<std::size_t>(length));
  return ok;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = std::size_t{1} << 34, ok; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const std::map<int, int> values{{16, 132}, {63, 110}, {10, 32}, {87, 64}, {75, 9}, {76, 0}};
  const auto found = values.find(attribute);
  *value = found == values.end() ? 1 : found->second;
  return ok;
}
int cuGetErrorString(int code, const char** text) {
  return *text = code == out_of_memory ? "out of memory" : "fault", ok;
}
const char* hipGetErrorString(int code) { return code == out_of_memory ? "out of memory" : "fault"; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &gpu, ok; }
int cuCtxSetCurrent(void* context) {
  if (context != &gpu) return invalid_value;
  context_is_current = true;
  return ok;
}
int hipSetDevice(int) { return context_is_current = true, ok; }
int hipGetDevicePropertiesR0600(void* properties, int) {
  std::strcpy(static_cast<char*>(properties), "gfx in a name");
  std::strcpy(static_cast<char*>(properties) + 1160, "gfx90a:sramecc+:xnack-");
  return ok;
}

int cuMemAlloc_v2(void** pointer, std::size_t bytes) {
  if (const int code = entry(__func__)) return code;
  if (bytes == 0) return invalid_value;
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*pointer, 0xFF, bytes);
  device_memory[static_cast<char*>(*pointer)] = bytes;
  ++gpu.live;
  return ok;
}
int cuMemFree_v2(void* pointer) {
  if (const int code = entry(__func__)) return code;
  if (device_memory.erase(static_cast<char*>(pointer)) == 0) return invalid_value;
  --gpu.live;
  std::free(pointer);
  return ok;
}
int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (const int code = entry(__func__)) return code;
  *pointer = std::malloc(bytes);
  pinned_memory[static_cast<char*>(*pointer)] = bytes;
  ++gpu.live;
  return ok;
}
int cuMemFreeHost(void* pointer) {
  if (const int code = entry(__func__)) return code;
  if (pinned_memory.erase(static_cast<char*>(pointer)) == 0) return invalid_value;
  --gpu.live;
  std::free(pointer);
  return ok;
}

int cuMemcpyHtoDAsync_v2(void* to, const void* from, std::size_t bytes, void* stream) {
  if (const int code = entry(__func__)) return code;
  if (!within(device_memory, to, bytes) || within(device_memory, from, 1)) return invalid_value;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, void* from, std::size_t bytes, void* stream) {
  if (const int code = entry(__func__)) return code;
  if (!within(device_memory, from, bytes) || within(device_memory, to, 1)) return invalid_value;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
int cuMemcpyDtoDAsync_v2(void* to, void* from, std::size_t bytes, void* stream) {
  if (const int code = entry(__func__)) return code;
  if (!within(device_memory, from, bytes) || !within(device_memory, to, bytes)) return invalid_value;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
int cuMemsetD8Async(void* to, unsigned char value, std::size_t bytes, void* stream) {
  if (const int code = entry(__func__)) return code;
  if (!within(device_memory, to, bytes)) return invalid_value;
  return enqueue(stream, [=] { std::memset(to, value, bytes); });
}

int cuStreamCreate(void** stream, unsigned) {
  if (const int code = entry(__func__)) return code;
  return *stream = make<Stream>(), ok;
}
int cuStreamDestroy_v2(void* stream) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(stream) == 0) return invalid_handle;
  drain(*static_cast<Stream*>(stream));
  return destroy<Stream>(stream);
}
int cuStreamSynchronize(void* stream) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(stream) == 0) return invalid_handle;
  auto& s = *static_cast<Stream*>(stream);
  if (s.capturing) return s.spoiled = true, not_permitted_in_capture;
  drain(s);
  return ok;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(event) == 0) return invalid_handle;
  return enqueue(stream, [e = static_cast<Event*>(event)] {
    if (e->stream != nullptr && !e->done) drain(*e->stream);
  });
}
int cuEventCreate(void** event, unsigned) {
  if (const int code = entry(__func__)) return code;
  return *event = make<Event>(), ok;
}
int cuEventDestroy_v2(void* event) {
  if (const int code = entry(__func__)) return code;
  return destroy<Event>(event);
}
int cuEventRecord(void* event, void* stream) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(event) == 0) return invalid_handle;
  auto* e = static_cast<Event*>(event);
  e->stream = static_cast<Stream*>(stream);
  e->done = false;
  return enqueue(stream, [=] {
    e->done = true;
    e->time = std::chrono::steady_clock::now();
  });
}
int cuEventSynchronize(void* event) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(event) == 0) return invalid_handle;
  auto& e = *static_cast<Event*>(event);
  if (e.stream != nullptr && !e.done) drain(*e.stream);
  return ok;
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(begin) == 0 || handles.count(end) == 0) return invalid_handle;
  auto &b = *static_cast<Event*>(begin), &e = *static_cast<Event*>(end);
  if (!b.done || !e.done) return not_ready;
  *milliseconds = std::chrono::duration<float, std::milli>(e.time - b.time).count();
  return ok;
}

int cuModuleLoadData(void** module, const void* image) {
  if (const int code = entry(__func__)) return code;
  // "fake image\n", then file, options and text, each ended by a newline and a zero.
  const char* at = static_cast<const char*>(image);
  if (std::strncmp(at, "fake image\n", 11) != 0) return invalid_value;
  at += 11;
  Module m;
  for (std::string* part : {&m.file, &m.options, &m.text}) {
    *part = at;
    at += part->size() + 1;
  }
  *module = make<Module>(std::move(m));
  return ok;
}
int cuModuleUnload(void* module) {
  if (const int code = entry(__func__)) return code;
  return destroy<Module>(module);
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(module) == 0) return invalid_handle;
  auto* m = static_cast<Module*>(module);
  if (m->text.find("WEFT_KERNEL(" + std::string(name) + ",") == std::string::npos) return not_found;
  static std::deque<Function> functions;
  *function = &functions.emplace_back(Function{m, name});
  return ok;
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
  if (const int code = entry(__func__)) return code;
  *value = attribute == 0 ? 256 : 40 + attribute;
  return ok;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, std::size_t) {
  if (const int code = entry(__func__)) return code;
  return *blocks = 2048 / threads, ok;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                   unsigned, void* stream, void** arguments, void**) {
  if (const int code = entry(__func__)) return code;
  if (blocks * by * bz == 0 || tx * ty * tz == 0 || tx * ty * tz > 1024) return invalid_value;
  auto& f = *static_cast<Function*>(function);
  if (handles.count(f.module) == 0) return invalid_handle;
  return enqueue(stream, gpu.prepare({f.module->file, f.name, f.module->options, blocks, {tx, ty, tz}, arguments}));
}

int cuStreamBeginCapture_v2(void* stream, int) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(stream) == 0) return invalid_handle;
  static_cast<Stream*>(stream)->capturing = true;
  return ok;
}
int cuStreamEndCapture(void* stream, void** graph) {
  if (const int code = entry(__func__)) return code;
  auto& s = *static_cast<Stream*>(stream);
  s.capturing = false;
  if (std::exchange(s.spoiled, false)) return s.captured.clear(), not_permitted_in_capture;
  *graph = make<Graph>({std::exchange(s.captured, {})});
  return ok;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(graph) == 0) return invalid_handle;
  *executable = make<Graph>(*static_cast<Graph*>(graph));
  return ok;
}
int cuGraphLaunch(void* executable, void* stream) {
  if (const int code = entry(__func__)) return code;
  if (handles.count(executable) == 0) return invalid_handle;
  for (const Work& work : static_cast<Graph*>(executable)->work) {
    if (const int code = enqueue(stream, work)) return code;
  }
  return ok;
}
int cuGraphDestroy(void* graph) {
  if (const int code = entry(__func__)) return code;
  return destroy<Graph>(graph);
}
int cuGraphExecDestroy(void* executable) {
  if (const int code = entry(__func__)) return code;
  return destroy<Graph>(executable);
}

// The compiler: its image is the source.
int nvrtcVersion(int* major, int* minor) { return *major = 99, *minor = 1, ok; }
int nvrtcCreateProgram(void** program, const char* text, const char* name, int, const char* const*,
                       const char* const*) {
  *program = new Program{file_of(name), text, "", ""};
  return ok;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  auto& p = *static_cast<Program*>(program);
  ++gpu.compilations;
  for (int i = 0; i < count; ++i) p.options += std::string(options[i]) + " ";
  for (std::size_t at = 0; (at = p.text.find("WEFT_KERNEL(", at)) != std::string::npos; ++at) {
    const std::string name = p.text.substr(at + 12, p.text.find(',', at) - at - 12);
    p.log += "ptxas info : Compiling entry function '" + name + "' for 'sm_90'\n" +
             "8 bytes stack frame, 16 bytes spill stores, 4 bytes spill loads\nUsed 33 registers, 128 bytes smem\n";
  }
  return p.options.find("-DWEFT_REAL=broken") == std::string::npos ? ok : 6;
}
int nvrtcGetProgramLogSize(void* program, std::size_t* bytes) {
  return *bytes = static_cast<Program*>(program)->log.size() + 1, ok;
}
int nvrtcGetProgramLog(void* program, char* text) {
  return std::strcpy(text, static_cast<Program*>(program)->log.c_str()), ok;
}
int nvrtcGetCUBINSize(void* program, std::size_t* bytes) {
  const auto& p = *static_cast<Program*>(program);
  return *bytes = 11 + p.file.size() + p.options.size() + p.text.size() + 3, ok;
}
int nvrtcGetCUBIN(void* program, char* bytes) {
  const auto& p = *static_cast<Program*>(program);
  std::memcpy(bytes, "fake image\n", 11);
  bytes += 11;
  for (const std::string* part : {&p.file, &p.options, &p.text}) {
    std::strcpy(bytes, part->c_str());
    bytes += part->size() + 1;
  }
  return ok;
}
int nvrtcDestroyProgram(void** program) { return delete static_cast<Program*>(*program), ok; }
const char* nvrtcGetErrorString(int) { return "COMPILATION"; }
const char* hiprtcGetErrorString(int) { return "COMPILATION"; }
}

// HIP's names for the same functions.
asm(R"(
.globl hipInit
.set hipInit, cuInit
.globl hipDriverGetVersion
.set hipDriverGetVersion, cuDriverGetVersion
.globl hipGetDeviceCount
.set hipGetDeviceCount, cuDeviceGetCount
.globl hipDeviceGetName
.set hipDeviceGetName, cuDeviceGetName
.globl hipDeviceTotalMem
.set hipDeviceTotalMem, cuDeviceTotalMem_v2
.globl hipDeviceGetAttribute
.set hipDeviceGetAttribute, cuDeviceGetAttribute
.globl hipMalloc
.set hipMalloc, cuMemAlloc_v2
.globl hipFree
.set hipFree, cuMemFree_v2
.globl hipHostMalloc
.set hipHostMalloc, cuMemHostAlloc
.globl hipHostFree
.set hipHostFree, cuMemFreeHost
.globl hipMemcpyHtoDAsync
.set hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2
.globl hipMemcpyDtoHAsync
.set hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2
.globl hipMemcpyDtoDAsync
.set hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2
.globl hipMemsetD8Async
.set hipMemsetD8Async, cuMemsetD8Async
.globl hipStreamCreateWithFlags
.set hipStreamCreateWithFlags, cuStreamCreate
.globl hipStreamDestroy
.set hipStreamDestroy, cuStreamDestroy_v2
.globl hipStreamSynchronize
.set hipStreamSynchronize, cuStreamSynchronize
.globl hipStreamWaitEvent
.set hipStreamWaitEvent, cuStreamWaitEvent
.globl hipEventCreateWithFlags
.set hipEventCreateWithFlags, cuEventCreate
.globl hipEventDestroy
.set hipEventDestroy, cuEventDestroy_v2
.globl hipEventRecord
.set hipEventRecord, cuEventRecord
.globl hipEventSynchronize
.set hipEventSynchronize, cuEventSynchronize
.globl hipEventElapsedTime
.set hipEventElapsedTime, cuEventElapsedTime
.globl hipModuleLoadData
.set hipModuleLoadData, cuModuleLoadData
.globl hipModuleUnload
.set hipModuleUnload, cuModuleUnload
.globl hipModuleGetFunction
.set hipModuleGetFunction, cuModuleGetFunction
.globl hipFuncGetAttribute
.set hipFuncGetAttribute, cuFuncGetAttribute
.globl hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
.set hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor
.globl hipModuleLaunchKernel
.set hipModuleLaunchKernel, cuLaunchKernel
.globl hipStreamBeginCapture
.set hipStreamBeginCapture, cuStreamBeginCapture_v2
.globl hipStreamEndCapture
.set hipStreamEndCapture, cuStreamEndCapture
.globl hipGraphInstantiateWithFlags
.set hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags
.globl hipGraphLaunch
.set hipGraphLaunch, cuGraphLaunch
.globl hipGraphDestroy
.set hipGraphDestroy, cuGraphDestroy
.globl hipGraphExecDestroy
.set hipGraphExecDestroy, cuGraphExecDestroy
.globl hiprtcVersion
.set hiprtcVersion, nvrtcVersion
.globl hiprtcCreateProgram
.set hiprtcCreateProgram, nvrtcCreateProgram
.globl hiprtcCompileProgram
.set hiprtcCompileProgram, nvrtcCompileProgram
.globl hiprtcGetProgramLogSize
.set hiprtcGetProgramLogSize, nvrtcGetProgramLogSize
.globl hiprtcGetProgramLog
.set hiprtcGetProgramLog, nvrtcGetProgramLog
.globl hiprtcGetCodeSize
.set hiprtcGetCodeSize, nvrtcGetCUBINSize
.globl hiprtcGetCode
.set hiprtcGetCode, nvrtcGetCUBIN
.globl hiprtcDestroyProgram
.set hiprtcDestroyProgram, nvrtcDestroyProgram
)");
