// Maxwell's equations on host processors: a Runge-Kutta stage in one pass over memory, with the traces exchanged while
// other elements compute. docs/cpu-kernels.md explains the design.
#pragma once

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

// T: float or double. Fields, rates and residuals are host memory, [element][Ex Ey Ez Hx Hy Hz][k][j][i].
template <class T>
class SimdOperator {
 public:
  // `coefficients`: as Operator makes them. `driven`: elements whose residual others add to, ascending.
  // std::invalid_argument unless the device is the host. (collective)
  SimdOperator(const mesh::Mesh& mesh, int order, const Geometry& geometry, const Coefficients& coefficients,
               const std::set<std::int32_t>& driven, const exchange::Asked& asked,
               std::shared_ptr<device::Device> device);

  // Call this for new fields: computes their traces, and sends those that other ranks need. (collective)
  void begin(const T* fields, device::Stream& stream);
  // Before what adds dt (rates of its own) to the residual of the driven elements, which comes before the stage of this
  // a or, with a = 0, before rates: residual <- a residual there.
  void prepare_driven(double a, T* residual) const;
  // After begin or a stage with `more`: residual <- a residual + dt rates(fields), fields <- fields + b residual. more:
  // another stage follows on the same fields, untouched in between; its traces are made and sent. (collective)
  void stage(double a, double b, double dt, T* fields, T* residual, bool more, device::Stream& stream);
  // begin and rates = d(fields)/dt, added to what the driven elements have. (collective)
  void rates(const T* fields, T* rates, device::Stream& stream);

  // Of this rank: the integrals of eps E . E / 2 and mu H . H / 2 by quadrature.
  std::pair<double, double> energy(const T* fields) const;

  const exchange::Tuning& tuning() const { return exchange_->halo_tuning(); }
  std::int64_t bytes_sent() const { return exchange_->bytes_sent(); }  // by this rank in one stage
  std::int64_t messages() const { return exchange_->messages(); }
  std::map<std::string, std::int64_t> memory_bytes() const;  // of this rank; fields and residual are the caller's
  // Of one stage of this rank: the operations of these kernels, and the bytes that must pass between memory and cache
  // (fields and residual read and written, traces written and read, frames of curved elements).
  double flops() const;
  double bytes() const;

 private:
  struct Range {
    std::int64_t begin, driven, end;  // in sequence_; from `driven` on, the driven elements
  };
  void run(StageFunction<T> function, const StageArguments<T>& arguments, const Range& range);
  void run(StageFunction<T> function, const StageArguments<T>& arguments, std::int64_t begin, std::int64_t end);

  struct Free {
    void operator()(void* p) const { ::operator delete[](p, std::align_val_t{4096}); }
  };

  int order_;
  std::int64_t elements_;
  std::int64_t curved_ = 0, affine_ = 0;
  SimdFunctions<T> functions_;
  SimdElements<T> view_{};
  device::Array<T> tables_, jacobians_, face_metrics_;
  device::Array<T> traces_[2];  // [6 E + halo + 1][4][face_stride]; the last is zero, what a boundary face meets
  int now_ = 0;                 // which of the two holds the traces of the fields
  bool in_flight_ = false;      // what other ranks need of them
  std::vector<std::int32_t> row_starts_, match_index_;
  std::vector<Shape> shapes_;
  std::vector<ElementValues<T>> values_;
  std::vector<std::int64_t> metric_, neighbors_;
  std::vector<std::int16_t> matches_;
  std::vector<FaceMatch<T>> match_;
  std::vector<std::int64_t> sequence_;           // elements in the order they are visited:
  Range first_half_{}, halo_{}, second_half_{};  // halo: those that meet other ranks
  std::vector<std::int32_t> driven_;
  std::unique_ptr<exchange::Exchange<T>> exchange_;
  int threads_;
  std::vector<std::unique_ptr<T[], Free>> scratch_;
  std::vector<double> weights_;
};

}  // namespace weft::maxwell
