// A hash of global ids: the same on every rank and machine.
#pragma once

#include <cstdint>

namespace weft::exchange {

// The finaliser of SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", 2014): a
// bijection in which every bit of the id changes about half of the bits of the result.
inline std::uint64_t hash(std::int64_t id) {
  auto x = static_cast<std::uint64_t>(id) + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Maps the upper bits of the hash evenly to 0, …, n - 1.
inline std::int32_t pick(std::uint64_t hash, std::int32_t n) {
  return static_cast<std::int32_t>(((hash >> 32) * static_cast<std::uint64_t>(n)) >> 32);
}

}  // namespace weft::exchange
