// The screened Poisson operator A = S + lambda I, S = Z^T S_L Z (hipBone, Eq. 1 and 2), on the ranks of a mesh.
//
// With natural boundaries A is as in the paper; the points of `dirichlet` boundaries are masked: their rows and columns
// are taken out. lambda multiplies the identity, not a mass matrix.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/assembly.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/local_operator.hpp"
#include "weft/poisson/options.hpp"
#include "weft/poisson/simd_operator.hpp"

namespace weft::poisson {

// T: float or double. Vectors are device memory of entries() values, the first unknowns() of which are the rank's:
//   assembled  its degrees of freedom; then halo copies, which apply() fills, and a slot that stays 0
//   scattered  its points, [element][k][j][i] in the operator's own order of elements
// Functions of points take and return them in the mesh's order of elements.
template <class T>
class Operator {
 public:
  // Every failure is one error on all ranks. (collective)
  Operator(const mesh::Mesh& mesh, const Options& options);

  // y = A x. Three launches hide both exchanges (hipBone, Fig. 2): half of the interior elements while the halo is
  // under way, the elements with shared points, the other half while the shared sums are. (collective)
  void apply(T* x, T* y, device::Stream& stream) { apply(x, y, nullptr, stream); }
  // The same, and x . A x with it: `product` [product_partials()] gets partial sums whose total over all ranks it is.
  // Only where product_partials() > 0: portable kernels, assembled storage.
  void apply(T* x, T* y, double* product, device::Stream& stream);
  std::int64_t product_partials() const;
  // y_c = A x_c for `fields` vectors one behind the other, [fields][entries()]: index and geometry are read once, and
  // one message to a neighbour carries all fields. Assembled storage. The first call with a number of fields sets up
  // their exchange. (collective)
  void apply(T* x, T* y, int fields, device::Stream& stream);
  // The element kernel alone, (S_L + lambda W) Z x on all elements, for measurements; the result is not in y.
  void apply_local(T* x, T* y, device::Stream& stream);

  std::int64_t entries() const { return entries_; }
  std::int64_t unknowns() const { return unknowns_; }
  std::int64_t dofs() const { return assembly_.global; }  // N_G, of all ranks, without masked points
  std::int64_t elements() const { return mesh_.elements(); }
  std::int64_t points() const { return static_cast<std::int64_t>(index_.size()); }   // of this rank
  std::int64_t halo_elements() const { return halo_elements_; }                      // with points other ranks hold too
  const T* weights() const { return weights_.empty() ? nullptr : weights_.data(); }  // of inner products; scattered
  const mpi::Comm& comm() const { return mesh_.comm; }
  const Options& options() const { return options_; }
  const LocalOperator<T>* local() const { return local_.get(); }  // kernels = portable, else null
  const SimdOperator<T>* simd() const { return simd_.get(); }     // kernels = simd, else null
  // Of `fields` vectors, fields_major; several at a time are set up on first use. (then collective)
  exchange::Exchange<T>& exchange(int fields = 1);
  const exchange::Assembly& assembly() const { return assembly_; }
  // In the order of execution, for other kernels on this numbering: elements, launches, [points] entries of vectors.
  const mesh::Mesh& mesh() const { return mesh_; }
  const BlockSplit& split() const { return split_; }
  const std::vector<std::int32_t>& index() const { return index_; }
  // y_L of the portable kernels in assembled storage, which others may write, and y = Z^T y_L of this rank's points.
  T* local_points() { return points_.data(); }
  void gather_points(T* y, device::Stream& stream) { gather(nullptr, T(0), y, nullptr, 0, assembly_.local, stream); }
  // How the exchanges of apply() were chosen: "halo" and "gather", or "gather_scatter" (scattered storage).
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const;
  std::int64_t bytes_sent() const;  // by this rank in one apply()
  std::int64_t messages() const;
  std::map<std::string, std::int64_t> memory_bytes() const;  // of this rank, by array

  // The diagonal of A, [entries()], 0 from unknowns() on, and one over it. (collective)
  device::Array<T> diagonal();
  device::Array<T> inverse_diagonal();

  // For set-up and output, on host arrays.
  std::vector<std::int64_t> unknown_ids() const;  // [unknowns] global id, 0 where masked
  // [points] the entry of each point in the mesh's order of elements; entries() - 1, the zero slot, where masked.
  std::vector<std::int32_t> point_index() const;
  std::vector<double> coordinates() const;               // [unknowns][3]
  std::vector<double> mass() const;                      // [points] w J (collective)
  std::vector<double> point_coordinates() const;         // [points][3]
  std::vector<std::uint8_t> masked() const;              // [points] 1 where the boundary takes the point out
  std::vector<T> sum_points(std::span<const T> values);  // [points] -> [unknowns]: Z^T values (collective)
  std::vector<T> at_points(std::span<const T> x);        // [unknowns] -> [points]: Z x, 0 where masked (collective)
  // Z^T S_L values: what values prescribed at points, boundary ones included, contribute to the other rows.
  // (collective)
  std::vector<T> stiffness_of_points(std::span<const T> values);

 private:
  void apply_portable(T* x, T* y, double* product, device::Stream& stream);
  void apply_portable(T* x, T* y, int fields, device::Stream& stream);
  void apply_simd(T* x, T* y, int fields, device::Stream& stream);
  void apply_scattered(const T* x, T* y, device::Stream& stream);
  void gather(const T* x, T lambda, T* y, double* product, std::int64_t begin, std::int64_t end,
              device::Stream& stream);
  void gather_fields(const T* x, T lambda, T* y, int fields, std::int64_t begin, std::int64_t end,
                     device::Stream& stream);
  std::vector<std::int64_t> number(const mesh::Mesh& mesh);  // ids of the points, 0 where masked
  void set_up_gather();
  std::vector<T> exchanged(std::vector<T> dofs, bool gather);
  std::vector<T> host_diagonal();
  std::vector<double> inverse_degrees();
  template <class V>
  std::vector<V> reordered(std::span<const V> values, int each, bool to_own) const;

  Options options_;
  mesh::Mesh mesh_;                  // in execution order
  std::vector<std::int64_t> order_;  // element e of mesh_ is order_[e] of the caller's
  BlockSplit split_;                 // the three launches, in blocks of one element (portable) or SIMD lanes
  exchange::Assembly assembly_;      // without index (see index_) and ids (see unknown_ids)
  std::vector<std::int32_t> index_;  // [points] -> [0, local]
  std::int64_t entries_ = 0, unknowns_ = 0;
  std::int64_t halo_elements_ = 0;
  std::unique_ptr<exchange::Exchange<T>> exchange_;
  std::map<int, exchange::Exchange<T>> field_exchanges_;        // of several fields
  std::unique_ptr<exchange::GatherScatter<T>> gather_scatter_;  // scattered storage
  std::unique_ptr<LocalOperator<T>> local_;
  std::unique_ptr<SimdOperator<T>> simd_;
  device::Array<std::int32_t> offsets_, columns_;  // Z^T: the points of each degree of freedom
  device::Array<T> points_;                        // y_L, of as many fields as were applied at once
  device::Array<T> weights_;                       // scattered storage: inverse degrees, 0 where masked
  device::Array<T> mask_;                          // scattered storage with masked points: 0 there, else 1
  bool lambda_in_gather_ = false;
  device::Kernel gather_, gather_product_, gather_fields_, multiply_;
};

}  // namespace weft::poisson
