// The effect of a flow on boundaries, divided by the density: force and moment of the pressure and of the viscous
// stress, wall shear, and the distance of the first points from the wall in wall units.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/flow/faces.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

// Exerted by the flow on what is outside the boundary: the integrals of p n and of -nu (grad u + grad u^T) n, where n
// points out of the flow. Without an outflow, the pressure part is known only up to a constant times the integral of n.
struct Force {
  Vector pressure{}, viscous{};
  Vector pressure_moment{}, viscous_moment{};  // about a centre: integrals of (x - centre) x traction
  // |tau|, where tau is the tangential part of nu (grad u + grad u^T) n: mean over the area, and maximum.
  double mean_shear = 0, largest_shear = 0;
  // y+ = distance from the boundary of the first points inside it * sqrt(|tau|) / nu: mean over the area, and maximum.
  double mean_y_plus = 0, largest_y_plus = 0;
};

// Derivatives are those of the element at the side; sums are in double precision on the host. T: float or double.
template <class T>
class Forces {
 public:
  // CollectiveError for an unknown boundary. The space must outlive this object. (collective)
  Forces(space::Space<T>& space, const std::vector<std::string>& boundaries);

  const std::vector<std::string>& boundaries() const { return boundaries_; }
  // The forces on each boundary. Fills the halo entries of u [3][entries] and p [entries]. On a GPU the fields are
  // copied to the host. Blocking. (collective)
  std::vector<Force> compute(T* u, T* p, double viscosity, const Vector& centre, device::Stream& stream);

 private:
  void set_places();
  Vector normal_of(std::size_t face, std::size_t point) const;  // w n dA, outward

  space::Space<T>& space_;
  std::vector<std::string> boundaries_;
  std::vector<space::BoundaryFace> faces_;
  std::vector<int> which_;  // index in boundaries_, by face
  FaceGeometry geometry_;
  std::vector<double> places_;       // [face][3][n^2]
  std::vector<double> heights_;      // [face][n^2] distances of the second layer of points from the boundary
  std::vector<std::int32_t> index_;  // [face][n^3] entries of the element's points
};

}  // namespace weft::flow
