#include "weft/fft/gpu_library.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/device/dynamic_library.hpp"
#include "weft/device/gpu_api.hpp"
#include "weft/fft/gpu_library_api.hpp"

namespace weft::fft {
namespace {

using GpuFunctions = gpu::Functions;

GpuFunctions open_gpu_library(device::Backend backend) {
  GpuFunctions library{};
  library.hip = backend == device::Backend::hip;
  library.name = library.hip ? "hipFFT" : "cuFFT";
  const device::GpuApi& driver = device::gpu_api(backend);
  if (!driver.problem.empty()) {
    library.problem = driver.problem;
    return library;
  }
  std::vector<std::string> versions;
  if (library.hip) {
    versions = {"libhipfft.so", "libhipfft.so.0"};
  } else {
    versions = {"libcufft.so.12", "libcufft.so.11", "libcufft.so.10", "libcufft.so"};
    // CUDA 11, 12 and 13 contain cuFFT 10, 11 and 12. The one that belongs to the driver is tried first.
    const std::string own = "libcufft.so." + std::to_string(driver.driver_version / 1000 - 1);
    std::stable_partition(versions.begin(), versions.end(), [&](const std::string& v) { return v == own; });
  }
  device::DynamicLibrary opened(device::library_names(library.hip ? "WEFT_HIPFFT" : "WEFT_CUFFT", versions));
#define WEFT_FIND(member, name) opened.find(library.member, library.hip ? "hipfft" #name : "cufft" #name);
  WEFT_FFT_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  if (!opened) {
    library.problem = (library.hip ? "hipFFT cannot be opened (install ROCm's hipfft, or set WEFT_HIPFFT to its "
                                     "folder): "
                                   : "cuFFT cannot be opened (pip install nvidia-cufft, or set WEFT_CUFFT to its "
                                     "folder): ") +
                      opened.problem;
    return library;
  }
  int version = 0;
  library.version_of(&version);
  // 1000 major + 100 minor + patch (cuFFT), 10000 major + 100 minor + patch (hipFFT).
  const int major = library.hip ? version / 10000 : version / 1000;
  const int minor = (library.hip ? version % 10000 : version % 1000) / 100;
  library.version = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(version % 100);
  return library;
}

const GpuFunctions& gpu_functions(device::Backend backend) {
  static const GpuFunctions cuda = open_gpu_library(device::Backend::cuda),
                            hip = open_gpu_library(device::Backend::hip);
  return backend == device::Backend::hip ? hip : cuda;
}

std::string error_text(int code) {
  const char* const names[] = {"success",
                               "invalid plan",
                               "allocation failed",
                               "invalid type",
                               "invalid value",
                               "internal error",
                               "execution failed",
                               "set-up failed",
                               "invalid size",
                               "unaligned data",
                               "incomplete list of parameters",
                               "invalid device",
                               "parse error",
                               "no work area",
                               "not implemented",
                               "license error",
                               "not supported",
                               "a library it needs is missing",
                               "NVRTC failed",
                               "nvJitLink failed"};
  const bool known = code >= 0 && code < static_cast<int>(std::size(names));
  return std::string(known ? names[code] : "unknown error") + " (" + std::to_string(code) + ")";
}

template <class T>
int type_of(Kind kind) {
  constexpr bool is_double = sizeof(T) == sizeof(double);
  switch (kind) {
    case Kind::r2c:
      return is_double ? gpu::d2z : gpu::r2c;
    case Kind::c2r:
      return is_double ? gpu::z2d : gpu::c2r;
    default:
      return is_double ? gpu::z2z : gpu::c2c;
  }
}

}  // namespace

const GpuLibrary& gpu_library(device::Backend backend) { return gpu_functions(backend); }

template <class T>
struct GpuLines<T>::Plan {
  Plan(std::shared_ptr<device::Device> device_in, const LinesShape& shape_in)
      : device(std::move(device_in)), shape(shape_in), library(gpu_functions(device->backend())) {
    shape.check();
    if (!library.problem.empty()) throw std::runtime_error(library.problem);
    activate();
    check(library.create(&handle), "making a plan");
    try {
      check(library.set_auto_allocation(handle, 0), "keeping a plan from allocating");
      const int code = make();
      if (code == gpu::alloc_failed)
        throw std::runtime_error(library.name + ": the device's memory is full: making a plan");
      check(code, "planning " + std::to_string(shape.count) + " transforms of " + std::to_string(shape.n) + " points");
    } catch (...) {
      library.destroy(handle);
      throw;
    }
  }
  ~Plan() {
    if (context_is_current()) library.destroy(handle);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  int make() {
    const int type = type_of<T>(shape.kind);
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    if (std::max({shape.count, shape.extent_in(), shape.extent_out()}) <= most) {
      int n = shape.n;
      // In one dimension the library reads from the embedding arrays only whether strides are given.
      return library.make_many(handle, 1, &n, &n, static_cast<int>(shape.stride_in),
                               static_cast<int>(shape.distance_in), &n, static_cast<int>(shape.stride_out),
                               static_cast<int>(shape.distance_out), type, static_cast<int>(shape.count), &work_bytes);
    }
    long long n = shape.n;
    return library.make_many_64(handle, 1, &n, &n, shape.stride_in, shape.distance_in, &n, shape.stride_out,
                                shape.distance_out, type, shape.count, &work_bytes);
  }

  void run(const char* name, device::Stream& stream, const void* in, void* out) {
    if (work_bytes > 0 && work_area == nullptr) throw std::logic_error(library.name + ": a plan has no work area");
    device->enqueue(name, stream, [&] {
      check(library.set_stream(handle, stream.handle()), "choosing a plan's stream");
      check(execute(const_cast<void*>(in), out), "transforming");
    });
  }
  int execute(void* in, void* out) const {
    constexpr int precision = sizeof(T) == sizeof(double) ? 0 : 1;
    switch (shape.kind) {
      case Kind::r2c:
        return library.execute_r2c[precision](handle, in, out);
      case Kind::c2r:
        return library.execute_c2r[precision](handle, in, out);
      case Kind::forward:
        return library.execute_c2c[precision](handle, in, out, gpu::forward);
      default:
        return library.execute_c2c[precision](handle, in, out, gpu::backward);
    }
  }

  void set_work_area(void* memory) {
    activate();
    check(library.set_work_area(handle, memory), "giving a plan its work area");
    work_area = memory;
  }

  void check(int code, const std::string& what) const {
    if (code != gpu::success) throw std::runtime_error(library.name + ": " + what + " failed: " + error_text(code));
  }
  bool context_is_current() const {
    const device::GpuApi& driver = device::gpu_api(device->backend());
    if (context == nullptr) driver.retain_context(&context, device->info().ordinal);
    return driver.activate(context, device->info().ordinal) == 0;
  }
  void activate() const {
    if (!context_is_current()) throw std::runtime_error(library.name + ": cannot set the current device");
  }

  std::shared_ptr<device::Device> device;
  LinesShape shape;
  const GpuFunctions& library;
  mutable void* context = nullptr;
  gpu::Handle handle = nullptr;
  std::size_t work_bytes = 0;
  void* work_area = nullptr;
};

template <class T>
GpuLines<T>::GpuLines(std::shared_ptr<device::Device> device, const LinesShape& shape)
    : plan_(std::make_unique<Plan>(std::move(device), shape)) {}
template <class T>
GpuLines<T>::GpuLines(GpuLines&& other) noexcept = default;
template <class T>
GpuLines<T>& GpuLines<T>::operator=(GpuLines&& other) noexcept = default;
template <class T>
GpuLines<T>::~GpuLines() = default;

template <class T>
std::size_t GpuLines<T>::work_bytes() const {
  return plan_->work_bytes;
}
template <class T>
void GpuLines<T>::set_work_area(void* memory) {
  plan_->set_work_area(memory);
}
template <class T>
void GpuLines<T>::operator()(const char* name, device::Stream& stream, const void* in, void* out) {
  plan_->run(name, stream, in, out);
}
template <class T>
const LinesShape& GpuLines<T>::shape() const {
  return plan_->shape;
}

template class GpuLines<double>;
template class GpuLines<float>;

}  // namespace weft::fft
