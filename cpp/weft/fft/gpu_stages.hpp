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
  Ways ways_by_size() const override;
  void prepare_whole(const Ways& ways) override;
  void whole_forward(const Way& way, const T* points, Complex* modes, T scale, device::Stream& stream) override;
  void whole_backward(const Way& way, const Complex* modes, Complex* work, T* points, T scale,
                      device::Stream& stream) override;
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
  // Enlarges memory to at least that many values.
  template <class V>
  void enlarge(device::Array<V>& memory, std::int64_t values);
  void enlarge_tables(const Held& held);
  // Makes the work area large enough for plans that take `bytes`, and passes it to all plans for which it suffices.
  void enlarge_area(std::size_t bytes);
  // Returns where a plan of a whole field finds the points or leaves them: at `points` or, if these are not aligned, in
  // memory of the stages. Allocates what such a transform needs.
  T* prepare_field(const GpuField<T>& plan, T* points, device::Stream& stream);
  void copy(const Copy& kernel, const Fields& from, const Fields& to, T scale, device::Stream& stream);
  void transform(const char* name, const LinesShape& shape, const void* in, void* out, device::Stream& stream);
  const std::int64_t* table(const std::vector<std::int64_t>& words, device::Stream& stream);

  const Decomposition& decomposition_;
  std::shared_ptr<device::Device> device_;
  Copy unpack_, pack_;
  device::Kernel<Complex*, int, int, int> symmetrize_;
  device::Array<std::int64_t> table_memory_;
  std::map<std::vector<std::int64_t>, std::size_t> tables_;  // of recent copies: content -> position in table_memory_
  std::size_t table_words_ = 0;                              // in use
  std::int64_t generation_ = 0;
  std::map<LinesShape, GpuLines<T>> plans_;
  std::map<Kind, GpuField<T>> fields_;  // r2c, c2r
  device::Array<char> library_area_;
  device::Array<Complex> modes_;
  device::Array<T> points_;
};

}  // namespace weft::fft
