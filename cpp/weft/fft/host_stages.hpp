// The passes on the host: lines are copied into cache, transformed and processed there, and written to their next
// place.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/decomposition.hpp"
#include "weft/fft/library.hpp"
#include "weft/fft/stages.hpp"

namespace weft::fft {

template <class T>
class HostStages final : public Stages<T> {
 public:
  using Complex = std::complex<T>;
  // `library`: of the passes (library.hpp).
  HostStages(const Decomposition& decomposition, int library);

  bool has_whole() const override;
  Ways ways_by_size() const override;
  void prepare_whole(const Ways& ways) override;
  void whole_forward(const Way& way, const T* points, Complex* modes, T scale) override;
  void whole_backward(const Way& way, Complex* modes, T* points, T scale, bool preserve) override;
  void lines(const LinesPass<T>& pass, device::Stream& stream) override;
  void physical(const PhysicalPass<T>& pass, device::Stream& stream) override;
  void copy(const char* what, const std::vector<Pieces<Complex>>& from, const std::vector<Pieces<Complex>>& to,
            device::Stream& stream) override;
  std::int64_t memory_bytes() const override;

 private:
  // The rows of `points` in one plane of z or of y: modes, of as many rows, to modes.
  void rows(const PhysicalPass<T>& pass, const Block<Complex>& modes, const Box& points, device::Stream& stream);
  // The same without a pointwise function: rows are transformed in place, while the next ones are prefetched.
  void rows_of_fields(const PhysicalPass<T>& pass, const Block<Complex>& modes, const Box& points);
  void columns(Kind kind, Block<Complex> modes, int variable);
  const HostLines<T>& plan(const LinesShape& shape) { return plan(shape, library_); }
  const HostLines<T>& plan(const LinesShape& shape, int library);
  // Of all modes: columns of one plane along y, in place; of the field along z.
  const HostLines<T>& plane_columns(Kind kind, int library);
  const HostLines<T>& field_columns(Kind kind, int library);
  HostField<T> plan_3d(Kind kind, bool preserve, int library) const;
  // Of a field that is transformed as a whole: how many rows along x one call transforms.
  std::int64_t rows_at_once() const;
  template <class V>
  V* at_least(device::Array<V>& memory, std::int64_t values);

  const Decomposition& decomposition_;
  std::shared_ptr<device::Device> host_;
  int library_;
  std::map<std::pair<LinesShape, int>, HostLines<T>> plans_;
  device::Array<Complex> modes_;  // a panel, or the planes of all variables
  device::Array<T> points_;       // rows of all variables
};

}  // namespace weft::fft
