// Boundary conditions of a flow: the prescribed entries of vectors, their values, and the contributions of boundaries
// to right-hand sides.
//
// If sides with different conditions meet at a point, a wall takes precedence over a prescribed velocity; of two
// boundaries with a prescribed velocity, the one named first in the mesh takes precedence; and prescribed values take
// precedence over symmetry and outflow. The pressure is 0 at all points of an outflow.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

// A function of position and time, in device memory: sets values [components][stride] at the first n of the points
// [3][stride].
template <class T>
using Function = std::function<void(const T* places, std::int64_t stride, std::int64_t n, double time, T* values,
                                    device::Stream& stream)>;

// wall: u = 0. velocity: given values. outflow: p = 0, nu du/dn = min(n . u, 0) u / 2 (directional do-nothing: Braack
// and Mucha, J. Comput. Math. 32, 2014). symmetry: n . u = 0 and no shear stress; the side must be normal to an axis.
enum class Kind { wall, velocity, outflow, symmetry };
std::string name(Kind kind);

template <class T>
struct Condition {
  Kind kind = Kind::wall;
  Function<T> velocity = {};  // three components, if kind is velocity
  bool steady = true;         // the values do not depend on time
};

// value: s is given. flux: kappa ds/dn is given. insulated: zero flux.
enum class ScalarKind { value, flux, insulated };
std::string name(ScalarKind kind);

template <class T>
struct ScalarCondition {
  ScalarKind kind = ScalarKind::insulated;
  Function<T> values = {};  // one component, if kind is value or flux
  bool steady = true;
};

// Entries of a vector (owned by this rank), their coordinates, and the values of a function at these points.
template <class T>
class Prescribed {
 public:
  Prescribed(const space::Space<T>& space, const std::vector<std::int32_t>& entries, Function<T> function,
             int components, bool steady);
  // Makes the values those at `time`.
  void evaluate(double time, device::Stream& stream);
  int count() const { return static_cast<int>(list_.size()); }
  bool steady() const { return steady_; }
  const std::int32_t* list() const { return list_.data(); }
  const T* values(int component) const { return values_.data() + static_cast<std::int64_t>(component) * count(); }

 private:
  Function<T> function_;
  bool steady_, evaluated_ = false;
  device::Array<std::int32_t> list_;
  device::Array<T> places_, values_;
};

// Boundaries for velocity and pressure. T: float or double.
template <class T>
class Boundaries {
 public:
  // CollectiveError on all ranks for a boundary without a condition, a condition without a boundary, and a symmetry
  // plane that is not normal to an axis. (collective)
  Boundaries(space::Space<T>& space, const std::map<std::string, Condition<T>>& conditions);

  const T* velocity_mask() const { return velocity_mask_.data(); }      // [3][entries] 0 where prescribed, else 1
  const T* pressure_mask() const { return pressure_mask_.data(); }      // [entries] 0 on outflow and in the zero slot
  const std::vector<std::string>& outflow() const { return outflow_; }  // names of the boundaries
  // Whether the pressure is determined only up to a constant: no side on any rank is an outflow.
  bool pressure_singular() const { return pressure_singular_; }

  // Sets the prescribed values of u at `time`. CollectiveError if there is a net inflow and no outflow. (collective)
  void prescribe(double time, T* u, device::Stream& stream);
  // rhs += a (q, n . u) on boundaries of prescribed velocity.
  void add_flux(T a, const T* u, T* rhs, device::Stream& stream) const;
  // f += (v, min(n . u, 0) u / 2) on outflow.
  void add_backflow(const T* u, T* f, device::Stream& stream) const;
  // rhs += nu (n x grad q, curl u) on boundaries of prescribed velocity. Fills the halo of u. (collective)
  void add_wall_vorticity(T viscosity, T* u, T* rhs, device::Stream& stream);

  std::int64_t bytes() const;

 private:
  void set_up_vorticity(const std::vector<space::BoundaryFace>& faces);
  void check_net_flux(const T* u, device::Stream& stream);

  space::Space<T>& space_;
  device::Array<T> velocity_mask_, pressure_mask_;
  std::vector<std::string> outflow_;
  bool pressure_singular_ = false, flux_checked_ = false;
  std::array<device::Array<std::int32_t>, 3> zeros_;  // by component: entries of walls and symmetry planes
  std::vector<Prescribed<T>> inflows_;
  bool has_inflow_ = false;  // on some rank
  struct Weighted {
    device::Array<std::int32_t> list;
    device::Array<T> normals;  // [3][count]
  };
  Weighted flux_, backflow_;
  std::int64_t vorticity_faces_ = 0;  // of this rank
  bool has_vorticity_ = false;        // on some rank
  device::Array<T> derivative_, metric_, tangents_, face_values_;
  device::Array<std::int32_t> face_index_, rows_, offsets_, columns_;
  device::Kernel<int, const std::int32_t*, const T*, T*> put_;
  device::Kernel<int, const std::int32_t*, T, T*> fill_;
  device::Kernel<int, const std::int32_t*, const T*, long, T, const T*, T*> boundary_flux_;
  device::Kernel<int, const std::int32_t*, const T*, long, const T*, T*> backflow_kernel_;
  device::Kernel<int, T, const T*, const std::int32_t*, const T*, const T*, const T*, T*> wall_vorticity_;
  device::Kernel<int, const std::int32_t*, const std::int32_t*, const std::int32_t*, const T*, T*> add_rows_;
};

// Boundaries for one scalar. Boundaries without a condition are insulated.
template <class T>
class ScalarBoundaries {
 public:
  // CollectiveError on all ranks for a condition without a boundary. (collective)
  ScalarBoundaries(space::Space<T>& space, const std::string& scalar,
                   const std::map<std::string, ScalarCondition<T>>& conditions);
  const T* mask() const { return mask_.data(); }  // [entries]
  void prescribe(double time, T* s, device::Stream& stream);
  void add_fluxes(double time, T* f, device::Stream& stream);  // f += (v, kappa ds/dn)
  std::int64_t bytes() const { return static_cast<std::int64_t>(mask_.bytes()); }

 private:
  device::Array<T> mask_;
  std::vector<Prescribed<T>> values_, fluxes_;
  std::vector<device::Array<T>> areas_;  // of the sides in fluxes_
  device::Kernel<int, const std::int32_t*, const T*, T*> put_;
  device::Kernel<int, const std::int32_t*, const T*, const T*, T*> flux_;
};

}  // namespace weft::flow
