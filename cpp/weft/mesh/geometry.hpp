// The metric of each element at its GLL points.
#pragma once

#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// With J = det(dx/dr), quadrature weight w and G_ab = w J (grad r_a . grad r_b): S_L = D^T G D (hipBone, section 2).
struct GeometricFactors {
  std::vector<double> g;     // [E][n1^3][6]: rr, rs, rt, ss, st, tt
  std::vector<double> mass;  // [E][n1^3]: w J
};

// Trilinear elements use the exact derivative, curved ones that of the interpolant of their coordinates at `order`.
// Throws mpi::CollectiveError on every rank, naming the element and its smallest Jacobian, if any is not positive (NaN
// included). (collective)
GeometricFactors geometric_factors(const Mesh& mesh, int order);

// The same check and error, without storing the factors; and storing only w J, [E][n1^3].
void check_jacobians(const Mesh& mesh, int order);
std::vector<double> mass_matrix(const Mesh& mesh, int order);

}  // namespace weft::mesh
