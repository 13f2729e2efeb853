// y_L = (S_L + lambda W) Z x on a range of a rank's elements, on any device: hipBone's kernel, in its variants.
//
// Z^T and communication are in Operator.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "weft/device/device.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/options.hpp"

namespace weft::poisson {

// T: float or double.
template <class T>
class LocalOperator {
 public:
  // index: [points] entry of x for each local point, or empty where x itself is by points (scattered storage).
  // inverse_degree: [points], or empty: the lambda term is left to the caller (trilinear geometry only). elements: the
  // order in which index, inverse_degree and this have the mesh's elements; empty: the mesh's own.
  // std::invalid_argument for an order outside 1..15, for trilinear geometry on a curved mesh and for a block of more
  // than 1024 threads on a GPU. CollectiveError for a Jacobian that is not positive. (collective)
  LocalOperator(const mesh::Mesh& mesh, const Options& options, std::span<const std::int32_t> index,
                std::span<const double> inverse_degree, std::span<const std::int64_t> elements = {});

  // y: [points]; elements [begin, end). Of several fields in one launch: x [fields][x_field], y [fields][points].
  void apply(const T* x, T* y, std::int64_t begin, std::int64_t end, device::Stream& stream, int fields = 1,
             std::int64_t x_field = 0) const;

  Threads threads() const { return threads_; }
  int elements_per_block() const { return tile_; }
  int threads_per_block() const { return static_cast<int>(shape_.x * shape_.y); }
  device::KernelResources resources() const { return resources_; }
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  // By value into the kernels: they match those of kernels/poisson.hpp.
  struct Splitting {
    T even[64], odd[64];
  };
  struct Nodes {
    T points[16], weights[16];
  };

  Geometry geometry_;
  Threads threads_;
  T lambda_;
  long points_;
  int tile_ = 1;
  device::Shape shape_;
  Splitting splitting_{};
  Nodes nodes_{};
  device::Array<T> reference_, factors_, maps_, inverse_degree_;
  device::Array<std::int32_t> index_;
  // What describes the elements lies between the range of elements and the parameters that all variants share.
  template <class... Elements>
  using Variant = device::Kernel<int, int, Elements..., T, const std::int32_t*, int, long, long, const T*, T*>;
  Variant<const T*, const T*> stored_points_;
  Variant<Splitting, const T*> stored_columns_;
  Variant<const T*, const T*, const T*> trilinear_points_;
  Variant<Splitting, Nodes, const T*, const T*, const T*> trilinear_columns_;  // one of the four is set
  device::KernelResources resources_{};
};

// Threads of a GPU block per element, and elements per block, within 48 KiB of shared memory.
int threads_per_element(int order, Threads threads, int scalar_bytes);
int elements_per_block(int order, Threads threads, int scalar_bytes);

}  // namespace weft::poisson
