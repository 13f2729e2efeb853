// The screened Poisson operator A = S + lambda I, S = Z^T S_L Z (hipBone, Eq. 1 and 2), for any storage of its vectors:
// the interface for solvers and output.
//
// With natural boundaries A is as in the paper. Points on `dirichlet` boundaries are masked: their rows and columns are
// removed. lambda multiplies the identity, not a mass matrix; set_screening() adds a term c u that multiplies the mass
// matrix.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/poisson/local_operator.hpp"
#include "weft/poisson/options.hpp"
#include "weft/solver/system.hpp"
#include "weft/space/space.hpp"

namespace weft::poisson {

// T: float or double. Vectors are in device memory and have entries() values, the first unknowns() of which belong to
// the rank. The comments describe assembled storage, where they are the vectors of the space.
template <class T>
class AnyOperator {
 public:
  virtual ~AnyOperator() = default;

  virtual void apply(T* x, T* y, device::Stream& stream) = 0;  // y = A x (collective)
  // The same, and also x . A x: `product` [product_partials()] receives partial sums, whose total over all ranks is the
  // product. Only if product_partials() > 0. fill: null, or completes the copies of other ranks' entries in x; it is
  // called when they are needed.
  virtual void apply(T* x, T* y, double* product, device::Stream& stream, const std::function<void()>& fill = nullptr);
  virtual std::int64_t product_partials() { return 0; }
  // Everything of y = A x but the last sums, so that a solver can do these together with other work, and partial sums
  // of x . (A - lambda I) x: `products` [summand_partials()]. Only if summand_partials() > 0.
  virtual solver::Summands<T> summands(T* x, double* products, device::Stream& stream);
  virtual std::int64_t summand_partials() { return 0; }
  virtual T summand_lambda() const { return 0; }
  // The memory that apply() uses besides x and y: it moves when apply() is given more fields than before.
  virtual const void* workspace() const { return nullptr; }
  // What CG needs; it refers to this operator.
  solver::System<T> system();
  // The element kernel alone, (S_L + lambda W) Z x on all elements, for measurements; its result is not added to y.
  virtual void apply_local(T* x, T* y, device::Stream& stream) = 0;

  space::Space<T>& space() const { return *space_; }
  const Options& options() const { return options_; }
  const mpi::Comm& comm() const { return space_->comm(); }
  const LocalOperator<T>* local() const { return local_.get(); }  // if kernels = portable, else null
  // The number of this rank's elements for each mesh::Shape, by how the operator treats them (curved: the metric is
  // stored).
  virtual std::array<std::int64_t, 4> elements_by_shape() const;
  virtual std::int64_t entries() const { return space_->entries(); }
  virtual std::int64_t unknowns() const { return space_->unknowns(); }
  virtual const T* weights() const { return nullptr; }  // weights of inner products, if they are not all 1
  // How the exchanges of apply() were chosen, and the bytes and messages that this rank sends per call.
  virtual std::vector<std::pair<std::string, exchange::Tuning>> tunings() const { return space_->tunings(); }
  virtual std::int64_t bytes_sent() const { return space_->bytes_sent(); }
  virtual std::int64_t messages() const { return space_->messages(); }
  // on this rank, by array, including those of the space
  virtual std::map<std::string, std::int64_t> memory_bytes() const;

  // Changes the operator to A = S + lambda I + Z^T M Z, where `mass` [points] is the diagonal of M: the mass at each
  // element's point times c, at least 0. (collective)
  void set_screening(std::span<const T> mass);
  bool screened() const { return !screening_.empty(); }
  std::vector<T> screening() const { return screening_.download(); }  // [unknowns], the diagonal of Z^T M Z, or empty
  // [elements] in the mesh's order: the sum of M over the points of each element; or empty.
  const std::vector<double>& element_screening() const { return element_screening_; }

  // The diagonal of A, [entries()], 0 from unknowns() on; and its inverse, with the copies of other ranks' entries.
  // (collective)
  device::Array<T> diagonal();
  device::Array<T> inverse_diagonal();

  // For set-up and output, on host arrays.
  virtual std::vector<std::int64_t> unknown_ids() const { return space_->unknown_ids(); }    // [unknowns], 0: masked
  virtual std::vector<double> coordinates() const { return space_->unknown_coordinates(); }  // [unknowns][3]
  // [unknowns] pseudo-random values in [-1, 1), determined by seed and id; 0 where masked.
  std::vector<T> random_values(std::int64_t seed) const;
  // [points] -> [unknowns], Z^T values; and back, Z x, 0 where masked. (collective)
  virtual std::vector<T> sum_points(std::span<const T> values) { return space_->sum_points(values); }
  virtual std::vector<T> at_points(std::span<const T> x) { return space_->at_points(x); }
  // Z^T S_L values: the contribution of values prescribed at points, including boundary points, to the other rows.
  // (collective)
  std::vector<T> stiffness_of_points(std::span<const T> values);

 protected:
  // std::invalid_argument, the same on all ranks, for an order outside 1..15, a negative lambda, trilinear geometry on
  // a curved mesh, and SIMD kernels on a GPU or in scattered storage.
  AnyOperator(const mesh::Mesh& mesh, const Options& options);

  void add_screening(const T* x, T* y, device::Stream& stream);  // y += Z^T M Z x, if there is a screening term

  Options options_;
  std::unique_ptr<space::Space<T>> own_;  // unless the space belongs to someone else
  space::Space<T>* space_ = nullptr;
  std::unique_ptr<LocalOperator<T>> local_;

 private:
  std::vector<T> host_diagonal();  // [unknowns]

  device::Array<T> screening_;
  std::vector<double> element_screening_;
  device::Kernel<long, const T*, const T*, T*> multiply_add_;
};

// Creates the operator for options.storage. (collective)
template <class T>
std::unique_ptr<AnyOperator<T>> make_operator(const mesh::Mesh& mesh, const Options& options);

}  // namespace weft::poisson
