// Sources and damping at selected points (kernels/maxwell_sources.hpp): plane waves entering through faces, dipole
// currents, perfectly matched layers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/maxwell/geometry.hpp"
#include "weft/maxwell/options.hpp"
#include "weft/mesh/mesh.hpp"

namespace weft::maxwell {

// T: float or double.
template <class T>
class Sources {
 public:
  // Throws one error on all ranks for: a wave whose direction is zero or parallel to its field, a dipole outside the
  // mesh, arrays whose length does not match the mesh, negative damping, and waves without total-field elements.
  // (collective)
  Sources(const mesh::Mesh& mesh, const Options& options, const Geometry& geometry,
          const std::shared_ptr<exchange::Connectivity>& connectivity);

  bool driven() const { return driven_; }    // on any rank: by waves or dipoles
  bool layered() const { return layered_; }  // on any rank: elements of a layer
  // Elements of this rank whose residual add_currents or add_layer modify, ascending.
  const std::set<std::int32_t>& elements() const { return touched_; }

  void set_clock(double time, device::Stream& stream);
  void advance_clock(double dt, device::Stream& stream);
  // Adds the incident field's part of the jumps to the summed traces, at the clock's time + offset. `steady`: with f =
  // 1.
  void add_incident(double offset, bool steady, exchange::View<T> traces, device::Stream& stream) const;
  // residual += dt (contribution of currents to the rates).
  void add_currents(double offset, bool steady, double dt, T* residual, device::Stream& stream) const;
  // residual += dt (contribution of the layer to the rates); with `step` its auxiliary variables advance by one stage.
  void add_layer(double a, double b, double dt, bool step, const T* fields, T* residual, device::Stream& stream);

  // Resets the auxiliary variables of the layer to zero.
  void rest();
  // The layer's auxiliary variables, which are its state between steps: [elements of this rank][6][points], 0 in
  // elements outside the layer. They are on the host; no work that changes them may be pending.
  std::vector<T> layer_memory() const;
  void set_layer_memory(std::span<const T> values);

  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  struct Wave {
    Pulse pulse;
    device::Array<std::int32_t> points;
    device::Array<double> delays;
    device::Array<T> amplitudes;
  };
  struct Current {
    Pulse pulse;
    device::Array<std::int64_t> places;
    device::Array<T> amplitudes;
  };
  void add_waves(const mesh::Mesh& mesh, const Options& options, const Geometry& geometry,
                 std::span<const std::int32_t> flags);
  void add_dipoles(const mesh::Mesh& mesh, const Options& options, const Geometry& geometry);
  void set_up_layer(const mesh::Mesh& mesh, const Options& options);

  std::shared_ptr<device::Device> device_;
  int points_;  // per element
  bool driven_ = false, layered_ = false;
  std::vector<Wave> waves_;
  std::vector<Current> currents_;
  std::set<std::int32_t> touched_;
  std::int64_t all_elements_ = 0;  // on this rank
  std::int64_t layer_elements_ = 0;
  device::Array<std::int32_t> elements_;
  device::Array<T> damping_, auxiliary_, auxiliary_residual_;
  device::Array<double> clock_;
  device::Kernel<double, double*> set_clock_, advance_clock_;
  device::Kernel<long, Pulse, const double*, double, const std::int32_t*, const double*, const T*, T*, long, long>
      incident_;
  device::Kernel<long, Pulse, const double*, double, T, const std::int64_t*, const T*, T*> current_;
  device::Kernel<long, int, int, T, T, T, const std::int32_t*, const T*, const T*, T*, T*, T*> layer_;
};

}  // namespace weft::maxwell
