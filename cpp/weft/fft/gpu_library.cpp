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

// The arguments of MakePlanMany (cuFFT documentation, section 2.6), with the slowest direction first.
struct Side {
  std::vector<long long> embed;
  std::int64_t stride, distance, extent;
};
struct Layout {
  std::vector<long long> n;
  Side in, out;
  std::int64_t count;
  std::string text;
};
// In one dimension the library reads from the embedding arrays only whether strides are given.
Layout layout_of(const LinesShape& s) {
  return {{s.n},
          {{s.n}, s.stride_in, s.distance_in, s.extent_in()},
          {{s.n}, s.stride_out, s.distance_out, s.extent_out()},
          s.count,
          std::to_string(s.count) + " transforms of " + std::to_string(s.n) + " points"};
}
Layout layout_of(const FieldShape& s) {
  std::vector<long long> n;
  for (const std::int64_t across : {s.nz, s.ny})
    if (across > 1) n.push_back(across);  // a direction of one point needs no transform
  Side in{n, 1, s.extent_in(), s.extent_in()}, out{n, 1, s.extent_out(), s.extent_out()};
  n.push_back(s.nx);
  (s.kind == Kind::r2c ? in : out).embed.push_back(s.nx);
  (s.kind == Kind::r2c ? out : in).embed.push_back(s.nx / 2 + 1);
  return {n, in, out, 1,
          "the transform of a field of " + std::to_string(s.nx) + " x " + std::to_string(s.ny) + " x " +
              std::to_string(s.nz) + " points"};
}

}  // namespace

const GpuLibrary& gpu_library(device::Backend backend) { return gpu_functions(backend); }

template <class T, class Shape>
struct GpuTransform<T, Shape>::Plan {
  Plan(std::shared_ptr<device::Device> device_in, const Shape& shape)
      : device(std::move(device_in)), kind(shape.kind), library(gpu_functions(device->backend())) {
    shape.check();
    if (!library.problem.empty()) throw std::runtime_error(library.problem);
    activate();
    check(library.create(&handle), "making a plan");
    try {
      check(library.set_auto_allocation(handle, 0), "keeping a plan from allocating");
      const Layout layout = layout_of(shape);
      const int code = make(layout);
      if (code == gpu::alloc_failed)
        throw std::runtime_error(library.name + ": the device's memory is full: making a plan");
      check(code, "planning " + layout.text);
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

  int make(const Layout& layout) {
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    const bool large = std::max({layout.count, layout.in.extent, layout.out.extent}) > most;
    return large ? make<long long>(library.make_many_64, layout) : make<int>(library.make_many, layout);
  }
  template <class Int, class Function>
  int make(const Function& function, const Layout& layout) {
    const auto& [n, in, out, count, text] = layout;
    std::vector<Int> sizes(n.begin(), n.end()), embed_in(in.embed.begin(), in.embed.end()),
        embed_out(out.embed.begin(), out.embed.end());
    return function(handle, static_cast<int>(sizes.size()), sizes.data(), embed_in.data(), static_cast<Int>(in.stride),
                    static_cast<Int>(in.distance), embed_out.data(), static_cast<Int>(out.stride),
                    static_cast<Int>(out.distance), type_of<T>(kind), static_cast<Int>(count), &work_bytes);
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
    switch (kind) {
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
  Kind kind;
  const GpuFunctions& library;
  mutable void* context = nullptr;
  gpu::Handle handle = nullptr;
  std::size_t work_bytes = 0;
  void* work_area = nullptr;
};

template <class T, class Shape>
GpuTransform<T, Shape>::GpuTransform(std::shared_ptr<device::Device> device, const Shape& shape)
    : plan_(std::make_unique<Plan>(std::move(device), shape)) {}
template <class T, class Shape>
GpuTransform<T, Shape>::GpuTransform(GpuTransform&& other) noexcept = default;
template <class T, class Shape>
GpuTransform<T, Shape>& GpuTransform<T, Shape>::operator=(GpuTransform&& other) noexcept = default;
template <class T, class Shape>
GpuTransform<T, Shape>::~GpuTransform() = default;

template <class T, class Shape>
std::size_t GpuTransform<T, Shape>::work_bytes() const {
  return plan_->work_bytes;
}
template <class T, class Shape>
void GpuTransform<T, Shape>::set_work_area(void* memory) {
  plan_->set_work_area(memory);
}
template <class T, class Shape>
void GpuTransform<T, Shape>::operator()(const char* name, device::Stream& stream, const void* in, void* out) {
  plan_->run(name, stream, in, out);
}

template class GpuTransform<double, LinesShape>;
template class GpuTransform<float, LinesShape>;
template class GpuTransform<double, FieldShape>;
template class GpuTransform<float, FieldShape>;

}  // namespace weft::fft
