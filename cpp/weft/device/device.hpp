// Memory, streams, events and kernels of one backend: host, cuda or hip.
//
// The CUDA and HIP libraries are opened at run time; `available` says why a backend is absent. Everything made from a
// Device holds a shared_ptr to it and so keeps it alive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft::device {

// fiber: the GPU branch of the kernels on the CPU, with one fiber per GPU thread; linked into tests only.
enum class Backend { host, cuda, hip, fiber };
std::string name(Backend backend);

struct Availability {
  Backend backend;
  bool available;
  std::string reason;  // the device's name, or why the backend is not available
};
// All three backends, host first.
std::vector<Availability> available();

struct Info {
  Backend backend;
  std::string name;          // "NVIDIA H200", or the processor's name
  std::string architecture;  // "sm_90", "gfx90a", or the host's vector set
  std::int64_t memory_bytes;
  int multiprocessors;  // SMs or CUs; threads on the host
  int warp_size;        // 1 on the host
  int registers_per_multiprocessor;
  int shared_bytes_per_multiprocessor;
  int max_threads_per_multiprocessor;
  int ordinal = 0;  // number of the GPU on this machine
};

inline constexpr int unknown_resource = -1;

// Resources of a compiled kernel, as reported by the compiler (zeros on the host); unknown_resource if not reported.
struct KernelResources {
  int registers;
  int stack_bytes;
  int spill_bytes;
  int scalar_spills;  // AMD: scalar registers kept in lanes of vector registers, which costs no memory traffic
  int shared_bytes;
  int max_blocks_per_multiprocessor;  // at the kernel's launch bounds
};

// The C++ name of T in kernel sources.
template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, double>)
    return "double";
  else if constexpr (std::is_same_v<T, float>)
    return "float";
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return "int";
  else {
    static_assert(std::is_same_v<T, std::int64_t>);
    return "long";  // 64 bits on every system weft builds on; std::int64_t is `long` there
  }
}

struct Define {
  std::string name;
  std::string value;
};
// A kernel: `file` and `name` under kernels/, and its compile-time constants. WEFT_N and WEFT_REAL choose the host
// instance. Tile sizes (WEFT_TILE_*) apply to GPUs only; the host keeps the defaults of the source. So do parts that a
// kernel is compiled with or without (WEFT_WITH_*); host instances have all of them and decide by the arguments.
struct KernelSpec {
  std::string file;  // "vector" for kernels/vector.hpp
  std::string name;  // "axpy"
  std::vector<Define> defines;
};

struct Shape {
  unsigned x = 1, y = 1, z = 1;
};

class Device;

namespace detail {
struct KernelImpl {
  virtual ~KernelImpl() = default;
  virtual void check(std::span<const std::size_t> sizes) const = 0;  // see LoadedKernel
  virtual void launch(void* stream, unsigned blocks, Shape threads, void** arguments) = 0;
  virtual KernelResources resources() const = 0;
};
}  // namespace detail

// What another process on the node needs to open shared memory or a shared event: plain bytes, which may be sent by any
// means. CUDA's and HIP's handles have this size.
struct SharedHandle {
  alignas(8) std::array<std::byte, 64> bytes{};
};

enum class CopyKind { host_to_device, device_to_host, device_to_device };

class Stream {
 public:
  explicit Stream(std::shared_ptr<Device> device);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream& operator=(Stream&&) = delete;

  void synchronize();  // recorded as category launch
  void* handle() const { return handle_; }
  Device& device() const { return *device_; }

 private:
  std::shared_ptr<Device> device_;
  void* handle_;
};

class Event {
 public:
  explicit Event(std::shared_ptr<Device> device);
  // Creates an event that other processes can wait for, or opens one created by another process. Such events record no
  // times.
  static Event shared(std::shared_ptr<Device> device, SharedHandle& handle);
  static Event opened(std::shared_ptr<Device> device, const SharedHandle& handle);
  ~Event();
  Event(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;

  void record(Stream& stream);
  void synchronize();
  void wait_on(Stream& stream);                    // later work on `stream` waits for this event
  double seconds_since(const Event& begin) const;  // both must have completed

 private:
  Event(std::shared_ptr<Device> device, void* handle) : device_(std::move(device)), handle_(handle) {}

  std::shared_ptr<Device> device_;
  void* handle_;
};

// A kernel whose parameter types are not known at compile time, as returned by Device::kernel. Store it as a Kernel.
class LoadedKernel {
 public:
  LoadedKernel(std::shared_ptr<detail::KernelImpl> impl, const char* name) : impl_(std::move(impl)), name_(name) {}
  LoadedKernel() = default;

  // Throws std::invalid_argument unless the kernel has this number of parameters, of these sizes in bytes. A GPU kernel
  // without a host instance is not checked.
  void check(std::span<const std::size_t> sizes) const { impl_->check(sizes); }
  // `arguments` holds the address of each argument. With zero blocks nothing is launched. Throws std::invalid_argument
  // for more than largest_launch blocks.
  void launch(Stream& stream, std::int64_t blocks, Shape threads, void** arguments) const;
  KernelResources resources() const { return impl_->resources(); }

 private:
  std::shared_ptr<detail::KernelImpl> impl_;
  const char* name_ = nullptr;
};
inline constexpr std::int64_t largest_launch = 2147483647;  // blocks; kernels count them in an int

// A kernel with parameters of the types P, as in its source (where `long` corresponds to std::int64_t). The arguments
// of a launch are converted to these types. The number and sizes of the parameters are checked on construction from a
// loaded kernel.
template <class... P>
class Kernel {
  static_assert((std::is_trivially_copyable_v<P> && ...));

 public:
  Kernel() = default;
  Kernel(LoadedKernel kernel) : kernel_(std::move(kernel)) {
    kernel_.check(std::array<std::size_t, sizeof...(P)>{sizeof(P)...});
  }

  void operator()(Stream& stream, std::int64_t blocks, Shape threads, P... arguments) const {
    std::array<void*, sizeof...(P)> pointers{const_cast<void*>(static_cast<const void*>(&arguments))...};
    kernel_.launch(stream, blocks, threads, pointers.data());
  }
  KernelResources resources() const { return kernel_.resources(); }

 private:
  LoadedKernel kernel_;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;
  virtual const Info& info() const = 0;
  Backend backend() const { return info().backend; }
  bool is_host() const { return backend() == Backend::host; }

  // Bytes that can still be allocated, counting the allocations of all processes on this machine.
  virtual std::int64_t free_bytes() const = 0;
  // Names the memory: the text is the same in all processes of the node that use this memory, and only in those.
  virtual std::string memory_name() const { return name(backend()); }

  virtual void* allocate(std::size_t bytes) = 0;  // device memory, 64-byte aligned (256 on GPUs)
  virtual void release(void* pointer) noexcept = 0;
  virtual void* allocate_pinned(std::size_t bytes) = 0;  // host memory that asynchronous copies can use
  virtual void release_pinned(void* pointer) noexcept = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream& stream) = 0;  // asynchronous
  virtual void fill_zero(void* pointer, std::size_t bytes, Stream& stream) = 0;
  // The same, but blocking, on a stream that a GPU keeps for this purpose. These copies do not wait for other streams.
  virtual void copy_now(void* to, const void* from, std::size_t bytes, CopyKind kind);
  virtual void zero_now(void* pointer, std::size_t bytes);

  virtual void* create_stream() = 0;
  virtual void destroy_stream(void* stream) noexcept = 0;
  virtual void synchronize_stream(void* stream) = 0;
  // Runs `work`, in which another library may enqueue on `stream`, with this device current. On a GPU the work becomes
  // an interval of the device's timeline.
  virtual void enqueue(const char* name, Stream& stream, const std::function<void()>& work);

  virtual void* create_event() = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record_event(void* event, void* stream) = 0;
  virtual void synchronize_event(void* event) = 0;
  virtual void stream_wait_event(void* stream, void* event) = 0;
  virtual double event_seconds(void* begin, void* end) = 0;

  // Used by SharedMemory and Event (shared.hpp): memory and events that other processes of the node can use. A device
  // that cannot share memory keeps these defaults, which throw. A handle is valid in other processes, not in the one
  // that made it, until stop_sharing. An opened event is destroyed like any other.
  virtual std::string sharing_problem() const { return "the " + info().name + " cannot share memory"; }
  virtual void* allocate_shared(std::size_t bytes, SharedHandle& handle);
  virtual void stop_sharing(void*) noexcept {}    // call this once all processes that need it have opened it
  virtual void release_shared(void*) noexcept {}  // on GPUs: only after all processes have closed it
  virtual void* open_shared(const SharedHandle& handle);
  virtual void close_shared(void*) noexcept {}
  virtual void* create_shared_event(SharedHandle& handle);
  virtual void* open_shared_event(const SharedHandle& handle);

  // Used by Graph (graph.hpp). A device without graphs keeps these defaults.
  virtual bool supports_graphs() const { return false; }
  virtual void begin_capture(void* stream);
  virtual void* end_capture(void* stream);
  virtual void abandon_capture(void*) noexcept {}  // ends a failed capture, whatever its state
  virtual void replay_graph(void* graph, void* stream);
  virtual void destroy_graph(void*) noexcept {}

  // Compiles the kernel, or finds it in the cache, and loads it. Errors quote the compiler's log.
  LoadedKernel kernel(const KernelSpec& spec);
  // The kernel for values of type T (WEFT_REAL), with other constants such as WEFT_N, the order.
  template <class T>
  LoadedKernel kernel(std::string file, std::string name, std::vector<Define> others = {}) {
    others.push_back({"WEFT_REAL", type_name<T>()});
    return kernel({std::move(file), std::move(name), std::move(others)});
  }

 protected:
  virtual std::shared_ptr<detail::KernelImpl> load(const KernelSpec& spec) = 0;
};

// `which`: "auto" (cuda, else hip, else host), "host", "cuda" or "hip". `ordinal` selects the GPU; -1 selects the rank
// within the node modulo the number of GPUs (not collective: the rank is taken from the launcher's environment).
// Opening the same device twice returns the same object. Throws std::runtime_error with the reason if the requested GPU
// is not available.
std::shared_ptr<Device> open(const std::string& which, int ordinal = -1);

// An owned array of T in device memory: movable, not copyable. Zero-sized arrays are allowed.
template <class T>
class Array {
 public:
  Array() = default;
  Array(std::shared_ptr<Device> device, std::size_t size)
      : device_(std::move(device)),
        data_(size ? static_cast<T*>(device_->allocate(size * sizeof(T))) : nullptr),
        size_(size) {}
  Array(std::shared_ptr<Device> device, std::span<const T> values) : Array(std::move(device), values.size()) {
    upload(values);
  }
  ~Array() { reset(); }
  Array(Array&& o) noexcept
      : device_(std::move(o.device_)), data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Array& operator=(Array&& o) noexcept {
    if (this != &o) {
      reset();
      device_ = std::move(o.device_);
      data_ = std::exchange(o.data_, nullptr);
      size_ = std::exchange(o.size_, 0);
    }
    return *this;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }

  // Blocking copies, for set-up and output. They do not wait for streams, so first synchronise those that use the
  // array.
  void upload(std::span<const T> values) {
    if (values.size() != size_) throw std::invalid_argument("Array::upload: sizes differ");
    if (size_ == 0) return;
    device_->copy_now(data_, values.data(), bytes(), CopyKind::host_to_device);
  }
  std::vector<T> download() const {
    std::vector<T> values(size_);
    if (size_ == 0) return values;
    device_->copy_now(values.data(), data_, bytes(), CopyKind::device_to_host);
    return values;
  }
  void zero() {
    if (size_ == 0) return;
    device_->zero_now(data_, bytes());
  }

 private:
  void reset() {
    if (data_ != nullptr) device_->release(data_);
    data_ = nullptr;
  }

  std::shared_ptr<Device> device_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft::device
