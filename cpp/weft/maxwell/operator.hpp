// The spatial operator of Maxwell's equations, and a Runge-Kutta stage with it, on the ranks of a mesh (NekCEM, Eq. 9):
//   eps dE/dt = curl H - sigma E,  mu dH/dt = -curl E.
//
// Fields, rates and residuals are in device memory, [element][Ex Ey Ez Hx Hy Hz][k][j][i] at GLL points, in the mesh's
// order of elements, for any choice of kernels. Only -n x H and -n x E are exchanged across faces, six values per
// point. exchange::GatherScatter adds them (Eqs. 6 and 7) while the volume curl is computed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/maxwell/local_operator.hpp"
#include "weft/maxwell/options.hpp"
#include "weft/maxwell/simd_operator.hpp"
#include "weft/maxwell/sources.hpp"
#include "weft/mesh/mesh.hpp"

namespace weft::maxwell {

// T: float or double.
template <class T>
class Operator {
 public:
  // Throws one error on all ranks for: an order outside 1..15; a boundary of the mesh without a condition, or a
  // condition for an unknown boundary; a region without a material; eps or mu that are not positive, or negative sigma;
  // periodic faces whose normals are not opposite (the fields would have to be rotated); sources and layers that
  // Sources rejects. (collective)
  Operator(const mesh::Mesh& mesh, const Options& options);

  // rates = d(fields)/dt at `time`; the auxiliary variables of a matched layer are unchanged. (collective)
  void apply(double time, const T* fields, T* rates, device::Stream& stream);
  // A stage of a low-storage Runge-Kutta method (solver/low_storage.hpp) at the clock's time + offset: residual <- a
  // residual + dt rates(fields), fields <- fields + b residual. Call begin before the first stage. more: another stage
  // follows, and the fields are not changed in between. (collective)
  void begin(const T* fields, device::Stream& stream);
  void stage(double offset, double a, double b, double dt, T* fields, T* residual, bool more, device::Stream& stream);
  // The clock is the time used by sources; it is kept on the device.
  void set_clock(double time, device::Stream& stream) { sources_->set_clock(time, stream); }
  void advance_clock(double dt, device::Stream& stream) { sources_->advance_clock(dt, stream); }
  // The rates of zero fields with every source at its maximum, f = 1.
  void source_rates(T* rates, device::Stream& stream);
  bool driven() const { return sources_->driven(); }    // by waves or dipoles
  bool layered() const { return sources_->layered(); }  // whether there is a matched layer
  void rest() { sources_->rest(); }                     // resets the layer's auxiliary variables to zero
  // The layer's auxiliary variables, as in Sources.
  std::vector<T> layer_memory() const { return sources_->layer_memory(); }
  void set_layer_memory(std::span<const T> values) { sources_->set_layer_memory(values); }

  std::int64_t elements() const { return mesh_.elements(); }  // on this rank
  std::int64_t points() const { return elements() * points_; }
  std::int64_t entries() const { return 6 * points(); }  // number of values in the fields
  const mpi::Comm& comm() const { return mesh_.comm; }
  const mesh::Mesh& mesh() const { return mesh_; }
  const Options& options() const { return options_; }
  // The largest time step that the five-stage Runge-Kutta method should take: the minimum, over all elements, of the
  // smallest distance between GLL points divided by the local speed of light, times `courant`. The decay rates
  // (conductivity, damping of a layer) divided by `decay_limit` are added to 1 / dt.
  double dt_limit() const { return dt_limit_; }

  // The integrals of eps E . E / 2 and mu H . H / 2 over the whole mesh, by quadrature. (collective)
  std::pair<double, double> energy(const T* fields, device::Stream& stream);
  // The L2 norms of div(eps E) and div(mu H) within the elements; jumps between elements do not count. Host arrays.
  // (collective)
  std::pair<double, double> divergence(std::span<const T> fields) const;

  const SimdOperator<T>* simd() const { return simd_.get(); }  // if kernels = simd, else null
  const exchange::Tuning& tuning() const { return simd_ ? simd_->tuning() : exchange_->tuning(); }
  // Sent by this rank in one stage.
  std::int64_t bytes_sent() const { return simd_ ? simd_->bytes_sent() : exchange_->bytes_sent(); }
  std::int64_t messages() const { return simd_ ? simd_->messages() : exchange_->messages(); }
  std::map<std::string, std::int64_t> memory_bytes() const;  // on this rank, by array; excludes the caller's vectors
  // Flops of one stage on this rank: by Eq. 16 of the paper, 36 (N+1) + 84 per point, and as executed by these kernels.
  double paper_flops() const;
  double flops() const;
  // Minimum memory traffic of a stage in bytes if nothing stays in cache between its kernels, as counted in
  // kernels/maxwell.hpp.
  double bytes() const;

 private:
  Coefficients coefficients(const Geometry& shape, const std::shared_ptr<exchange::Connectivity>& connectivity);
  double fastest_rate(const Geometry& shape) const;
  void rates_and_update(double offset, double a, double b, double dt, T* fields, T* residual, bool update_fields,
                        device::Stream& stream);
  exchange::View<T> traces() {
    return exchange::view(trace_layout(*options_.device), traces_.data(), 6, std::ssize(traces_) / 6);
  }

  Options options_;
  mesh::Mesh mesh_;
  std::int64_t points_;  // per element
  double dt_limit_ = 0;
  std::unique_ptr<SimdOperator<T>> simd_;  // if null, the three members below are used
  std::unique_ptr<LocalOperator<T>> local_;
  std::unique_ptr<exchange::GatherScatter<T>> exchange_;
  std::unique_ptr<Sources<T>> sources_;
  device::Array<T> traces_;
};

// The factor in dt_limit. From the operator's largest eigenvalues, the method of Carpenter and Kennedy is stable, on
// boxes of cubes, up to 0.635 (N = 15, the smallest value) to 0.8 (N = 1) with upwind flux, and up to 0.78 with central
// flux.
inline constexpr double courant = 0.6;
// The method's stability interval on the negative real axis is slightly longer than this.
inline constexpr double decay_limit = 4.5;

}  // namespace weft::maxwell
