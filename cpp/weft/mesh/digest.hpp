// What tells one mesh from another, whatever the ranks it is dealt out over: for files that hold fields of a mesh.
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

// The same elements in the same order, joined in the same way, their coordinates equal to rounding.
bool same(const Digest& a, const Digest& b);

}  // namespace weft::mesh
