// A set of boundaries of a mesh: none, all, or those with given names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

class BoundarySet {
 public:
  BoundarySet() = default;  // none
  explicit BoundarySet(std::vector<std::string> names) : names_(std::move(names)) {}
  static BoundarySet all();

  // By the value of Mesh::boundaries: 1 where that boundary is in the set (never 0, the inside). std::invalid_argument,
  // the same on every rank, for an unknown name, with a list of the known ones.
  std::vector<std::uint8_t> flags(const Mesh& mesh) const;
  // The number of faces, over all ranks, on the boundaries of the set. (collective)
  std::int64_t faces(const Mesh& mesh) const;

  bool operator==(const BoundarySet&) const = default;

 private:
  bool all_ = false;
  std::vector<std::string> names_;
};

}  // namespace weft::mesh
