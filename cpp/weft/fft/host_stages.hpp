// The passes on the host: lines are copied into cache, transformed and processed there, and written to their next
// location. The OpenMP threads of a rank divide the planes or columns of a pass among them.
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
#include "weft/fft/rows.hpp"
#include "weft/fft/stages.hpp"

namespace weft::fft {

template <class T>
class HostStages final : public Stages<T> {
 public:
  using Complex = std::complex<T>;
  // `library`: the one used in the passes (library.hpp).
  HostStages(const Decomposition& decomposition, int library);

  Ways ways_by_size() const override;
  void prepare_whole(const Ways& ways) override;
  void whole_forward(const Way& way, const T* points, Complex* modes, T scale, device::Stream& stream) override;
  void whole_backward(const Way& way, const Complex* modes, Complex* work, T* points, T scale,
                      device::Stream& stream) override;
  void node_forward(const Way& way, NodeField<T>& field, const T* points, Complex* modes, T scale,
                    device::Stream& stream) override;
  void node_backward(const Way& way, NodeField<T>& field, const Complex* modes, T* points, T scale,
                     device::Stream& stream) override;
  void lines(const LinesPass<T>& pass, device::Stream& stream) override;
  void physical(const PhysicalPass<T>& pass, device::Stream& stream) override;
  void copy(const char* what, const std::vector<Pieces<Complex>>& from, const std::vector<Pieces<Complex>>& to,
            device::Stream& stream) override;
  std::int64_t memory_bytes() const override;

 private:
  // Memory and plans of one thread.
  struct Worker {
    std::map<std::pair<LinesShape, int>, HostLines<T>> plans;
    device::Array<Complex> modes;  // a panel, or the planes of all variables
    device::Array<T> points;       // rows of all variables
  };
  // The share of a pass that one thread handles: planes `begin` to `end`, counted in the direction across the lines.
  void panels(const LinesPass<T>& pass, Worker& worker, std::int64_t begin, std::int64_t end, device::Stream& stream);
  void panels(const PhysicalPass<T>& pass, Worker& worker, std::int64_t begin, std::int64_t end,
              device::Stream& stream);
  // Transforms the rows of `points` in one plane of z or of y: from modes to points, and back to as many rows of modes.
  void rows(const PhysicalPass<T>& pass, Worker& worker, const Block<Complex>& modes, const Box& points,
            device::Stream& stream);
  // The same without a pointwise function: rows are transformed in place, while the next ones are prefetched.
  void rows_of_fields(const PhysicalPass<T>& pass, Worker& worker, const Block<Complex>& modes, const Box& points);
  void columns(Worker& worker, Kind kind, Block<Complex> modes, int variable);
  // With several ranks: whether the modes of this rank fit into the caches, so that passes without functions need no
  // panels.
  bool by_planes(const Box& box, std::int64_t most) const;
  // Such passes: x and z of fields that are contiguous, and y of planes, in place.
  void slabs(const PhysicalPass<T>& pass);
  void planes_forward(const LinesPass<T>& pass);
  // The first transforms contiguous rows of points to contiguous rows of modes, with planes `plane` apart, and calls
  // then(worker, plane) on each plane. The second calls first(worker, plane) on each plane and transforms back.
  template <class Then>
  void rows_forward(const T* points, Complex* modes, std::int64_t plane, std::int64_t ny, std::int64_t nz, T scale,
                    int library, const Then& then);
  template <class First>
  void rows_backward(Complex* modes, T* points, std::int64_t plane, std::int64_t ny, std::int64_t nz, T scale,
                     int library, const First& first);
  const HostLines<T>& plan(Worker& worker, const LinesShape& shape) { return plan(worker, shape, library_); }
  static const HostLines<T>& plan(Worker& worker, const LinesShape& shape, int library);
  // Copies one variable between pieces of the same box.
  template <Stores stores>
  void copy_in_shares(const Pieces<Complex>& to, const Pieces<Complex>& from) const;
  // The plan for the columns of one plane along y, in place, for all modes.
  const HostLines<T>& plane_columns(Worker& worker, Kind kind, int library);
  // Transforms `width` neighbouring columns along z in place; their elements are `plane` apart.
  void field_columns(Kind kind, Complex* modes, std::int64_t width, std::int64_t plane, int library);
  HostField<T> plan_3d(Kind kind, int library) const;
  // For a field transformed by planes: how many rows along x one call of the library transforms.
  std::int64_t rows_at_once(std::int64_t ny, std::int64_t nz, int library) const;
  template <class V>
  V* at_least(device::Array<V>& memory, std::int64_t values) const;
  // The number of threads to use for that many values.
  int threads(std::int64_t values) const;

  const Decomposition& decomposition_;
  std::shared_ptr<device::Device> host_;
  int library_;
  std::vector<Worker> workers_;  // by thread
};

}  // namespace weft::fft
