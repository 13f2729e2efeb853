// The functions of a flow: continuous, of degree N in each element, one value a point (assembled storage).
//
// There is one numbering, that of the stiffness matrix with natural boundaries; velocity, pressure, scalars and every
// weak form are vectors of it. Boundary conditions are masks on such vectors. With quadrature on the points the mass
// matrix is the diagonal B.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/operator.hpp"

namespace weft::flow {

// A side of an element that lies on a boundary of the mesh.
struct BoundaryFace {
  std::int64_t element;   // of this rank, in the mesh's order
  int side;               // 0..5, mesh/reference.hpp
  std::int32_t boundary;  // index of mesh.boundary_names
};

// T: float or double. A vector is device memory of entries() values: the first unknowns() are the rank's own, then
// copies of other ranks', then a slot that stays 0. A vector field is [3][entries()].
template <class T>
class Space {
 public:
  // `options` of the stiffness operator: order, geometry, kernels, threads, exchange and device; lambda, storage and
  // dirichlet are the space's to choose. (collective)
  Space(const mesh::Mesh& mesh, poisson::Options options);

  poisson::Operator<T>& stiffness() { return *stiffness_; }  // S x = Z^T (grad v, grad x)
  const poisson::Operator<T>& stiffness() const { return *stiffness_; }
  const mesh::Mesh& mesh() const { return mesh_; }
  const mpi::Comm& comm() const { return mesh_.comm; }
  const std::shared_ptr<device::Device>& device() const { return stiffness_->options().device; }
  int order() const { return stiffness_->options().order; }
  std::int64_t entries() const { return stiffness_->entries(); }
  std::int64_t unknowns() const { return stiffness_->unknowns(); }
  double volume() const { return volume_; }  // of the whole mesh

  const T* mass() const { return mass_.data(); }                  // [entries] B, 0 in the zero slot; halo entries too
  const T* inverse_mass() const { return inverse_mass_.data(); }  // [entries] 1 / B, 0 in the zero slot
  // [3][entries], made anew. Where the mesh is periodic, those of one of the images. The zero slot has coordinates of a
  // point too.
  std::vector<T> coordinates() const;
  // Six vectors for the time of a call. A Helmholtz solve takes as many as it has components from `first` = 0 and 3 on,
  // a pressure solve the one of 0.
  T* scratch(int first) { return scratch_.data() + first * entries(); }

  // The rank's sides on boundaries, in the mesh's order.
  const std::vector<BoundaryFace>& faces() const { return faces_; }
  // [n1^2] the entries of a side's points, lexicographic in (a, b) of mesh/reference.hpp, a fastest.
  std::span<const std::int32_t> face_entries(std::size_t face) const;

  // [fields][E][k][j][i] in the mesh's order of elements from and to vectors [fields][entries]. Where elements meet
  // values are the same or that of one of the elements is taken; to_vectors(to_points(x)) is x bit for bit. Halo
  // entries are filled. Blocking. (collective)
  void to_vectors(std::span<const T> points, int fields, T* vectors);
  std::vector<T> to_points(const T* vectors, int fields);

  // The owned entries of a vector that elements of other ranks share get `values` combined over all copies, and the
  // halo too. On the host, for set-up; [entries]. (collective)
  void combine(std::vector<std::int32_t>& values, exchange::Op op) const;
  void combine(std::vector<T>& values, exchange::Op op) const;

  std::map<std::string, std::int64_t> memory_bytes() const;  // of this rank, the stiffness operator's among them

 private:
  mesh::Mesh mesh_;
  std::unique_ptr<poisson::Operator<T>> stiffness_;
  device::Array<T> mass_, inverse_mass_, scratch_;
  std::vector<BoundaryFace> faces_;
  std::vector<std::int32_t> face_entries_;
  double volume_ = 0;
};

}  // namespace weft::flow
