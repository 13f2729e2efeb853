// The options of the screened Poisson operator.
#pragma once

#include <memory>
#include <string>

#include "weft/mesh/mesh.hpp"
#include "weft/space/options.hpp"

namespace weft::poisson {

using space::Kernels;
using space::name;

// assembled: a vector holds every degree of freedom once (hipBone). scattered: once per element (Nekbone).
enum class Storage { assembled, scattered };
// The metric. stored: six factors per point. trilinear: recomputed from the corners, for meshes with straight edges.
// mixed: stored for curved elements and recomputed for the others. In the last two, parallelepipeds have a constant
// metric. automatic: like mixed, except that SIMD kernels read stored factors for straight elements that are not
// parallelepipeds if set-up finds that faster.
enum class Geometry { stored, trilinear, mixed, automatic };
// The thread blocks of the portable kernels: one thread per point (hipBone's 3-D blocks), or per column of points
// (2-D), or one warp per matrix of columns. The last is for elements with straight edges that are not boxes, with
// assembled vectors; other elements then use columns (kernels/poisson_matrix.hpp). automatic: by architecture
// (threads_for in local_operator.cpp).
enum class Threads { automatic, points, columns, matrices };

std::string name(Storage storage);
std::string name(Geometry geometry);
std::string name(Threads threads);

struct Options {
  int order = 7;
  double lambda = 0.1;
  Storage storage = Storage::assembled;  // used by make_operator
  Geometry geometry = Geometry::stored;
  Kernels kernels = Kernels::portable;
  Threads threads = Threads::automatic;
  mesh::BoundarySet dirichlet = {};  // x = 0 on these boundaries; the others are natural (Neumann)
  exchange::Asked exchange = {};
  std::shared_ptr<device::Device> device = nullptr;

  operator space::Options() const { return {order, kernels, dirichlet, exchange, device}; }
};

// std::invalid_argument for trilinear geometry on a mesh with curved edges, or if stored factors include a coefficient.
void check_geometry(Geometry geometry, const mesh::Mesh& mesh);

}  // namespace weft::poisson
