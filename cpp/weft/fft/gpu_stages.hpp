// The passes on a GPU: a kernel gathers the pieces of the variables, the library transforms them, the pointwise
// functions enqueue their own kernels, and a kernel scatters the result to its next location.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/fft/gpu_library.hpp"
#include "weft/fft/stages.hpp"

namespace weft::fft {

template <class T>
class GpuStages final : public Stages<T> {
 public:
  using Complex = std::complex<T>;
  GpuStages(const Decomposition& decomposition, std::shared_ptr<device::Device> device);

  void prepare(const Held& held) override;
  void lines(const LinesPass<T>& pass, device::Stream& stream) override;
  void physical(const PhysicalPass<T>& pass, device::Stream& stream) override;
  void copy(const char* what, const std::vector<Pieces<Complex>>& from, const std::vector<Pieces<Complex>>& to,
            device::Stream& stream) override;
  std::int64_t memory_bytes() const override;
  std::int64_t generation() const override { return generation_; }

  // The value that memory_bytes() will have on the rank of `decomposition`. std::runtime_error if the library is
  // missing.
  static std::int64_t predicted_bytes(const Decomposition& decomposition, const Held& held,
                                      const std::shared_ptr<device::Device>& device);

 private:
  using Fields = std::vector<Pieces<Complex>>;

  using Copy = device::Kernel<int, const std::int64_t*, T>;
  void copy(const Copy& kernel, const Fields& from, const Fields& to, T scale, device::Stream& stream);
  void transform(const char* name, const LinesShape& shape, const void* in, void* out, device::Stream& stream);
  const std::int64_t* table(const std::vector<std::int64_t>& words, device::Stream& stream);

  const Decomposition& decomposition_;
  std::shared_ptr<device::Device> device_;
  Copy unpack_, pack_;
  device::Array<std::int64_t> table_memory_;
  std::map<std::vector<std::int64_t>, std::size_t> tables_;  // of recent copies: content -> position in table_memory_
  std::size_t table_words_ = 0;                              // in use
  std::int64_t generation_ = 0;
  std::map<LinesShape, GpuLines<T>> plans_;
  device::Array<char> library_area_;
  device::Array<Complex> modes_;
  device::Array<T> points_;
};

}  // namespace weft::fft
