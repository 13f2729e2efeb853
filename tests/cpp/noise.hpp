// Values for tests that look random and are the same on any number of ranks.
#pragma once

#include <cstdint>

namespace weft {

// In [-1, 1), from a global id.
inline double noise(std::int64_t id, int seed = 0) {
  std::uint64_t x = static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(seed) * 77777u;
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9u;
  return static_cast<double>((x ^ (x >> 29)) >> 11) * 0x1p-52 - 1;
}

}  // namespace weft
