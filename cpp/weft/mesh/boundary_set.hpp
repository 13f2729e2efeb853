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

  // Indexed by the values in Mesh::boundaries: 1 if that boundary is in the set (always 0 for the interior). For an
  // unknown name std::invalid_argument, the same on every rank, with a list of the known names.
  std::vector<std::uint8_t> flags(const Mesh& mesh) const;
  // The total number of faces, over all ranks, on the boundaries of the set. (collective)
  std::int64_t faces(const Mesh& mesh) const;

  bool operator==(const BoundarySet&) const = default;

 private:
  bool all_ = false;
  std::vector<std::string> names_;
};

}  // namespace weft::mesh
