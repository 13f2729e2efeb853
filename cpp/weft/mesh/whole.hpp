// A whole mesh, as read from a file: on one rank, before it is partitioned and distributed.
//
// It holds corners, boundaries, periodic pairs and curved sides. Connecting them (build_topology) sorts vertices, edges
// and faces, but never points. After `distribute` each rank holds only its share.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// Two faces that are identified: corner m of face_a (position in face_corners) coincides with corner corners[m] of
// face_b.
struct PeriodicPair {
  std::int64_t element_a;
  int face_a;
  std::int64_t element_b;
  int face_b;
  std::array<int, 4> corners;
};

// A curved side, which the element's nodes alone do not describe.
struct Curve {
  enum Kind : std::int32_t {
    arc = 0,  // edge `side`, part of a circle in the x-y plane: values[0] = radius, z stays linear. Positive: bulges
              // to the right of the edge's own direction, seen from +z
    midpoint = 1,  // edge `side`, a parabola through values[0..2] at its middle
    sphere = 2,    // face `side`, on the sphere round values[0..2] of radius values[3]
  };
  std::int64_t element;
  Kind kind;
  int side;
  std::array<double, 5> values;
};

struct WholeMesh {
  std::vector<std::array<std::int64_t, 8>> vertices;    // ids of the corners from 0, before periodic identification
  std::vector<std::array<std::int32_t, 6>> boundaries;  // 0: none; else 1 + index in boundary_names
  std::vector<std::string> boundary_names;
  std::vector<PeriodicPair> periodic;
  int node_order = 1;         // 1 or 2
  std::vector<double> nodes;  // [E][(node_order+1)^3][3]
  std::vector<Curve> curves;
  std::string source;

  std::int64_t elements() const { return static_cast<std::int64_t>(vertices.size()); }
};

struct WholeTopology {
  Topology topology;
  // 6 * element + face of the neighbour across each face, periodic ones included; -1 on the boundary.
  std::vector<std::array<std::int64_t, 6>> neighbors;
};

// Throws std::runtime_error, naming element and face, for: an element with a repeated corner, a face of more than two
// elements, a face of only one element that is neither boundary nor periodic (torn), a boundary or periodic face inside
// the mesh, and periodic pairs that do not match.
WholeTopology build_topology(const WholeMesh& mesh);

// The part that each element is assigned to, by recursive coordinate bisection of the elements' centres. The sizes of
// the parts differ by at most one element. parts >= 1.
std::vector<std::int32_t> recursive_bisection(const WholeMesh& mesh, int parts);

// The lowest geometry order that loses nothing: 1 if every element is trilinear, 2 for midpoints and second-order
// nodes, 7 for arcs and spheres (not polynomials: at order 7 the error is below 5e-8 radii for a quarter circle).
int natural_geometry_order(const WholeMesh& mesh);

// Distributes the mesh. `whole`, `topology`, `parts` and `geometry_order` (0: the natural one) matter on rank 0 only.
// The elements of a rank follow a Hilbert curve through their centres, so that neighbours are close in memory. Throws
// mpi::CollectiveError on every rank. (collective)
Mesh distribute(const WholeMesh& whole, const WholeTopology& topology, std::span<const std::int32_t> parts,
                int geometry_order, const mpi::Comm& comm);

// Nodes at the GLL points of `order`, from nodes of `node_order` and curves (those of these elements, by local number).
// The displacements of edges, then of spherical faces, are blended linearly into the element (Gordon and Hall,
// Numerische Mathematik 21, 1973). Throws std::runtime_error for impossible arcs and spheres.
std::vector<double> curved_nodes(std::span<const double> nodes, int node_order, std::span<const Curve> curves,
                                 int order, std::span<const std::int64_t> element_ids);

// The position of each point (in the unit cube) along a Hilbert curve of 2^16 cells per direction.
std::uint64_t hilbert_index(std::array<double, 3> unit);

}  // namespace weft::mesh
