// One rank's part of a hexahedral mesh: numbers, connectivity and coordinates of its elements.
//
// It does not number points (points.hpp), compute metrics (geometry.hpp) or read files: a mesh comes from make_box or
// from a whole mesh read on one rank (whole.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/mesh/shared_vector.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::mesh {

// The entities of the rank's elements (reference.hpp defines their order within an element). Ids are global, from 0.
// Periodic images are ONE entity, so the same id may appear twice in an element.
struct Topology {
  std::int64_t global_vertices = 0;
  std::int64_t global_edges = 0;
  std::int64_t global_faces = 0;
  SharedVector<std::array<std::int64_t, 8>> vertices;
  SharedVector<std::array<std::int64_t, 12>> edges;
  SharedVector<std::uint16_t> edge_flips;  // bit e: edge e runs opposite to the canonical direction
  SharedVector<std::array<std::int64_t, 6>> faces;
  SharedVector<std::array<std::uint8_t, 6>> face_orientations;  // 0..7, see to_canonical
};

// Copies share the arrays.
struct Mesh {
  mpi::Comm comm;
  std::int64_t global_elements = 0;
  SharedVector<std::int64_t> element_ids;  // global number of each local element, from 0, in file order
  Topology topology;
  int geometry_order = 1;                                // the same on every rank; 1: trilinear, given by the corners
  SharedVector<double> nodes;                            // [E][(q+1)^3][3], at the GLL points of order q
  SharedVector<std::array<std::int32_t, 6>> boundaries;  // 0: interior or periodic; else 1 + index in boundary_names
  std::vector<std::string> boundary_names;               // the same on every rank
  // Multiplies the geometric factors, like a diffusion coefficient: [E][(c+1)^3] at the GLL points of order c. Empty
  // means 1. At other orders it is interpolated and clamped to the range of the element's values.
  SharedVector<double> coefficient;
  int coefficient_order = 0;
  std::string source;  // "box 16 x 16 x 16", or the name of the file

  std::int64_t elements() const { return static_cast<std::int64_t>(element_ids.size()); }
  // Whether every element of every rank is trilinear.
  bool straight() const { return geometry_order == 1; }
  // A mesh whose local element e is local element order[e] of this one. `order` must be a permutation of the local
  // elements, else std::invalid_argument.
  Mesh permuted(std::span<const std::int64_t> order) const;
};

struct BoxOptions {
  std::array<std::int64_t, 3> counts{1, 1, 1};
  std::array<double, 3> lower{0, 0, 0};
  std::array<double, 3> upper{1, 1, 1};
  std::array<bool, 3> periodic{};
  // none. smooth: curved elements; points move by parameter * size * sin(2 pi x) sin(2 pi y) sin(2 pi z) in each
  // direction (default 0.05). kershaw: trilinear; the map of the CEED preconditioner tests with eps_y = eps_z =
  // parameter in (0, 1] (default 0.3; 1 is the undeformed box), not periodic in x.
  std::string deformation = "none";
  std::optional<double> deformation_parameter = std::nullopt;
  int smooth_geometry_order = 5;
};

// Each rank creates only its share: a block of a process grid chosen to cut the fewest faces or, if no grid balances
// the ranks to within 5 %, a run of layers. Local elements are ordered in tiles of about 4 x 4 x 4, so that neighbours
// are processed while in cache; for the lanes of vectors (space/bricks.hpp), 8 equal tiles follow each other.
// Boundaries are called "x-", "x+", "y-", "y+", "z-", "z+". Throws std::invalid_argument, the same on every rank, for
// bad options and for more ranks than elements. (no communication)
Mesh make_box(const BoxOptions& options, const mpi::Comm& comm);

}  // namespace weft::mesh
