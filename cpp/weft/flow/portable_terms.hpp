// The flow's terms on a range of a rank's elements, on any device: kernels/flow_terms.hpp.
//
// The gather Z^T and communication are in Terms.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/flow/work.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/space/block_index.hpp"

namespace weft::flow {

// Elements per GPU block, for the kernels of kernels/flow_terms.hpp.
int flow_elements_per_block(int order, int scalar_bytes);

// What a block of flow_convect processes at a time: pairs of layers of fine points of some elements. On the host, one
// pair.
struct ConvectBlocks {
  int elements = 1, pairs = 1;
  int threads(int order) const;
};
ConvectBlocks convect_blocks(int order, int scalar_bytes);
// The constants that flow_convect is compiled with, except its type.
std::vector<device::Define> convect_constants(int order, const ConvectBlocks& blocks);

// T: float or double. Output values are stored by point, [field][points of the rank]. `u` and `f` are assembled
// vectors [field][stride].
template <class T>
class PortableTerms {
 public:
  // mesh: with its elements in the order of the index. index: [points] entry of a vector for each point. (collective)
  PortableTerms(const mesh::Mesh& mesh, int order, std::span<const std::int32_t> index, std::int64_t stride,
                const std::shared_ptr<device::Device>& device);

  // Computes a term of f [count][stride] (and u, for convection) on some of the elements. Only convection takes another
  // count than the term's own.
  void work(Term term, const T* u, const T* f, int count, T* out, space::Range elements, device::Stream& stream) const;

  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  // Passed to kernels by value: must match Metric of kernels/flow_terms.hpp.
  struct Metric {
    const T *maps, *nodes, *stored;
  };
  struct FineLines {
    T value_even[96], slope_even[96], value_odd[96], slope_odd[96], points[24], weights[24];
  };
  struct Splitting {
    T even[64], odd[64];
  };
  struct Lines {
    Splitting derivative;
    T points[16], weights[16];
  };
  // The kernels that pass lines from column to column; `Rest` are the parameters after the vector they differentiate.
  template <class... Rest>
  using Columns = device::Kernel<int, int, Metric, Lines, const std::int32_t*, const T*, Rest...>;
  void make_lines(int order);

  std::int64_t points_, stride_;
  int tile_ = 1;
  device::Array<T> nodes_, maps_, cofactors_, fine_cofactors_;  // nodes: points and weights, then those of fine points
  device::Array<std::int32_t> index_;
  Metric metric_{}, fine_metric_{};
  FineLines fine_lines_{};
  Lines lines_{}, skew_lines_{};  // of convect_skew: half of the derivative
  Splitting conservative_{};      // half of W D W^-1
  ConvectBlocks convect_blocks_;
  device::Shape column_shape_, convect_shape_;
  device::Kernel<int, int, Metric, FineLines, const std::int32_t*, const T*, const T*, int, long, T*, long> convect_;
  device::Kernel<int, int, Metric, Lines, Splitting, const std::int32_t*, const T*, const T*, int, long, T*, long>
      convect_skew_;
  Columns<T*, long> gradient_;
  Columns<long, T*> weak_divergence_, divergence_;
  Columns<long, T*, long> curl_;
};

}  // namespace weft::flow
