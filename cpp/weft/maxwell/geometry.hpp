// The geometry of elements and faces for Maxwell's equations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::maxwell {

// n = order + 1. The derivatives are those of the interpolant of the coordinates at `order`, so that they commute:
// constant fields stay constant on curved elements (kernels/maxwell.hpp).
struct Geometry {
  std::vector<double> jacobian;  // [E][9][n^3]: dx/dr (x, y, z), dx/ds, dx/dt
  std::vector<double> faces;     // [E][6][4][n^2]: unit outward normal, area element / (w_0 J)
  std::vector<double> areas;     // [E][6][n^2]: area element
  std::vector<double>
      spacing;  // [E]: the smallest distance between neighbouring GLL points, across the element's lines
};

// Throws mpi::CollectiveError on every rank, with the element, if a Jacobian is not positive. (collective)
Geometry geometry(const mesh::Mesh& mesh, int order);

// [E][6][n^2], from 1: the points of two coinciding faces have the same id, whatever the orientation of the faces; all
// other ids differ. 0 on boundaries.
std::vector<std::int64_t> face_point_ids(const mesh::Mesh& mesh, int order);

}  // namespace weft::maxwell
