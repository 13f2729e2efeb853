// The force of a flow on boundaries: of the pressure and of the viscous stress, over the density.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/flow/faces.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

// On what is outside the boundary, by the flow: the integrals of p n and of -nu (grad u + grad u^T) n, n outward of the
// flow. Without an outflow, the pressure's part is known only up to a constant times the integral of n.
struct Force {
  std::array<double, 3> pressure{}, viscous{};
};

// Derivatives are those of the element at the side; sums in double on the host. T: float or double.
template <class T>
class Forces {
 public:
  // CollectiveError for an unknown boundary. The space must outlive this. (collective)
  Forces(space::Space<T>& space, const std::vector<std::string>& boundaries);

  const std::vector<std::string>& boundaries() const { return boundaries_; }
  // By boundary: u [3][entries] and p [entries], whose halo entries get filled. On a GPU they are copied to the host.
  // Blocking. (collective)
  std::vector<Force> compute(T* u, T* p, double viscosity, device::Stream& stream);

 private:
  space::Space<T>& space_;
  std::vector<std::string> boundaries_;
  std::vector<space::BoundaryFace> faces_;
  std::vector<int> which_;  // of boundaries_, by face
  FaceGeometry geometry_;
  std::vector<std::int32_t> index_;  // [face][n^3] entries of the element's points
};

}  // namespace weft::flow
