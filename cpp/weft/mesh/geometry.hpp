// The metric of each element at its GLL points.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// With J = det(dx/dr), quadrature weight w and G_ab = w J (grad r_a . grad r_b): S_L = D^T G D (hipBone, section 2). If
// the mesh has a coefficient, it multiplies G.
struct GeometricFactors {
  std::vector<double> g;     // [E][n1^3][6]: rr, rs, rt, ss, st, tt
  std::vector<double> mass;  // [E][n1^3]: w J
};

// Trilinear elements use the exact derivative; curved elements use the derivative of the interpolant of their
// coordinates at `order`. Throws mpi::CollectiveError on every rank, naming the element with the smallest Jacobian and
// its value, if any Jacobian is not positive (NaN included). (collective)
GeometricFactors geometric_factors(const Mesh& mesh, int order);

// The first makes the same check with the same error, without the factors. The second stores only w J, [E][n1^3].
void check_jacobians(const Mesh& mesh, int order);
std::vector<double> mass_matrix(const Mesh& mesh, int order);

// The same factors for code that has its own storage layout: one element at a time.
class ElementFactors {
 public:
  // The mesh must outlive this object. std::invalid_argument for an order outside 1..15.
  ElementFactors(const Mesh& mesh, int order);

  // Threads call use(i, g, mass) for the local elements elements[i]. g [n1^3][6] and mass [n1^3] belong to one element
  // and are valid during the call.
  using Use = std::function<void(std::int64_t i, const double* g, const double* mass)>;
  void each(std::span<const std::int64_t> elements, const Use& use);
  void each(const Use& use);  // of all local elements, in their order
  // Processes elements whose factors are not needed, only for check(). The Jacobian of a parallelepiped is computed
  // once.
  void jacobians(std::span<const std::int64_t> elements);
  void jacobians();  // of all local elements
  // Throws the error of geometric_factors for the elements processed so far. (collective)
  void check() const;

 private:
  void work(std::int64_t count, const std::int64_t* elements, const Use* use);

  const Mesh& mesh_;
  int order_;
  std::vector<double> weights_, interpolation_;
  std::vector<double> coefficient_interpolation_;  // used if the mesh has a coefficient
  double worst_ = std::numeric_limits<double>::infinity();
  std::int64_t worst_element_ = -1;
};

}  // namespace weft::mesh
