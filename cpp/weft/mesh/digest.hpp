// A fingerprint of a mesh, independent of its distribution over ranks, for files that hold fields on it.
#pragma once

#include <array>
#include <cstdint>

#include "weft/mesh/mesh.hpp"

namespace weft::mesh {

struct Digest {
  std::int64_t elements = 0;
  std::uint64_t topology = 0;  // of the elements' numbers and those of their vertices
  // Weighted sums of coordinates in units of 2^exponent / 2^40, modulo 2^64; the weights, of 22 bits, depend on
  // element, point and direction.
  std::array<std::uint64_t, 4> geometry{};
  int exponent = 0;
};

// Coordinates are those of the elements' points at order 2. (collective)
Digest digest(const Mesh& mesh);

// Whether two meshes have the same elements in the same order, the same connectivity, and coordinates equal up to
// rounding.
bool same(const Digest& a, const Digest& b);

}  // namespace weft::mesh
