// Functions on the elements of a mesh: continuous, of degree N in each element, one value per point.
//
// A space numbers the points of a rank's elements (a DofMap in other codes), exchanges the values that ranks share (a
// scatterer) and maps values at points to vectors and back. It is independent of any equation: operators are built on
// top of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/space/blocks.hpp"
#include "weft/space/faces.hpp"
#include "weft/space/gather.hpp"
#include "weft/space/numbering.hpp"
#include "weft/space/options.hpp"

namespace weft::space {

// The three parts in which elements are processed (overlap.hpp): only part 1 has points shared with other ranks.
struct Part {
  int first, last;
};
inline constexpr Part first_half{0, 0}, halo_part{1, 1}, second_half{2, 2}, all_parts{0, 2};

// T: float or double. A vector is device memory of entries() values: the first unknowns() are the rank's own, followed
// by copies of other ranks' entries, then the zero slot, which is always 0 and is the entry of points on Dirichlet
// boundaries. Values at points are [E][k][j][i] in the mesh's order of elements.
template <class T>
class Space {
 public:
  // std::invalid_argument, the same on all ranks, for an order outside 1..15, unknown boundaries, or SIMD kernels on a
  // GPU. (collective)
  Space(const mesh::Mesh& mesh, const Options& options);
  // Uses an existing numbering, in blocks of simd::lanes<T> if options.kernels = simd. (collective)
  Space(Numbering numbering, const Options& options);
  ~Space();
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  const Options& options() const { return options_; }
  const std::shared_ptr<device::Device>& device() const { return options_.device; }
  const mpi::Comm& comm() const { return numbering_.mesh.comm; }
  const mesh::Mesh& mesh() const { return numbering_.mesh; }
  const Numbering& numbering() const { return numbering_; }
  const Blocks* blocks() const { return blocks_.get(); }  // if kernels = simd, else null
  // Replaces the access that was chosen by timing. Call this before anything is built on this space.
  void use(Access access) { blocks_->use(access, "requested"); }
  int order() const { return options_.order; }

  std::int64_t entries() const { return numbering_.assembly.local + 1; }
  std::int64_t unknowns() const { return numbering_.assembly.owned; }
  std::int64_t dofs() const { return numbering_.assembly.global; }  // of all ranks
  std::int64_t elements() const { return mesh().elements(); }
  std::int64_t points() const { return static_cast<std::int64_t>(numbering_.index.size()); }
  // The elements of a part, in execution order, and the entries that are complete on this rank after it.
  Range elements(Part part) const;
  Range rows(Part part) const;

  // The exchange for `fields` vectors, [fields][entries]. The first call for a number of fields sets it up. (collective
  // in that case)
  exchange::Exchange<T>& exchange(int fields = 1);
  // Updates the copies of other ranks' entries. (collective)
  void fill_halo(T* x, device::Stream& stream, int fields = 1);
  // Adds other ranks' copies to the owned entries. (collective)
  void add_halo(T* y, device::Stream& stream, int fields = 1);
  // How the exchanges were chosen: "halo" and "gather", followed by the number of fields if several.
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const;
  std::int64_t bytes_sent() const;  // by this rank, in a halo and a gather
  std::int64_t messages() const;

  // Z^T for the points in execution order, created by the first call.
  Gather<T>& gather();
  // Reallocates the gather's work space during a run; if a rank runs out of memory, all ranks fail. (collective)
  T* values_to_gather(int fields, device::Stream& stream);
  // Coefficients of the trilinear maps of elements (mesh/trilinear.hpp) by blocks, [blocks][8][3][lanes], created by
  // the first call. Lanes beyond the last element have the identity; curved elements have the map of their corners.
  const device::Array<T>& trilinear_blocks();

  // The diagonal mass matrix B by quadrature at the points, [entries], and 1 / B; 0 in the zero slot. Computed by the
  // first call of any of these three functions. (collective in that case)
  const T* mass();
  const T* inverse_mass();
  double volume();  // of the whole mesh

  // For set-up and output, on host arrays. [points]: the entry of each point, in the mesh's order of elements;
  // entries() - 1 on Dirichlet boundaries.
  std::vector<std::int32_t> point_index() const;
  std::vector<std::int64_t> unknown_ids() const;    // [unknowns] global id
  std::vector<double> unknown_coordinates() const;  // [unknowns][3]
  std::vector<double> point_coordinates() const;    // [points][3]
  std::vector<double> point_mass() const;           // [points] w J (collective)
  std::vector<std::uint8_t> masked() const;         // [points] 1 on Dirichlet boundaries
  // W of hipBone, Z^T W = I: [points] in the order of execution, 0 on Dirichlet boundaries. (collective)
  std::vector<double> inverse_degrees();
  std::vector<T> sum_points(std::span<const T> values);  // [points] -> [unknowns]: Z^T values (collective)
  std::vector<T> at_points(std::span<const T> x);        // [unknowns] -> [points]: Z x (collective)
  // [3][entries]. On periodic boundaries, the coordinates of one of the images. The zero slot has the coordinates of
  // some point.
  std::vector<T> coordinates() const;
  // Copies [fields][points] to and from vectors [fields][entries]. Where elements meet, their values should agree; the
  // value of one element is used. to_vectors(to_points(x)) is bit-identical to x. Halo entries are filled. Blocking.
  // (collective)
  void to_vectors(std::span<const T> points, int fields, T* vectors);
  std::vector<T> to_points(const T* vectors, int fields);
  // Combines the values [entries] of all copies of each entry on all ranks. V: T, double or std::int32_t. (collective)
  template <class V>
  void combine(std::vector<V>& values, exchange::Op op) const;

  // The rank's sides on boundaries, and the entries of their points, [faces][n1^2], in lexicographic order of (a, b) of
  // mesh/reference.hpp, a fastest.
  std::vector<BoundaryFace> faces() const { return boundary_faces(mesh()); }
  std::vector<std::int32_t> face_entries() const;

  std::map<std::string, std::int64_t> memory_bytes() const;  // on this rank, by array

 private:
  struct Mass {
    device::Array<T> values, inverse;
    double volume;
  };
  const Mass& made_mass();
  void exchange_once(std::vector<T>& vector, void (Space::*halo)(T*, device::Stream&, int));  // on the host's values

  Options options_;
  Numbering numbering_;
  std::unique_ptr<Blocks> blocks_;
  std::map<int, exchange::Exchange<T>> exchanges_;  // by fields
  std::unique_ptr<Gather<T>> gather_;
  int gathered_fields_ = 1;  // that values_to_gather has made room for
  std::unique_ptr<Mass> mass_;
  device::Array<T> trilinear_blocks_;
};

}  // namespace weft::space
