#include "fake_gpu.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace {

enum Code {
  ok = 0,
  invalid_value = 1,
  out_of_memory = 2,
  no_context = 201,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  not_permitted_in_capture = 900,
  capture_invalidated = 901,
  capture_isolation = 905,
  captured_event = 907,
  capture_wrong_thread = 908
};

FakeGpu gpu;
thread_local bool context_is_current = false;
// Held during every call. Work that waits for another process releases it meanwhile.
std::mutex mutex;
using Lock = std::lock_guard<std::mutex>;

void let_others_run() {
  mutex.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(20));
  mutex.lock();
}

using Work = std::function<void()>;
using Time = std::chrono::steady_clock::time_point;
struct Stream {
  std::deque<std::pair<Time, Work>> queue;  // with the time of enqueuing
  Time now;                                 // on the stream's own clock
  bool set_now = false;                     // set by work that is running, which is then not timed
  bool busy = false;                        // some thread is executing the work at the front
  bool capturing = false, spoiled = false;
  std::uint64_t capture = 0;  // the number of the capture
  int mode = 0;               // of the capture: global, of this thread, relaxed
  std::thread::id capturer;
  std::vector<Work> captured;
};
std::set<Stream*> capturing;  // the streams that are being captured
std::uint64_t captures = 0;

// What is known about an event in all processes that use it: how often it was recorded, how many of these records the
// device has reached, and how many another process waits for.
struct Marks {
  std::atomic<std::uint64_t> recorded{0}, done{0}, wanted{0};
};
struct Event {
  // Work on streams keeps this alive when the event is destroyed.
  struct State {
    std::shared_ptr<Marks> marks;
    std::map<std::uint64_t, Stream*> records;  // those not yet reached
    Time time;                                 // of the record reached last, on its stream's clock
    std::uint64_t capture = 0;                 // number of the capture in which it was last recorded; 0: none
  };
  std::shared_ptr<State> state = std::make_shared<State>();
  bool timed = true, own = true;
};

// The device's memory: a file of this process, so that others can map parts of it. It begins with data shared between
// the processes.
constexpr std::size_t device_bytes = std::size_t{1} << 34, slots = 4096, header_bytes = std::size_t{1} << 20;
constexpr std::size_t shareable_unit = std::size_t{2} << 20;
// Bytes between allocations that belong to none, more than an element has: a kernel that goes too far meets no other.
constexpr std::size_t apart = std::size_t{64} << 10;
struct Header {
  std::atomic<int> opened[slots];  // how many processes have an allocation open
  Marks events[slots];
};
static_assert(sizeof(Header) <= header_bytes);
struct Arena {
  int file = -1;
  char* base = nullptr;
  Header& header() const { return *reinterpret_cast<Header*>(base); }
};
const Arena& arena() {
  static const Arena made = [] {
    Arena a;
    a.file = memfd_create("fake_gpu", MFD_CLOEXEC);
    if (a.file < 0 || ftruncate(a.file, device_bytes) != 0) std::abort();
    void* base = mmap(nullptr, device_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a.file, 0);
    if (base == MAP_FAILED) std::abort();
    a.base = static_cast<char*>(base);
    return a;
  }();
  return made;
}
struct Handle {  // for memory or an event
  char kind[8];
  std::int64_t process, file;
  std::uint64_t slot, offset, bytes;
  char rest[16];
};
static_assert(sizeof(Handle) == 64);
char* map_of(const Handle& handle, std::size_t offset, std::size_t bytes) {
  const std::string name = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, static_cast<off_t>(offset));
  close(file);
  return base == MAP_FAILED ? nullptr : static_cast<char*>(base);
}
// The header of another process's memory, mapped once.
Header* header_of(const Handle& handle) {
  static std::map<std::pair<std::int64_t, std::int64_t>, char*> known;
  char*& base = known[{handle.process, handle.file}];
  if (base == nullptr) base = map_of(handle, 0, header_bytes);
  return reinterpret_cast<Header*>(base);
}

struct Module {
  std::string file, text, options;
  std::shared_ptr<weft::machine_code::Image> cubin;
  std::map<std::string, unsigned> largest_shared;  // that launches may give to kernels, where it was asked for
};
struct Function {
  Module* module;
  std::string name;
};
struct Graph {
  std::vector<Work> work;
};
struct Program {
  std::string file, text, options, log, cubin;
  std::vector<std::string> header_texts, header_names;
  bool is_virtual = false;  // compiled to PTX, so there is no cubin
};

std::set<void*> handles;  // of every kind
std::map<char*, std::size_t> device_memory, pinned_memory, opened_memory, module_variables;
std::map<char*, std::size_t> exported;  // allocation -> slot
std::map<char*, Handle> imported;       // opened memory -> what it was opened by
std::set<std::size_t> event_slots;      // in use

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

bool on_device(const void* pointer, std::size_t bytes) {
  return within(device_memory, pointer, bytes) || within(opened_memory, pointer, bytes) ||
         within(module_variables, pointer, bytes);
}

// Bytes of shared memory per block: what the kernel declares, what a launch may give in addition without
// cuFuncSetAttribute, and the most of both with it (CUDA C++ Programming Guide, "Technical specifications per compute
// capability").
unsigned declared_shared(const Function& function) {
  if (function.module->cubin == nullptr) return 0;
  return function.module->cubin->kernels().at(function.name).declared_shared();
}
constexpr unsigned shared_without_asking = 48 << 10;
unsigned largest_shared_of_a_block() {
  return (gpu.capability == 80 ? 163u : gpu.capability == 90 || gpu.capability == 100 ? 227u : 99u) << 10;
}

// Executes the stream's work in order until none is left, or until `enough` returns true.
template <class Enough>
void drain(Stream& stream, Enough&& enough) {
  while (!enough() && (stream.busy || !stream.queue.empty())) {
    if (stream.busy) {
      let_others_run();
      continue;
    }
    stream.busy = true;
    const auto [enqueued, work] = std::move(stream.queue.front());
    stream.queue.pop_front();
    stream.now = std::max(stream.now, enqueued);
    const Time begin = std::chrono::steady_clock::now();
    try {
      work();
    } catch (...) {  // the next wait for the stream reports the fault of a kernel, and later work is dropped
      stream.busy = false;
      stream.queue.clear();
      throw;
    }
    if (!std::exchange(stream.set_now, false)) stream.now += std::chrono::steady_clock::now() - begin;
    stream.busy = false;
  }
}
void drain(Stream& stream) {
  drain(stream, [] { return false; });
}

// Executes work until the device has reached this record of the event.
void reach(Event::State& event, std::uint64_t record) {
  Marks& marks = *event.marks;
  while (marks.done < record) {
    const auto at = event.records.lower_bound(record);
    if (at != event.records.end()) {
      drain(*at->second, [&] { return marks.done >= record; });
      continue;
    }
    for (std::uint64_t known = marks.wanted; known < record && !marks.wanted.compare_exchange_weak(known, record);) {
    }
    let_others_run();  // an event of another process
  }
}

// Executes what other processes wait for, as a device would while the host is busy elsewhere.
std::map<void*, std::shared_ptr<Event::State>> shared_events;
std::optional<std::jthread> helper;
void help(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      const Lock lock(mutex);
      for (const auto& [handle, known] : shared_events) {
        const std::shared_ptr<Event::State> event = known;
        const std::uint64_t record = event->marks->wanted;
        if (event->marks->done < record) {
          reach(*event, record);
          break;  // the map may have changed
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

int enqueue(void* handle, Work work) {
  if (handles.count(handle) == 0) return invalid_handle;
  auto& stream = *static_cast<Stream*>(handle);
  if (stream.capturing && stream.spoiled) return capture_invalidated;
  if (stream.capturing)
    stream.captured.push_back(std::move(work));
  else
    stream.queue.emplace_back(std::chrono::steady_clock::now(), std::move(work));
  return ok;
}

// The error with which every call may begin.
int entry(const char* function) {
  if (gpu.fail == function) {
    gpu.fail.clear();
    return out_of_memory;
  }
  return context_is_current ? ok : no_context;
}

// The error of a call that a driver cannot observe in a capture: allocations, queries of events and streams, waits for
// them, and whatever may do these internally. CUDA forbids them to the capturing thread (in global mode, to all
// threads), and the capture is lost (cuThreadExchangeStreamCaptureMode; Programming Guide, "Prohibited and Unhandled
// Operations"). Waits for streams and events outside of the capture are not on its lists, but weft needs none.
int unsafe_entry(const char* function) {
  if (const int code = entry(function)) return code;
  int code = ok;
  for (Stream* stream : capturing) {
    if (stream->mode == 0 || (stream->mode == 1 && stream->capturer == std::this_thread::get_id())) {
      stream->spoiled = true;
      code = not_permitted_in_capture;
    }
  }
  return code;
}

std::string file_of(const std::string& name) { return name.substr(0, name.find('.')); }

std::vector<std::span<char>> memory() {
  std::vector<std::span<char>> all;
  for (const auto* kind : {&device_memory, &opened_memory})
    for (const auto& [begin, size] : *kind) all.emplace_back(begin, size);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.data() < b.data(); });
  return all;
}

// NVIDIA's compiler, if WEFT_FAKE_GPU_NVRTC names its file.
struct Nvrtc {
  int (*version)(int*, int*);
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, std::size_t*);
  int (*log)(void*, char*);
  int (*image_size)(void*, std::size_t*);
  int (*image)(void*, char*);
  int (*destroy)(void**);
};
const Nvrtc* real_nvrtc() {
  static const std::optional<Nvrtc> opened = []() -> std::optional<Nvrtc> {
    const char* file = std::getenv("WEFT_FAKE_GPU_NVRTC");
    if (file == nullptr || *file == '\0') return std::nullopt;
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "fake GPU: WEFT_FAKE_GPU_NVRTC cannot be opened: %s\n", dlerror());
      std::abort();
    }
    Nvrtc api{};
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(api.version, "nvrtcVersion");
    find(api.create, "nvrtcCreateProgram");
    find(api.compile, "nvrtcCompileProgram");
    find(api.log_size, "nvrtcGetProgramLogSize");
    find(api.log, "nvrtcGetProgramLog");
    find(api.image_size, "nvrtcGetCUBINSize");
    find(api.image, "nvrtcGetCUBIN");
    find(api.destroy, "nvrtcDestroyProgram");
    return api;
  }();
  return opened ? &*opened : nullptr;
}

std::size_t image_bytes(const Program& p) {
  return 11 + p.file.size() + p.options.size() + p.text.size() + std::to_string(p.cubin.size()).size() + 4 +
         p.cubin.size();
}

// Changes in kernels before the real compiler sees them, from WEFT_FAKE_GPU_EDITS: "file.hpp|old|new|file.hpp|…". With
// them, what other GPUs or larger problems would run is tested on small ones.
void edit(Program& program) {
  const char* all = std::getenv("WEFT_FAKE_GPU_EDITS");
  if (all == nullptr) return;
  std::istringstream parts(all);
  for (std::string file, before, after; std::getline(parts, file, '|');) {
    std::getline(parts, before, '|');
    std::getline(parts, after, '|');
    bool found = false;
    const auto replace = [&](std::string& text) {
      const std::size_t at = before.empty() ? std::string::npos : text.find(before);
      if (at == std::string::npos) return;
      text.replace(at, before.size(), after);
      found = true;
    };
    for (std::size_t i = 0; i < program.header_texts.size(); ++i)
      if (program.header_names[i].ends_with("/" + file)) replace(program.header_texts[i]);
    if (program.file + ".hpp" == file) replace(program.text);
    if (found) continue;
    std::fprintf(stderr, "fake GPU: WEFT_FAKE_GPU_EDITS: %s has no \"%s\"\n", file.c_str(), before.c_str());
    std::abort();
  }
}

int compile_for_real(Program& program, int count, const char* const* options) {
  edit(program);
  std::vector<const char*> texts, names;
  for (const std::string& text : program.header_texts) texts.push_back(text.c_str());
  for (const std::string& name : program.header_names) names.push_back(name.c_str());
  const Nvrtc& api = *real_nvrtc();
  void* handle = nullptr;
  int code = api.create(&handle, program.text.c_str(), (program.file + ".hpp").c_str(), static_cast<int>(names.size()),
                        texts.data(), names.data());
  if (code != ok) return code;
  code = api.compile(handle, count, options);
  std::size_t bytes = 0;
  if (api.log_size(handle, &bytes) == ok && bytes > 0) {
    program.log.assign(bytes, '\0');
    api.log(handle, program.log.data());
    program.log.resize(bytes - 1);
  }
  if (code == ok && api.image_size(handle, &bytes) == ok) {
    program.cubin.assign(bytes, '\0');
    api.image(handle, program.cubin.data());
  }
  api.destroy(&handle);
  return code;
}

}  // namespace

extern "C" {

FakeGpu* fake_gpu() {
  gpu.memory = memory;
  return &gpu;
}

int cuInit(unsigned) { return ok; }
// NVRTC 13 asks the driver for its internal functions, but works without them.
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, not_found; }
int cuDriverGetVersion(int* version) { return *version = gpu.driver_version, ok; }
int hipDriverGetVersion(int* version) { return *version = 60000000, ok; }
int cuDeviceGetCount(int* count) { return *count = gpu.devices, ok; }
int cuDeviceGetName(char* name, int length, int ordinal) {
  if (ordinal >= gpu.devices) return invalid_value;
  const std::string text = "Fake GPU " + std::to_string(ordinal);
  std::strncpy(name, text.c_str(), static_cast<std::size_t>(length));
  return ok;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = gpu.memory_bytes, ok; }
int cuDeviceGetUuid_v2(void* uuid, int ordinal) {
  if (ordinal >= gpu.devices) return invalid_value;
  std::memset(uuid, 0, 16);
  return *static_cast<char*>(uuid) = static_cast<char>(1 + ordinal), ok;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const std::map<int, int> values{
      {16, 132}, {63, 110}, {10, 32}, {87, 64}, {75, gpu.capability / 10}, {76, gpu.capability % 10}};
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
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (bytes == 0) return invalid_value;
  const std::size_t unit = bytes < 4096 ? 256 : 4096;
  const auto aligned = [&](char* at) {
    const auto from_base = static_cast<std::size_t>(at - arena().base);
    return arena().base + (from_base + unit - 1) / unit * unit;
  };
  char* at = aligned(arena().base + header_bytes);
  for (const auto& [begin, size] : device_memory) {  // the first gap that is large enough
    if (at + bytes + apart <= begin) break;
    at = aligned(begin + size + apart);
  }
  if (at + bytes > arena().base + device_bytes) return out_of_memory;
  std::memset(at, 0xFF, bytes);
  device_memory[at] = bytes;
  *pointer = at;
  ++gpu.live;
  return ok;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  std::size_t used = gpu.used_by_others;
  for (const auto& [begin, size] : device_memory) used += size;
  *free = gpu.memory_bytes - std::min(used, gpu.memory_bytes);
  return *total = gpu.memory_bytes, ok;
}
int cuMemFree_v2(void* pointer) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  auto* at = static_cast<char*>(pointer);
  const auto found = device_memory.find(at);
  if (found == device_memory.end()) return invalid_value;
  if (const auto slot = exported.find(at); slot != exported.end()) {
    if (arena().header().opened[slot->second] != 0) {
      std::fprintf(stderr, "fake GPU: memory is freed that another process has open\n");
      std::abort();
    }
    exported.erase(slot);
  }
  std::memset(at, 0xFF, found->second);
  device_memory.erase(found);
  --gpu.live;
  return ok;
}
int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  *pointer = std::malloc(bytes);
  pinned_memory[static_cast<char*>(*pointer)] = bytes;
  ++gpu.live;
  return ok;
}
int cuMemFreeHost(void* pointer) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (pinned_memory.erase(static_cast<char*>(pointer)) == 0) return invalid_value;
  --gpu.live;
  std::free(pointer);
  return ok;
}

static int needs_pinned(void* handle, const void* host, std::size_t bytes) {  // for what a graph copies from or to
  if (handles.count(handle) == 0) return invalid_handle;
  auto& stream = *static_cast<Stream*>(handle);
  if (!stream.capturing || within(pinned_memory, host, bytes)) return ok;
  return stream.spoiled = true, not_permitted_in_capture;
}
int cuMemcpyHtoDAsync_v2(void* to, const void* from, std::size_t bytes, void* stream) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (!on_device(to, bytes) || on_device(from, 1)) return invalid_value;
  if (const int code = needs_pinned(stream, from, bytes)) return code;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, void* from, std::size_t bytes, void* stream) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (!on_device(from, bytes) || on_device(to, 1)) return invalid_value;
  if (const int code = needs_pinned(stream, to, bytes)) return code;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
int cuMemcpyDtoDAsync_v2(void* to, void* from, std::size_t bytes, void* stream) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (!on_device(from, bytes) || !on_device(to, bytes)) return invalid_value;
  return enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
int cuMemsetD8Async(void* to, unsigned char value, std::size_t bytes, void* stream) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (!on_device(to, bytes)) return invalid_value;
  return enqueue(stream, [=] { std::memset(to, value, bytes); });
}

int cuStreamCreate(void** stream, unsigned) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  ++gpu.streams;
  return *stream = make<Stream>(), ok;
}
int cuStreamDestroy_v2(void* stream) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(stream) == 0) return invalid_handle;
  if (static_cast<Stream*>(stream)->capturing) return not_permitted_in_capture;
  drain(*static_cast<Stream*>(stream));
  return destroy<Stream>(stream);
}
int cuStreamSynchronize(void* stream) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (handles.count(stream) == 0) return invalid_handle;
  auto& s = *static_cast<Stream*>(stream);
  if (s.capturing) return s.spoiled = true, not_permitted_in_capture;  // an error in every mode
  ++gpu.waits;
  drain(s);
  return ok;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(event) == 0) return invalid_handle;
  // The last record so far.
  auto* opened = static_cast<Event*>(event);
  const std::shared_ptr<Event::State> e = opened->state;
  if (handles.count(stream) == 0) return invalid_handle;
  auto* s = static_cast<Stream*>(stream);
  if (s->capturing || e->capture != 0) {
    // Within a capturing stream, the order is that of the calls. A second stream would join the capture, which this
    // driver does not support; and no dependency may cross the borders of a capture.
    if (s->capturing && e->capture == s->capture) return ok;
    for (Stream* other : capturing) other->spoiled |= other == s || other->capture == e->capture;
    return capture_isolation;
  }
  return enqueue(stream, [e, s, own = opened->own, record = e->marks->recorded.load()] {
    reach(*e, record);
    if (record == 0) return;
    s->now = std::max(s->now, own ? e->time : std::chrono::steady_clock::now());
    s->set_now = true;
  });
}
int cuEventCreate(void** event, unsigned flags) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  const bool shared = (flags & 4) != 0, timed = (flags & 2) == 0;
  if (shared && timed) return invalid_value;
  Event e;
  e.timed = timed;
  if (shared) {
    std::size_t slot = 0;
    while (event_slots.count(slot) != 0) ++slot;
    if (slot == slots) return out_of_memory;
    event_slots.insert(slot);
    Marks& marks = arena().header().events[slot];
    marks.recorded = marks.done = marks.wanted = 0;
    e.state->marks = std::shared_ptr<Marks>(&marks, [slot](Marks*) { event_slots.erase(slot); });
  } else {
    e.state->marks = std::make_shared<Marks>();
  }
  auto* made = make<Event>(std::move(e));
  if (shared) {
    shared_events[made] = made->state;
    if (!helper) helper.emplace(help);
  }
  return *event = made, ok;
}
int cuEventDestroy_v2(void* event) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  shared_events.erase(event);
  return destroy<Event>(event);
}
int cuEventRecord(void* event, void* stream) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(event) == 0 || handles.count(stream) == 0) return invalid_handle;
  if (!static_cast<Event*>(event)->own) return invalid_handle;
  const std::shared_ptr<Event::State> e = static_cast<Event*>(event)->state;
  if (const auto& s = *static_cast<Stream*>(stream); s.capturing) {
    // A node of a graph has no time, and other processes cannot wait for it.
    if (shared_events.count(event) != 0) return static_cast<Stream*>(stream)->spoiled = true, not_permitted_in_capture;
    e->capture = s.capture;
    return ok;
  }
  e->capture = 0;
  const std::uint64_t record = ++e->marks->recorded;
  e->records[record] = static_cast<Stream*>(stream);
  return enqueue(stream, [=] {
    e->records.erase(record);
    e->time = static_cast<Stream*>(stream)->now;
    if (e->marks->done < record) e->marks->done = record;
  });
}
int cuEventSynchronize(void* event) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (handles.count(event) == 0) return invalid_handle;
  ++gpu.waits;
  Event::State& e = *static_cast<Event*>(event)->state;
  if (e.capture != 0) return captured_event;
  reach(e, e.marks->recorded);
  return ok;
}
int cuStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* data, unsigned flags) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (flags != 0) return invalid_value;
  if (handles.count(stream) == 0) return invalid_handle;
  if (auto& s = *static_cast<Stream*>(stream); s.capturing) return s.spoiled = true, not_permitted_in_capture;
  return enqueue(stream, [=] { function(stream, ok, data); });
}
// Enqueues the work of a test library on a stream, also in a capture.
int fake_gpu_enqueue(void* stream, void (*function)(void* data), void* data) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(stream) != 0 && !static_cast<Stream*>(stream)->capturing) ++gpu.launches;
  return enqueue(stream, [=] { function(data); });
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (handles.count(begin) == 0 || handles.count(end) == 0) return invalid_handle;
  auto &b = *static_cast<Event*>(begin), &e = *static_cast<Event*>(end);
  if (b.state->capture != 0 || e.state->capture != 0) return captured_event;
  if (!b.timed || !e.timed) return invalid_handle;
  const Marks &first = *b.state->marks, &last = *e.state->marks;
  if (first.recorded == 0 || last.recorded == 0) return invalid_handle;
  if (first.done < first.recorded || last.done < last.recorded) return not_ready;
  *milliseconds = std::chrono::duration<float, std::milli>(e.state->time - b.state->time).count();
  return ok;
}

int cuIpcGetMemHandle(Handle* handle, void* pointer) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  auto* at = static_cast<char*>(pointer);
  const auto found = device_memory.find(at);
  // A driver shares the whole block that contains such a piece.
  if (found == device_memory.end() || found->second % shareable_unit != 0) return invalid_value;
  std::set<std::size_t> taken;
  for (const auto& [allocation, slot] : exported) taken.insert(slot);
  std::size_t slot = 0;
  while (taken.count(slot) != 0) ++slot;
  if (slot == slots) return out_of_memory;
  slot = exported.try_emplace(at, slot).first->second;
  *handle = {"memory", getpid(), arena().file, slot, static_cast<std::uint64_t>(at - arena().base), found->second, {}};
  return ok;
}
int cuIpcOpenMemHandle_v2(void** pointer, Handle handle, unsigned flags) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (std::strcmp(handle.kind, "memory") != 0 || flags != 1) return invalid_value;
  if (handle.process == getpid()) return no_context;
  Header* header = header_of(handle);
  char* base = header == nullptr ? nullptr : map_of(handle, handle.offset, handle.bytes);
  if (base == nullptr) return invalid_value;
  ++header->opened[handle.slot];
  opened_memory[base] = handle.bytes;
  imported[base] = handle;
  ++gpu.live;
  return *pointer = base, ok;
}
int cuIpcCloseMemHandle(void* pointer) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  const auto found = imported.find(static_cast<char*>(pointer));
  if (found == imported.end()) return invalid_value;
  munmap(pointer, found->second.bytes);
  --header_of(found->second)->opened[found->second.slot];
  opened_memory.erase(found->first);
  imported.erase(found);
  --gpu.live;
  return ok;
}
int cuIpcGetEventHandle(Handle* handle, void* event) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  auto* e = static_cast<Event*>(event);
  if (handles.count(event) == 0 || shared_events.count(event) == 0) return invalid_handle;
  const auto slot = static_cast<std::uint64_t>(e->state->marks.get() - arena().header().events);
  *handle = {"event", getpid(), arena().file, slot, 0, 0, {}};
  return ok;
}
int cuIpcOpenEventHandle(void** event, Handle handle) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (std::strcmp(handle.kind, "event") != 0) return invalid_value;
  if (handle.process == getpid()) return no_context;
  Header* header = header_of(handle);
  if (header == nullptr) return invalid_value;
  Event e;
  e.timed = e.own = false;
  e.state->marks = std::shared_ptr<Marks>(&header->events[handle.slot], [](Marks*) {});
  return *event = make<Event>(std::move(e)), ok;
}

int cuModuleLoadData(void** module, const void* image) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  // "fake image\n", then file, options, text and the size of the cubin in bytes, each terminated by a zero; then the
  // cubin.
  const char* at = static_cast<const char*>(image);
  if (std::strncmp(at, "fake image\n", 11) != 0) return invalid_value;
  at += 11;
  Module m;
  std::string cubin_bytes;
  for (std::string* part : {&m.file, &m.options, &m.text, &cubin_bytes}) {
    *part = at;
    at += part->size() + 1;
  }
  if (cubin_bytes != "0") {
    m.cubin = std::make_shared<weft::machine_code::Image>(std::string(at, std::stoul(cubin_bytes)));
    if (gpu.load) gpu.load(*m.cubin);
  }
  *module = make<Module>(std::move(m));
  return ok;
}
int cuModuleUnload(void* module) {
  const Lock lock(mutex);
  if (const int code = unsafe_entry(__func__)) return code;
  if (handles.count(module) != 0)
    if (const auto* cubin = static_cast<Module*>(module)->cubin.get())
      std::erase_if(module_variables, [all = std::span(cubin->variables())](const auto& known) {
        return known.first >= all.data() && known.first < all.data() + all.size();
      });
  return destroy<Module>(module);
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(module) == 0) return invalid_handle;
  auto* m = static_cast<Module*>(module);
  if (m->text.find("WEFT_KERNEL(" + std::string(name) + ",") == std::string::npos) return not_found;
  static std::deque<Function> functions;
  *function = &functions.emplace_back(Function{m, name});
  return ok;
}
int cuModuleGetGlobal_v2(void** pointer, std::size_t* bytes, void* module, const char* name) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(module) == 0) return invalid_handle;
  const auto* cubin = static_cast<Module*>(module)->cubin.get();
  const std::span<char> variable = cubin == nullptr ? std::span<char>() : cubin->variable(name);
  if (variable.empty()) return not_found;
  module_variables[variable.data()] = variable.size();
  *pointer = variable.data();
  return *bytes = variable.size(), ok;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  constexpr int launch_shared_bytes = 8;
  if (attribute != launch_shared_bytes || value < 0) return invalid_value;
  auto& f = *static_cast<Function*>(function);
  const auto bytes = static_cast<unsigned>(value);
  if (declared_shared(f) + bytes > largest_shared_of_a_block()) return invalid_value;
  return f.module->largest_shared[f.name] = bytes, ok;
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  const auto* cubin = static_cast<Function*>(function)->module->cubin.get();
  if (cubin == nullptr) return *value = attribute == 0 ? 256 : 40 + attribute, ok;
  const weft::machine_code::Kernel& kernel = cubin->kernels().at(static_cast<Function*>(function)->name);
  const std::map<int, unsigned> values{
      {0, kernel.max_threads}, {1, kernel.declared_shared()}, {3, kernel.local_bytes}, {4, kernel.registers}};
  const auto found = values.find(attribute);
  if (found == values.end()) return invalid_value;
  return *value = static_cast<int>(found->second), ok;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, std::size_t launch_shared) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  *blocks = 2048 / threads;
  const auto* cubin = static_cast<Function*>(function)->module->cubin.get();
  if (cubin == nullptr) return ok;
  // CUDA C++ Programming Guide, "Technical specifications per compute capability", 9.0. Registers are allocated to
  // warps in units of 256; every block uses one KiB of shared memory for the system.
  const weft::machine_code::Kernel& kernel = cubin->kernels().at(static_cast<Function*>(function)->name);
  const int warps = (threads + 31) / 32, registers = static_cast<int>(kernel.registers + 7) / 8 * 256;
  *blocks = std::min(
      {32, 64 / warps, 65536 / registers / warps, static_cast<int>(233472 / (kernel.shared_end + launch_shared))});
  return ok;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                   unsigned launch_shared, void* stream, void** arguments, void**) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (blocks * by * bz == 0 || tx * ty * tz == 0 || tx * ty * tz > 1024 || tz > 64) return invalid_value;
  auto& f = *static_cast<Function*>(function);
  if (handles.count(f.module) == 0) return invalid_handle;
  const auto asked_for = f.module->largest_shared.find(f.name);
  const unsigned declared = declared_shared(f), without_asking = shared_without_asking - declared;
  if (launch_shared > (asked_for != f.module->largest_shared.end() ? asked_for->second : without_asking))
    return invalid_value;
  if (handles.count(stream) != 0 && !static_cast<Stream*>(stream)->capturing) ++gpu.launches;
  const FakeLaunch launch{f.module->file, f.name,        f.module->options, blocks,
                          {tx, ty, tz},   launch_shared, arguments,         f.module->cubin};
  return enqueue(stream, [work = gpu.prepare(launch)] {
    ++gpu.kernels;
    work();
  });
}

int cuStreamBeginCapture_v2(void* stream, int mode) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(stream) == 0) return invalid_handle;
  auto& s = *static_cast<Stream*>(stream);
  if (s.capturing) return illegal_state;
  s.capturing = true;
  s.spoiled = false;
  s.mode = mode;
  s.capturer = std::this_thread::get_id();
  s.capture = ++captures;
  capturing.insert(&s);
  return ok;
}
int cuStreamEndCapture(void* stream, void** graph) {
  const Lock lock(mutex);
  if (handles.count(stream) == 0) return invalid_handle;
  auto& s = *static_cast<Stream*>(stream);
  if (!s.capturing) return illegal_state;
  constexpr int relaxed = 2;
  if (s.mode != relaxed && s.capturer != std::this_thread::get_id()) return capture_wrong_thread;
  s.capturing = false;
  capturing.erase(&s);
  std::vector<Work> work = std::exchange(s.captured, {});
  *graph = nullptr;
  if (const int code = entry(__func__)) return code;
  if (s.spoiled) return capture_invalidated;
  *graph = make<Graph>({std::move(work)});
  return ok;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(graph) == 0) return invalid_handle;
  *executable = make<Graph>(*static_cast<Graph*>(graph));
  return ok;
}
int cuGraphLaunch(void* executable, void* stream) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  if (handles.count(executable) == 0) return invalid_handle;
  ++gpu.launches;
  for (const Work& work : static_cast<Graph*>(executable)->work) {
    if (const int code = enqueue(stream, work)) return code;
  }
  return ok;
}
int cuGraphDestroy(void* graph) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  return destroy<Graph>(graph);
}
int cuGraphExecDestroy(void* executable) {
  const Lock lock(mutex);
  if (const int code = entry(__func__)) return code;
  return destroy<Graph>(executable);
}

// The compiler: its image consists of the source and the real compiler's cubin.
int nvrtcVersion(int* major, int* minor) {
  if (real_nvrtc() != nullptr) return real_nvrtc()->version(major, minor);
  return *major = 99, *minor = 1, ok;
}
int nvrtcCreateProgram(void** program, const char* text, const char* name, int headers, const char* const* texts,
                       const char* const* names) {
  *program = new Program{file_of(name), text, "", "", "", {texts, texts + headers}, {names, names + headers}};
  return ok;
}
const std::vector<int> known_architectures{80, 90, 100};
int nvrtcGetNumSupportedArchs(int* count) { return *count = static_cast<int>(known_architectures.size()), ok; }
int nvrtcGetSupportedArchs(int* all) { return std::ranges::copy(known_architectures, all), ok; }
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  auto& p = *static_cast<Program*>(program);
  ++gpu.compilations;
  for (int i = 0; i < count; ++i) p.options += std::string(options[i]) + " ";
  if (const std::size_t at = p.options.find("--gpu-architecture="); at != std::string::npos) {  // NVRTC, not hipRTC
    std::string target = p.options.substr(at + 19, p.options.find(' ', at) - at - 19);
    p.is_virtual = target.starts_with("compute_");
    const int number = std::atoi(target.c_str() + target.find('_') + 1);
    if (std::ranges::find(known_architectures, number) == known_architectures.end()) return 5;  // invalid option
  }
  if (p.is_virtual) return ok;
  if (real_nvrtc() != nullptr && p.options.find("--gpu-architecture=") != std::string::npos)
    return compile_for_real(p, count, options);
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
  return *bytes = p.is_virtual ? 0 : image_bytes(p), ok;
}
int nvrtcGetCUBIN(void* program, char* bytes) {
  const auto& p = *static_cast<Program*>(program);
  std::memcpy(bytes, "fake image\n", 11);
  bytes += 11;
  const std::string cubin_bytes = std::to_string(p.cubin.size());
  for (const std::string* part : {&p.file, &p.options, &p.text, &cubin_bytes}) {
    std::strcpy(bytes, part->c_str());
    bytes += part->size() + 1;
  }
  std::memcpy(bytes, p.cubin.data(), p.cubin.size());
  return ok;
}
int nvrtcGetPTXSize(void* program, std::size_t* bytes) {
  const auto& p = *static_cast<Program*>(program);
  return *bytes = image_bytes(p), ok;
}
int nvrtcGetPTX(void* program, char* bytes) { return nvrtcGetCUBIN(program, bytes); }
int nvrtcDestroyProgram(void** program) { return delete static_cast<Program*>(*program), ok; }
const char* nvrtcGetErrorString(int) { return "COMPILATION"; }
const char* hiprtcGetErrorString(int) { return "COMPILATION"; }
}

// HIP's names for the same functions.
asm(R"(
.globl hipInit
.set hipInit, cuInit
.globl hipGetDeviceCount
.set hipGetDeviceCount, cuDeviceGetCount
.globl hipDeviceGetName
.set hipDeviceGetName, cuDeviceGetName
.globl hipDeviceTotalMem
.set hipDeviceTotalMem, cuDeviceTotalMem_v2
.globl hipDeviceGetAttribute
.set hipDeviceGetAttribute, cuDeviceGetAttribute
.globl hipDeviceGetUuid
.set hipDeviceGetUuid, cuDeviceGetUuid_v2
.globl hipMemGetInfo
.set hipMemGetInfo, cuMemGetInfo_v2
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
.globl hipStreamAddCallback
.set hipStreamAddCallback, cuStreamAddCallback
.globl hipEventElapsedTime
.set hipEventElapsedTime, cuEventElapsedTime
.globl hipIpcGetMemHandle
.set hipIpcGetMemHandle, cuIpcGetMemHandle
.globl hipIpcOpenMemHandle
.set hipIpcOpenMemHandle, cuIpcOpenMemHandle_v2
.globl hipIpcCloseMemHandle
.set hipIpcCloseMemHandle, cuIpcCloseMemHandle
.globl hipIpcGetEventHandle
.set hipIpcGetEventHandle, cuIpcGetEventHandle
.globl hipIpcOpenEventHandle
.set hipIpcOpenEventHandle, cuIpcOpenEventHandle
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
