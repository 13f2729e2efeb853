// A choice among the boundaries of a mesh: none, all, or those of some names.
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
  // the same on every rank, for a name the mesh does not have; it lists those it has.
  std::vector<std::uint8_t> flags(const Mesh& mesh) const;
  // Faces of all ranks that lie on the boundaries of the set. (collective)
  std::int64_t faces(const Mesh& mesh) const;

  bool operator==(const BoundarySet&) const = default;

 private:
  bool all_ = false;
  std::vector<std::string> names_;
};

}  // namespace weft::mesh
