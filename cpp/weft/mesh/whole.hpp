// A whole mesh, as a reader finds it in a file: on one rank, before it is cut up and dealt out.
//
// It knows corners, boundaries, periodic pairs and curved sides; connecting them (build_topology) sorts vertices, edges
// and faces, never points. `distribute` leaves each rank with its share only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

// Two faces that are one: corner m of face_a (position in face_corners) meets corner corners[m] of face_b.
struct PeriodicPair {
  std::int64_t element_a;
  int face_a;
  std::int64_t element_b;
  int face_b;
  std::array<int, 4> corners;
};

// A side that is not what the element's nodes make it.
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
  std::vector<std::array<std::int32_t, 6>> boundaries;  // 0 none, else 1 + index of boundary_names
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
  // 6 * element + face across each face, periodic ones included; -1 on the boundary.
  std::vector<std::array<std::int64_t, 6>> neighbors;
};

// Throws std::runtime_error naming element and face for: an element with a corner twice, a face of more than two
// elements, a face of one element that is neither boundary nor periodic (torn), a boundary or periodic face that is
// inside, periodic pairs that do not match.
WholeTopology build_topology(const WholeMesh& mesh);

// Which part each element goes to, by recursive coordinate bisection of the elements' centres: parts differ by one
// element at most. parts >= 1.
std::vector<std::int32_t> recursive_bisection(const WholeMesh& mesh, int parts);

// The order of the geometry that loses nothing: 1 where every element is trilinear, 2 for midpoints and second-order
// nodes, 7 where there are arcs or spheres (not polynomials: 7 is within 5e-8 radii of a quarter circle).
int natural_geometry_order(const WholeMesh& mesh);

// Deals out the mesh: `whole`, `topology` and `parts` matter on rank 0 only. Elements of a rank follow a Hilbert curve
// through their centres, so that neighbours are near in memory. `geometry_order` on rank 0 counts; 0: the natural one.
// Throws mpi::CollectiveError on every rank. (collective)
Mesh distribute(const WholeMesh& whole, const WholeTopology& topology, std::span<const std::int32_t> parts,
                int geometry_order, const mpi::Comm& comm);

// Nodes on the GLL points of `order` from nodes of `node_order` and curves (of these elements, by local number):
// displacements of edges, then of spherical faces, blended linearly into the element (Gordon and Hall, Numerische
// Mathematik 21, 1973). Throws std::runtime_error for arcs and spheres that cannot be.
std::vector<double> curved_nodes(std::span<const double> nodes, int node_order, std::span<const Curve> curves,
                                 int order, std::span<const std::int64_t> element_ids);

// The place of each point (in the unit cube) along a Hilbert curve of 2^16 cells a direction.
std::uint64_t hilbert_index(std::array<double, 3> unit);

}  // namespace weft::mesh
