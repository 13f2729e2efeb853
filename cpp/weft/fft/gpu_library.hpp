// The GPU vendors' libraries for batched 1-D Fourier transforms, opened at run time: cuFFT and hipFFT, whose functions
// have the same shape under two names.
//
// What it does not do: transpose or scale, as the host's (library.hpp), whose shapes it takes. Unlike there, c2r may
// overwrite its input (cuFFT documentation, section 2.4).
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
// Opened with the first call and kept. WEFT_CUFFT and WEFT_HIPFFT may name the library, or folders that hold it. Never
// throws: read `problem`.
const GpuLibrary& gpu_library(device::Backend backend);

// A plan on one GPU. Plans that are never at work at the same time can share one work area.
template <class T>
class GpuLines {
 public:
  // std::runtime_error where the library is absent or refuses the shape. No work area is allocated.
  GpuLines(std::shared_ptr<device::Device> device, const LinesShape& shape);
  GpuLines(GpuLines&& other) noexcept;
  GpuLines& operator=(GpuLines&& other) noexcept;
  ~GpuLines();

  // What the plan needs beside its arrays, and where it is: before the first run, unless it is 0 bytes. The memory is
  // the caller's.
  std::size_t work_bytes() const;
  void set_work_area(void* memory);

  // Enqueues on the stream. `name` is what the device's time line shows: a literal, or kept alive.
  void operator()(const char* name, device::Stream& stream, const void* in, void* out);
  const LinesShape& shape() const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace weft::fft
