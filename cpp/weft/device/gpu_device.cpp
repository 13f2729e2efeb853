// The cuda and hip backends: one implementation over the table of gpu_api.hpp.
//
// With the trace on, every launch, copy and fill is bracketed by a pair of device events. They become intervals of the
// device's timeline when their stream is next synchronised, so synchronise before reading the trace. A device is used
// by one host thread at a time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "weft/device/backends.hpp"
#include "weft/device/compiler.hpp"
#include "weft/device/gpu_api.hpp"
#include "weft/device/gpu_names.hpp"
#include "weft/device/host_registry.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::device {
namespace {

// The drivers share whole blocks of memory, and one block may hold several small allocations (CUDA Programming Guide,
// "Interprocess Communication"). An allocation whose size is a multiple of this one shares its blocks with no other.
constexpr std::size_t shared_unit = std::size_t{2} << 20;

class GpuDevice final : public Device {
 public:
  GpuDevice(const GpuApi& api, int ordinal) : api_(api), ordinal_(ordinal) {
    check(api_.retain_context(&context_, ordinal), "opening the context of the device");
    activate();
    char text[256] = {};
    std::size_t memory = 0;
    check(api_.device_name(text, sizeof text, ordinal), "reading the name of the device");
    check(api_.device_memory(&memory, ordinal), "reading the memory size of the device");
    const auto attribute = [&](int which) {
      int value = 0;
      api_.device_attribute(&value, which, ordinal);
      return value;
    };
    info_ = {.backend = api_.backend,
             .name = text,
             .architecture = api_.architecture(ordinal),
             .memory_bytes = static_cast<std::int64_t>(memory),
             .multiprocessors = attribute(api_.attributes.multiprocessors),
             .warp_size = attribute(api_.attributes.warp_size),
             .registers_per_multiprocessor = attribute(api_.attributes.registers),
             .shared_bytes_per_multiprocessor = attribute(api_.attributes.shared_bytes),
             .max_threads_per_multiprocessor = attribute(api_.attributes.threads),
             .ordinal = ordinal};
  }
  ~GpuDevice() override {
    api_.activate(context_, ordinal_);
    own_stream_.reset();
    for (const Pending& pending : pending_) {
      api_.destroy_event(pending.begin);
      api_.destroy_event(pending.end);
    }
    for (void* event : spare_events_) api_.destroy_event(event);
    if (reference_ != nullptr) api_.destroy_event(reference_);
    for (const auto& [key, module] : modules_) api_.unload_module(module.handle);
  }

  const Info& info() const override { return info_; }

  std::int64_t free_bytes() const override {
    activate();
    std::size_t free = 0, total = 0;
    check(api_.memory_info(&free, &total), "asking for the free memory of the device");
    return static_cast<std::int64_t>(free);
  }
  // The number of a GPU comes second, because processes may number the same GPUs differently (CUDA_VISIBLE_DEVICES).
  std::string memory_name() const override {
    std::string uuid(16, '\0');
    const bool known = api_.device_uuid != nullptr && api_.device_uuid(uuid.data(), ordinal_) == 0;
    return known ? uuid : std::to_string(ordinal_);
  }

  void* allocate(std::size_t bytes) override {
    activate();
    void* pointer = nullptr;
    check(api_.allocate(&pointer, bytes), "allocating " + std::to_string(bytes) + " bytes of device memory");
    return pointer;
  }
  void release(void* pointer) noexcept override {
    if (pointer != nullptr && api_.activate(context_, ordinal_) == 0) api_.release(pointer);
  }
  void* allocate_pinned(std::size_t bytes) override {
    activate();
    void* pointer = nullptr;
    check(api_.allocate_pinned(&pointer, bytes, gpu::portable_pinned_memory),
          "allocating " + std::to_string(bytes) + " bytes of pinned memory");
    return pointer;
  }
  void release_pinned(void* pointer) noexcept override {
    if (pointer != nullptr && api_.activate(context_, ordinal_) == 0) api_.release_pinned(pointer);
  }

  void copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream& stream) override {
    if (bytes == 0) return;
    const trace::Span span("copy", trace::Category::launch);
    timed("copy", trace::Category::copy, static_cast<std::int64_t>(bytes), stream.handle(), [&] {
      void* source = const_cast<void*>(from);
      switch (kind) {
        case CopyKind::host_to_device:
          return api_.copy_to_device(to, from, bytes, stream.handle());
        case CopyKind::device_to_host:
          return api_.copy_to_host(to, source, bytes, stream.handle());
        case CopyKind::device_to_device:
          return api_.copy_on_device(to, source, bytes, stream.handle());
      }
      return 0;
    });
  }
  void fill_zero(void* pointer, std::size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    const trace::Span span("fill_zero", trace::Category::launch);
    timed("fill_zero", trace::Category::gpu, static_cast<std::int64_t>(bytes), stream.handle(),
          [&] { return api_.fill(pointer, 0, bytes, stream.handle()); });
  }
  void copy_now(void* to, const void* from, std::size_t bytes, CopyKind kind) override {
    at_once([&](Stream& stream) { copy(to, from, bytes, kind, stream); });
  }
  void zero_now(void* pointer, std::size_t bytes) override {
    at_once([&](Stream& stream) { fill_zero(pointer, bytes, stream); });
  }

  // The stream synchronises with the default stream, which CuPy and PyTorch use by default.
  void* create_stream() override {
    activate();
    void* stream = nullptr;
    check(api_.create_stream(&stream, gpu::ordered_stream), "creating a stream");
    give_number(stream);
    return stream;
  }
  void destroy_stream(void* stream) noexcept override {
    if (api_.activate(context_, ordinal_) != 0) return;
    if (has_pending(stream)) {
      try {
        synchronize_stream(stream);
      } catch (const std::exception&) {  // the device is lost, so there is nothing to time
      }
    }
    api_.destroy_stream(stream);
    free_number(stream);
  }
  void synchronize_stream(void* stream) override {
    activate();
    check(api_.synchronize_stream(stream), "waiting for a stream (an error here is that of an earlier launch)");
    if (has_pending(stream)) collect(stream);
  }
  void enqueue(const char* name, Stream& stream, const std::function<void()>& work) override {
    const trace::Span span(name, trace::Category::launch);
    timed(name, trace::Category::gpu, 0, stream.handle(), [&] {
      work();
      return 0;
    });
  }

  void* create_event() override {
    activate();
    void* event = nullptr;
    check(api_.create_event(&event, 0), "creating an event");
    return event;
  }
  void destroy_event(void* event) noexcept override {
    if (api_.activate(context_, ordinal_) == 0) api_.destroy_event(event);
  }
  void record_event(void* event, void* stream) override {
    activate();
    check(api_.record_event(event, stream), "recording an event");
  }
  void synchronize_event(void* event) override {
    activate();
    check(api_.synchronize_event(event), "waiting for an event (an error here is that of an earlier launch)");
  }
  void stream_wait_event(void* stream, void* event) override {
    activate();
    check(api_.stream_wait_event(stream, event, 0), "making a stream wait for an event");
  }
  double event_seconds(void* begin, void* end) override {
    activate();
    float milliseconds = 0;
    check(api_.event_milliseconds(&milliseconds, begin, end), "reading the time between two events");
    return 1e-3 * static_cast<double>(milliseconds);
  }

  std::string sharing_problem() const override {
    const bool complete = api_.memory_handle != nullptr && api_.open_memory != nullptr &&
                          api_.close_memory != nullptr && api_.event_handle != nullptr && api_.open_event != nullptr;
    return complete ? "" : "the driver has no inter-process handles";
  }
  void* allocate_shared(std::size_t bytes, SharedHandle& handle) override {
    void* pointer = allocate((bytes + shared_unit - 1) / shared_unit * shared_unit);
    const int code = api_.memory_handle(&handle, pointer);
    if (code != 0) {
      release(pointer);
      check(code, "sharing device memory with other processes");
    }
    return pointer;
  }
  void release_shared(void* pointer) noexcept override { release(pointer); }
  void* open_shared(const SharedHandle& handle) override {
    activate();
    void* pointer = nullptr;
    const unsigned flag = gpu::with_peer_access(api_.backend == Backend::hip, api_.driver_version);
    check(api_.open_memory(&pointer, handle, flag), "opening another process's device memory");
    return pointer;
  }
  void close_shared(void* pointer) noexcept override {
    if (pointer != nullptr && api_.activate(context_, ordinal_) == 0) api_.close_memory(pointer);
  }
  void* create_shared_event(SharedHandle& handle) override {
    activate();
    void* event = nullptr;
    check(api_.create_event(&event, gpu::untimed_event | gpu::event_between_processes),
          "creating an interprocess event");
    const int code = api_.event_handle(&handle, event);
    if (code != 0) {
      destroy_event(event);
      check(code, "sharing an event with other processes");
    }
    return event;
  }
  void* open_shared_event(const SharedHandle& handle) override {
    activate();
    void* event = nullptr;
    check(api_.open_event(&event, handle), "opening another process's event");
    return event;
  }

  bool supports_graphs() const override { return true; }
  void begin_capture(void* stream) override {
    activate();
    check(api_.begin_capture(stream, gpu::capture_of_this_thread), "beginning to capture a stream");
    capturing_ = true;
  }
  void* end_capture(void* stream) override {
    capturing_ = false;
    void *graph = nullptr, *executable = nullptr;
    check(api_.end_capture(stream, &graph), "capturing a stream (one of its operations cannot be captured)");
    const int code = api_.instantiate_graph(&executable, graph, 0);
    api_.destroy_graph(graph);
    check(code, "instantiating a captured graph");
    return executable;
  }
  void abandon_capture(void* stream) noexcept override {
    capturing_ = false;
    void* graph = nullptr;
    if (api_.end_capture(stream, &graph) == 0 && graph != nullptr) api_.destroy_graph(graph);
  }
  void replay_graph(void* graph, void* stream) override {
    activate();
    const trace::Span span("graph", trace::Category::launch);
    timed("graph", trace::Category::gpu, 0, stream, [&] { return api_.launch_graph(graph, stream); });
  }
  void destroy_graph(void* graph) noexcept override {
    if (api_.activate(context_, ordinal_) == 0) api_.destroy_executable(graph);
  }

  // Runs `work`, which enqueues on `stream` and returns the driver's error code. The device times it if the trace is
  // on.
  template <class Work>
  void timed(const char* name, trace::Category category, std::int64_t bytes, void* stream, Work&& work) {
    activate();
    const bool record = trace::enabled() && !capturing_;
    Pending pending{name, category, bytes, stream, nullptr, nullptr};
    if (record) {
      if (const std::int64_t ns = trace::delay_ns(name, number_of(stream)); ns > 0) delay(stream, ns);
      pending.begin = spare_event();
      pending.end = spare_event();
      check(api_.record_event(pending.begin, stream), "recording an event");
    }
    const int code = work();
    if (code != 0) check(code, "launching " + std::string(name));
    if (record) {
      check(api_.record_event(pending.end, stream), "recording an event");
      pending_.push_back(pending);
    }
  }

  void check(int code, const std::string& what) const {
    if (code != 0) throw std::runtime_error(name(api_.backend) + ": " + what + " failed: " + api_.error_text(code));
  }
  const GpuApi& api() const { return api_; }

 protected:
  std::shared_ptr<detail::KernelImpl> load(const KernelSpec& spec) override;

 private:
  struct Pending {
    const char* name;
    trace::Category category;
    std::int64_t bytes;
    void *stream, *begin, *end;
  };
  struct Module {
    void* handle;
    Compiled compiled;
  };

  void activate() const { check(api_.activate(context_, ordinal_), "setting the current device"); }

  // The bytes of shared memory that each launch has to give to a block of this kernel (kernels/launch_shared.hpp).
  int launch_shared(void* module, const std::string& kernel) {
    if (!api_.module_variable) return 0;
    void* pointer = nullptr;
    std::size_t size = 0;
    const int code = api_.module_variable(&pointer, &size, module, (kernel + "_launch_shared").c_str());
    if (code == gpu::not_found) return 0;
    check(code, "asking how much shared memory " + kernel + " needs");
    int bytes = 0;
    copy_now(&bytes, pointer, sizeof bytes, CopyKind::device_to_host);
    return bytes;
  }

  void* spare_event() {
    if (spare_events_.empty()) return create_event();
    void* event = spare_events_.back();
    spare_events_.pop_back();
    return event;
  }
  bool has_pending(void* stream) const {
    return std::any_of(pending_.begin(), pending_.end(), [=](const Pending& p) { return p.stream == stream; });
  }

  // Runs `work` on the device's own stream and waits for it. That stream has a number only during the call, so the
  // numbers of other streams do not depend on whether it exists.
  template <class Work>
  void at_once(Work&& work) {
    if (own_stream_)
      give_number(own_stream_->handle());
    else
      own_stream_.emplace(std::shared_ptr<Device>(std::shared_ptr<Device>(), this));  // does not keep the device alive
    const std::shared_ptr<void> end(nullptr, [&](void*) { free_number(own_stream_->handle()); });
    work(*own_stream_);
    own_stream_->synchronize();
  }

  // Streams are numbered for the trace; a number is reused after its stream is destroyed.
  void give_number(void* stream) {
    const auto free = std::find(streams_.begin(), streams_.end(), nullptr);
    (free != streams_.end() ? *free : streams_.emplace_back()) = stream;
  }
  void free_number(void* stream) {
    std::replace(streams_.begin(), streams_.end(), stream, static_cast<void*>(nullptr));
  }
  int number_of(void* stream) const {
    return static_cast<int>(std::find(streams_.begin(), streams_.end(), stream) - streams_.begin());
  }
  // Delays later work on the stream without occupying the device.
  void delay(void* stream, std::int64_t ns) {
    const auto sleep = [](void*, int, void* data) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(reinterpret_cast<std::intptr_t>(data)));
    };
    check(api_.add_callback(stream, sleep, reinterpret_cast<void*>(static_cast<std::intptr_t>(ns)), 0),
          "delaying a launch for WEFT_TRACE_DELAY");
  }

  // Turns the finished work of `stream` into intervals. Device times are tied to the host's clock by a reference event,
  // recorded and waited for here. Times are counted back from that event, which keeps the drivers' single-precision
  // milliseconds accurate.
  //
  // On the host's clock the event lies between the start of its recording and the end of the wait. Within these bounds
  // its time is that of the previous reference event plus the time that the device measured since. Otherwise any delay
  // of the host would shift the streams relative to one another.
  void collect(void* stream) {
    void* reference = spare_event();
    const std::int64_t earliest = trace::now_ns();
    check(api_.record_event(reference, stream), "recording an event");
    check(api_.synchronize_event(reference), "waiting for an event");
    std::int64_t now = trace::now_ns();
    if (reference_ != nullptr) {
      const auto since = static_cast<std::int64_t>(1e9 * event_seconds(reference_, reference));
      now = std::clamp(reference_ns_ + since, earliest, now);
      spare_events_.push_back(reference_);
    }
    reference_ = reference;
    reference_ns_ = now;
    const auto time = [&](void* event) {
      return now - static_cast<std::int64_t>(1e9 * std::max(0.0, event_seconds(event, reference)));
    };
    std::erase_if(pending_, [&](const Pending& p) {
      if (p.stream != stream) return false;
      const std::int64_t begin = time(p.begin), end = time(p.end);
      if (begin >= 0) trace::record({p.name, p.category, true, begin, end, p.bytes, number_of(stream)});
      spare_events_.push_back(p.begin);
      spare_events_.push_back(p.end);
      return true;
    });
  }

  const GpuApi& api_;
  int ordinal_;
  void* context_ = nullptr;
  Info info_;
  bool capturing_ = false;
  std::vector<Pending> pending_;
  std::vector<void*> spare_events_;
  void* reference_ = nullptr;  // the event that device times were last counted from, and its time
  std::int64_t reference_ns_ = 0;
  std::vector<void*> streams_;             // by number, nullptr where free
  std::optional<Stream> own_stream_;       // the stream used by at_once
  std::map<std::string, Module> modules_;  // key: what was compiled together (a file or a kernel) and the defines
};

class GpuKernel final : public detail::KernelImpl {
 public:
  GpuKernel(std::shared_ptr<GpuDevice> device, void* function, const KernelSpec& spec, KernelResources resources,
            int launch_shared)
      : device_(std::move(device)),
        function_(function),
        name_(trace::intern(spec.name)),
        resources_(resources),
        launch_shared_(static_cast<unsigned>(launch_shared)) {
    // If the host has an instance of this kernel, the sizes of its parameters are known and can be checked.
    if (const HostKernel* host = find_host_kernel(spec.file, spec.name, constants_of(spec))) expected_ = host;
  }

  void check(std::span<const std::size_t> sizes) const override {
    if (expected_ != nullptr) check_arguments(*expected_, sizes.data(), sizes.size());
  }
  void launch(void* stream, unsigned blocks, Shape threads, void** arguments) override {
    device_->timed(name_, trace::Category::gpu, 0, stream, [&] {
      return device_->api().launch(function_, blocks, 1, 1, threads.x, threads.y, threads.z, launch_shared_, stream,
                                   arguments, nullptr);
    });
  }
  KernelResources resources() const override { return resources_; }

 private:
  std::shared_ptr<GpuDevice> device_;
  void* function_;
  const char* name_;
  KernelResources resources_;
  unsigned launch_shared_;
  const HostKernel* expected_ = nullptr;
};

std::shared_ptr<detail::KernelImpl> GpuDevice::load(const KernelSpec& spec) {
  activate();
  std::string key = spec.file + (compiled_alone(spec.defines) ? " " + spec.name : "");
  for (const Define& define : spec.defines) key += " " + define.name + "=" + define.value;
  auto found = modules_.find(key);
  if (found == modules_.end()) {
    Compiled compiled = compile(api_.backend, spec, info_.architecture, api_.driver_version);
    void* module = nullptr;
    check(api_.load_module(&module, compiled.image.data()),
          "loading kernels/" + spec.file + ".hpp, compiled for " + info_.architecture + " by " + compiled.compiler +
              " (a compiler newer than the driver makes code the driver cannot load),");
    found = modules_.emplace(key, Module{module, std::move(compiled)}).first;
  }
  void* function = nullptr;
  check(api_.module_function(&function, found->second.handle, spec.name.c_str()),
        "finding the kernel " + spec.name + " in kernels/" + spec.file + ".hpp");
  const auto attribute = [&](int which) {
    int value = 0;
    check(api_.function_attribute(&value, which, function), "asking for the resources of " + spec.name);
    return value;
  };
  KernelResources resources{};
  try {
    resources = resources_of(found->second.compiled, spec.name);  // drivers do not report spills
  } catch (const std::runtime_error&) {  // a compiler log in an unknown format is no reason not to run
    resources.spill_bytes = resources.scalar_spills = unknown_resource;
  }
  resources.registers = attribute(gpu::register_count);
  resources.stack_bytes = attribute(gpu::local_bytes);
  const int launch_shared = this->launch_shared(found->second.handle, spec.name);
  if (launch_shared > 0)
    check(api_.set_function_attribute(function, gpu::launch_shared_bytes, launch_shared),
          "asking for " + std::to_string(launch_shared) + " bytes of shared memory per block of " + spec.name);
  resources.shared_bytes = attribute(gpu::shared_bytes) + launch_shared;
  check(api_.occupancy(&resources.max_blocks_per_multiprocessor, function, attribute(gpu::max_threads_per_block),
                       static_cast<std::size_t>(launch_shared)),
        "asking for the occupancy of " + spec.name);
  return std::make_shared<GpuKernel>(std::static_pointer_cast<GpuDevice>(shared_from_this()), function, spec, resources,
                                     launch_shared);
}

Availability availability(const GpuApi& api) {
  if (!api.problem.empty()) return {api.backend, false, api.problem};
  const Availability compiler = compiler_availability(api.backend, api.driver_version);
  if (!compiler.available) return compiler;
  char text[256] = {};
  api.device_name(text, sizeof text, 0);
  const std::string count = api.device_count > 1 ? std::to_string(api.device_count) + " x " : "";
  return {api.backend, true, count + text + ", " + compiler.reason};
}

std::shared_ptr<Device> open_gpu(const GpuApi& api, int ordinal) {
  const Availability state = availability(api);
  if (!state.available) throw std::runtime_error("device " + name(api.backend) + " is not available: " + state.reason);
  if (ordinal < 0) ordinal = rank_in_node() % api.device_count;
  if (ordinal >= api.device_count) {
    throw std::runtime_error("device " + name(api.backend) + " " + std::to_string(ordinal) +
                             " does not exist: " + std::to_string(api.device_count) + " found, numbered from 0");
  }
  return std::make_shared<GpuDevice>(api, ordinal);
}

}  // namespace

Availability cuda_availability() { return availability(cuda_api()); }
Availability hip_availability() { return availability(hip_api()); }
std::shared_ptr<Device> open_cuda(int ordinal) { return open_gpu(cuda_api(), ordinal); }
std::shared_ptr<Device> open_hip(int ordinal) { return open_gpu(hip_api(), ordinal); }

}  // namespace weft::device
