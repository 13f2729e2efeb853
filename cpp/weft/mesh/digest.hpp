// A fingerprint of a mesh, independent of its distribution over ranks, for files that store fields on the mesh.
#pragma once

#include <array>
#include <cstdint>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

struct Digest {
  std::int64_t elements = 0;
  std::uint64_t topology = 0;  // from the numbers of the elements and of their vertices
  // Weighted sums of coordinates in units of 2^exponent / 2^40, modulo 2^64. The weights have 22 bits and depend on
  // element, point and direction.
  std::array<std::uint64_t, 4> geometry{};
  int exponent = 0;
};

// The coordinates are those of the elements' points at order 2. (collective)
Digest digest(const Mesh& mesh);

// Whether two meshes have the same elements in the same order, the same connectivity, and coordinates equal up to
// rounding.
bool same(const Digest& a, const Digest& b);

}  // namespace weft::mesh
