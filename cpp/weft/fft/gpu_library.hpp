// The GPU vendors' libraries for Fourier transforms, of batches of lines and of whole fields, opened at run time: cuFFT
// and hipFFT, whose functions have the same signatures under different names.
//
// Like the host's library (library.hpp), whose shapes are used here, they neither transpose nor scale. Unlike the
// host's, c2r may overwrite its input (cuFFT documentation, section 2.4), both sides must be aligned for a complex
// number (section 3.9), and c2r of a field needs the coefficients of a real one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "weft/device/device.hpp"
#include "weft/fft/library.hpp"

namespace weft::fft {

struct GpuLibrary {
  std::string name;     // "cuFFT" or "hipFFT"
  std::string version;  // "12.0.0"
  std::string problem;  // why it cannot be used, and what to install; empty if it can
};
// Opened by the first call, and kept open. WEFT_CUFFT and WEFT_HIPFFT may name the library, or folders that contain it.
// Never throws: check `problem`.
const GpuLibrary& gpu_library(device::Backend backend);

// A plan on one GPU. Plans that never run at the same time can share a work area.
template <class T, class Shape>
class GpuTransform {
 public:
  // std::runtime_error if the library is absent or rejects the shape. Allocates no work area.
  GpuTransform(std::shared_ptr<device::Device> device, const Shape& shape);
  GpuTransform(GpuTransform&& other) noexcept;
  GpuTransform& operator=(GpuTransform&& other) noexcept;
  ~GpuTransform();

  // The size of the work area, and its address, which must be set before the first run unless the size is 0. The caller
  // owns the memory.
  std::size_t work_bytes() const;
  void set_work_area(void* memory);

  // Enqueues the transform on the stream. `name` is shown on the device's timeline: it must be a literal or outlive the
  // trace.
  void operator()(const char* name, device::Stream& stream, const void* in, void* out);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};
template <class T>
using GpuLines = GpuTransform<T, LinesShape>;
template <class T>
using GpuField = GpuTransform<T, FieldShape>;

}  // namespace weft::fft
