// The GPU vendors' libraries for batched 1-D Fourier transforms, opened at run time: cuFFT and hipFFT, whose functions
// have the same signatures under two names.
//
// Like the host's library (library.hpp), whose Shape it shares, it neither transposes nor scales. Unlike the host's,
// c2r may overwrite its input (cuFFT documentation, section 2.4).
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
  std::string problem;  // why it cannot be used, with what to install; empty if it can
};
// Opened by the first call, and kept open. WEFT_CUFFT and WEFT_HIPFFT may name the library, or folders that hold it.
// Never throws: read `problem`.
const GpuLibrary& gpu_library(device::Backend backend);

// A plan on one GPU. Plans that never run at the same time can share a work area.
template <class T>
class GpuLines {
 public:
  // std::runtime_error if the library is absent or rejects the shape. Allocates no work area.
  GpuLines(std::shared_ptr<device::Device> device, const LinesShape& shape);
  GpuLines(GpuLines&& other) noexcept;
  GpuLines& operator=(GpuLines&& other) noexcept;
  ~GpuLines();

  // The size of the work area, and its address, which must be set before the first run unless the size is 0. The caller
  // owns the memory.
  std::size_t work_bytes() const;
  void set_work_area(void* memory);

  // Enqueues on the stream. `name` is shown on the device's timeline: a literal, or kept alive.
  void operator()(const char* name, device::Stream& stream, const void* in, void* out);
  const LinesShape& shape() const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace weft::fft
