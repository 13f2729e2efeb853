// What can be chosen about the screened Poisson operator.
#pragma once

#include <memory>
#include <string>

#include "weft/mesh/mesh.hpp"
#include "weft/space/options.hpp"

namespace weft::poisson {

using space::Kernels;
using space::name;

// assembled: a vector holds every degree of freedom once (hipBone); scattered: once per element (Nekbone).
enum class Storage { assembled, scattered };
// The metric. stored: six factors per point; trilinear: recomputed from the corners, for meshes with straight edges;
// mixed: stored for curved elements and recomputed for the others. Parallelepipeds have a constant metric in the last
// two. automatic: as mixed, but in SIMD kernels, straight elements that are no parallelepipeds read stored factors
// where set-up finds that faster.
enum class Geometry { stored, trilinear, mixed, automatic };
// The portable kernels' thread blocks: one thread per point (hipBone's 3-D blocks), per column of points (2-D), or a
// warp for a matrix of columns, where elements are straight and no boxes and vectors assembled, and columns for others
// (kernels/poisson_matrix.hpp). automatic: by architecture (threads_for in local_operator.cpp).
enum class Threads { automatic, points, columns, matrices };

std::string name(Storage storage);
std::string name(Geometry geometry);
std::string name(Threads threads);

struct Options {
  int order = 7;
  double lambda = 0.1;
  Storage storage = Storage::assembled;  // read by make_operator
  Geometry geometry = Geometry::stored;
  Kernels kernels = Kernels::portable;
  Threads threads = Threads::automatic;
  mesh::BoundarySet dirichlet = {};  // x = 0 on these boundaries; the others are natural (Neumann)
  exchange::Asked exchange = {};
  std::shared_ptr<device::Device> device = nullptr;

  operator space::Options() const { return {order, kernels, dirichlet, exchange, device}; }
};

// std::invalid_argument for trilinear geometry on a mesh with curved edges, and where stored factors hold a
// coefficient.
void check_geometry(Geometry geometry, const mesh::Mesh& mesh);

}  // namespace weft::poisson
