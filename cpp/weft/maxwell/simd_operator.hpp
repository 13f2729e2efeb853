// Maxwell's equations on the host: a Runge-Kutta stage in one pass over memory. The traces are exchanged while other
// elements are computed. docs/cpu-kernels.md explains the design.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/maxwell/geometry.hpp"
#include "weft/maxwell/local_operator.hpp"
#include "weft/maxwell/simd_elements.hpp"
#include "weft/mesh/mesh.hpp"

namespace weft::maxwell {

// T: float or double. Fields, rates and residuals are in host memory, [element][Ex Ey Ez Hx Hy Hz][k][j][i].
template <class T>
class SimdOperator {
 public:
  // `coefficients`: as computed by Operator. `driven`: elements to whose residual others add, ascending.
  // std::invalid_argument unless the device is the host. (collective)
  SimdOperator(const mesh::Mesh& mesh, int order, const Geometry& geometry, const Coefficients& coefficients,
               const std::set<std::int32_t>& driven, const exchange::Asked& asked,
               std::shared_ptr<device::Device> device);

  // Call this for new fields: computes their traces, and starts sending those that other ranks need. (collective)
  void begin(const T* fields, device::Stream& stream);
  // For the driven elements: residual <- a residual. Call this before dt times additional rates are added to their
  // residual, which in turn must precede the stage with this a or, with a = 0, rates().
  void prepare_driven(double a, T* residual) const;
  // Call this after begin, or after a stage with `more`: residual <- a residual + dt rates(fields), fields <- fields +
  // b residual. more: another stage follows on the same fields, which must not be changed in between; its traces are
  // computed and sent. (collective)
  void stage(double a, double b, double dt, T* fields, T* residual, bool more, device::Stream& stream);
  // Calls begin and computes rates = d(fields)/dt; for the driven elements, adds to what rates holds. (collective)
  void rates(const T* fields, T* rates, device::Stream& stream);

  // On this rank: the integrals of eps E . E / 2 and mu H . H / 2 by quadrature.
  std::pair<double, double> energy(const T* fields) const;

  const exchange::Tuning& tuning() const { return exchange_->halo_tuning(); }
  std::int64_t bytes_sent() const { return exchange_->bytes_sent(); }  // by this rank in one stage
  std::int64_t messages() const { return exchange_->messages(); }
  // The number of this rank's elements by how the kernels treat them: box, affine, curved.
  std::array<std::int64_t, 3> elements_by_shape() const { return by_shape_; }
  std::map<std::string, std::int64_t> memory_bytes() const;  // on this rank, without the caller's fields and residual
  // For one stage on this rank: the operations of these kernels, and the bytes that must pass between memory and cache
  // (fields and residual read and written, traces written and read, frames of curved elements).
  double flops() const;
  double bytes() const;

 private:
  struct Range {
    std::int64_t begin, driven, end;  // positions in sequence_; driven elements begin at `driven`
  };
  void run(StageFunction<T> function, const StageArguments<T>& arguments, const Range& range);
  void run(StageFunction<T> function, const StageArguments<T>& arguments, std::int64_t begin, std::int64_t end);

  struct Free {
    void operator()(void* p) const { ::operator delete[](p, std::align_val_t{4096}); }
  };

  int order_;
  std::int64_t elements_;
  std::array<std::int64_t, 3> by_shape_{};
  SimdFunctions<T> functions_;
  SimdElements<T> view_{};
  device::Array<T> tables_, jacobians_, face_metrics_;
  device::Array<T> traces_[2];  // [6 E + halo + 1][4][face_stride]; the last is zero, for boundary faces
  int now_ = 0;                 // which of the two holds the traces of the fields
  bool in_flight_ = false;      // traces that other ranks need
  std::vector<std::int32_t> row_starts_, match_index_;
  std::vector<Shape> shapes_;
  std::vector<ElementValues<T>> values_;
  std::vector<std::int64_t> metric_, neighbors_;
  std::vector<std::int16_t> matches_;
  std::vector<FaceMatch<T>> match_;
  std::vector<std::int64_t> sequence_;           // elements in the order of processing:
  Range first_half_{}, halo_{}, second_half_{};  // halo: elements that meet other ranks
  std::vector<std::int32_t> driven_;
  std::unique_ptr<exchange::Exchange<T>> exchange_;
  int threads_;
  std::vector<std::unique_ptr<T[], Free>> scratch_;
  std::vector<double> weights_;
};

}  // namespace weft::maxwell
