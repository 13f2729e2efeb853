// The screened Poisson operator on host processors, one vector lane an element, straight between assembled vectors.
//
// What it does not do: communication; that is Operator and MergedCg. docs/cpu-kernels.md tells how it works and why.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/assembly.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/options.hpp"
#include "weft/poisson/simd_blocks.hpp"
#include "weft/simd/vector.hpp"

namespace weft::poisson {

// The order of a rank's elements for the split of hipBone's Fig. 2: block b is elements [b lanes, (b + 1) lanes) of
// `order` (the last block may be ragged), and blocks [0, half) and [halo_end, blocks) touch no shared point.
struct BlockSplit {
  std::vector<std::int64_t> order;  // a permutation of the elements, for mesh::Mesh::permuted
  std::int64_t half = 0, halo_end = 0, blocks = 0;
};
// halo: per element, whether it has a point other ranks hold too.
BlockSplit split_blocks(std::span<const std::uint8_t> halo, int lanes);

// T: float or double.
template <class T>
class SimdOperator {
 public:
  static constexpr int lanes = simd::lanes<T>;

  // Points are executed [block][point][lane], the insides of elements first. For each entry: the local point
  // ([E][k][j][i]) it is, or -1 in the lanes past the last element.
  static std::vector<std::int64_t> execution_order(std::int64_t elements, int order);
  static std::int64_t points_per_block(int order) {
    return std::int64_t{lanes} * (order + 1) * (order + 1) * (order + 1);
  }

  // mesh: elements in the order of the blocks. assembly: of the ids in execution_order (0 for -1), with
  // points_per_block(order). std::invalid_argument for an order outside 1..15, trilinear geometry on a curved mesh, or
  // an assembly of other points; CollectiveError for a Jacobian that is not positive. (collective)
  SimdOperator(const mesh::Mesh& mesh, int order, Geometry geometry, double lambda, const exchange::Assembly& assembly,
               const BlockSplit& split, std::shared_ptr<device::Device> device);

  // y = S x + lambda x, vectors of assembly.local + 1 entries whose last entry of x is 0: begin(), then the three parts
  // (0: first half, 1: halo, 2: second half) in that order. x's owned entries must be there before begin(), its halo
  // entries before part 1; y's shared entries lack what other ranks add, and the halo entries hold what goes to them.
  // Of several fields: x and y [fields][assembly.local + 1]; a block's geometry and index serve all while in cache.
  void begin(const T* x, T* y, int fields = 1) const;
  void apply(const T* x, T* y, int part, int fields = 1) const;

  // Bytes by name of array.
  std::map<std::string, std::int64_t> memory_bytes() const;

  const SimdBlocks<T>& blocks() const { return blocks_; }
  const SimdPlan& plan() const { return plan_; }
  int order() const { return order_; }
  Geometry geometry() const { return geometry_; }
  T lambda() const { return lambda_; }
  // Scratch of a thread, for blocks().
  T* scratch(int thread) const { return scratch_[thread].get(); }

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete[](p, std::align_val_t{4096}); }
  };

  int order_;
  Geometry geometry_;
  T lambda_;
  device::Array<T> tables_, geometry_values_;
  device::Array<std::int32_t> index_;
  std::vector<std::int64_t> interior_;
  std::vector<std::int32_t> interior_index_;
  std::vector<std::uint8_t> conflict_;
  SimdBlocks<T> blocks_{};
  SimdPlan plan_;
  std::vector<std::unique_ptr<T[], Free>> scratch_;
};

}  // namespace weft::poisson
