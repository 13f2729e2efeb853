// The metric used in the flow's terms: rows w J dr_a/dx_i of weighted cofactors, stored at the points of the elements.
#pragma once

#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::flow {

// [E][9][m^3], with a = r, s, t slowest and then i = x, y, z, at the tensor product of m points with weights `weights`.
// `interpolation` and `derivative` [m][order + 1] map values at the GLL points to values and derivatives at these
// points. The elements are the interpolants of their coordinates at `order`, as in mesh::geometric_factors.
std::vector<double> weighted_cofactors(const mesh::Mesh& mesh, int order, std::span<const double> interpolation,
                                       std::span<const double> derivative, std::span<const double> weights);

}  // namespace weft::flow
