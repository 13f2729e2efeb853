// Maps the points of a rank's elements to entries of vectors, and gives the order in which elements are processed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/exchange/assembly.hpp"
#include "weft/mesh/boundary_set.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/shape.hpp"
#include "weft/space/chunks.hpp"
#include "weft/space/point_numbers.hpp"

namespace weft::space {

// The order of a rank's elements for the overlap of overlap.hpp. Block b is elements [b lanes, (b + 1) lanes) of
// `order` (the last block may be incomplete). Blocks [0, half) and [halo_end, blocks) have no point in common with
// another rank. If no block has such points, all are in the last part.
struct BlockSplit {
  std::vector<std::int64_t> order;  // a permutation of the elements, for mesh::Mesh::permuted
  std::int64_t half = 0, halo_end = 0, blocks = 0;
};
// halo: per element, 1 if other ranks share at least one of its points, else 0. As far as the halo allows, elements of
// the same shape are consecutive, so that few blocks contain several shapes.
BlockSplit split_blocks(std::span<const std::uint8_t> halo, std::span<const mesh::Shape> shapes, int lanes);

// "In execution order" means with elements in the order of split.order.
struct Numbering {
  // Numbers the mesh's points, except those on the boundaries `without`. The order of elements depends on the number of
  // OpenMP threads (chunks.hpp), unless they are processed one by one. lanes: the number of elements per block, whose
  // points are processed as [block][point][lane], interior points of elements first; 1: elements are processed one by
  // one, with their points in the usual order. (collective)
  Numbering(mesh::Mesh mesh, int order, const mesh::BoundarySet& without, int lanes);
  // ids: [E][k][j][i] in the mesh's order of elements; equal for points that coincide, 0 for points left out.
  // (collective)
  Numbering(mesh::Mesh mesh, int order, std::span<const std::int64_t> ids, int lanes);

  mesh::Mesh mesh;  // as passed to the constructor
  int order, lanes;
  BlockSplit split;
  int threads = 1;  // number of OpenMP threads, among which the blocks are divided
  Chunks chunks;    // of several lanes
  std::vector<mesh::Shape>
      shapes;  // of the blocks: the most general of their elements', of several lanes at least affine
  std::int64_t halo_elements = 0;   // with points other ranks hold too
  exchange::Assembly assembly;      // of the points as executed, without dof_ids
  std::vector<std::int32_t> index;  // [points] in execution order -> [0, assembly.local]

  std::int64_t points_per_element() const { return std::int64_t{order + 1} * (order + 1) * (order + 1); }
  mesh::Mesh executed_mesh() const { return mesh.permuted(split.order); }
  // Copies element values, the same number per element, from the mesh's order of elements to execution order, and back.
  template <class V>
  std::vector<V> to_execution(std::span<const V> values) const {
    return reordered(values, true);
  }
  template <class V>
  std::vector<V> from_execution(std::span<const V> values) const {
    return reordered(values, false);
  }

 private:
  void set_up(const PointNumbers& points);
  void divide_among_threads(const PointNumbers& points);
  void number_elements(const PointNumbers& points, exchange::NumberedPoints numbered);
  void number_blocks(const PointNumbers& points, exchange::NumberedPoints numbered);
  template <class V>
  std::vector<V> reordered(std::span<const V> values, bool to) const {
    std::vector<V> result(values.size());
    if (split.order.empty()) return result;
    const auto each = static_cast<std::int64_t>(values.size() / split.order.size());
    auto own = std::int64_t{0};
    for (const std::int64_t e : split.order) {
      std::copy_n(values.begin() + (to ? e * each : own), each, result.begin() + (to ? own : e * each));
      own += each;
    }
    return result;
  }
};

}  // namespace weft::space
