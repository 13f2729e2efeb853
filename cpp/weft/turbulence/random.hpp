// Counter-based random numbers: a value depends only on its counter and the seed, so that any rank can compute any of
// them. Philox 4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace weft::turbulence {

using Counter = std::array<std::uint32_t, 4>;

inline Counter philox(Counter counter, std::uint64_t seed) {
  std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0], second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Two numbers in (0, 1), with 52 random bits each, never 0.
inline std::array<double, 2> uniform(const Counter& counter, std::uint64_t seed) {
  const Counter bits = philox(counter, seed);
  const auto number = [](std::uint32_t high, std::uint32_t low) {
    const std::uint64_t mantissa = (std::uint64_t{high} << 32 | low) >> 12;
    return (static_cast<double>(mantissa) + 0.5) * 0x1p-52;
  };
  return {number(bits[0], bits[1]), number(bits[2], bits[3])};
}

// Two independent normal numbers with mean 0 and variance 1 (Box-Muller).
inline std::array<double, 2> normal(const Counter& counter, std::uint64_t seed) {
  const auto [first, second] = uniform(counter, seed);
  const double radius = std::sqrt(-2 * std::log(first)), angle = 2 * std::numbers::pi * second;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// The purpose of random numbers, which is the last word of their counters.
enum class Draw : std::uint32_t { phase_shift = 1, forcing = 2, velocity = 3, scalar = 16 };

}  // namespace weft::turbulence
