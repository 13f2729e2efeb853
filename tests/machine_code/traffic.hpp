// The global memory that a launch uses, in sectors of 32 bytes: the unit in which memory and caches are read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>

namespace weft::machine_code {

using Sectors = std::span<const std::uint64_t>;  // addresses / 32, in ascending order without repetition

// Clocks that the L1 takes for the sectors of one request: each of four banks delivers one sector per clock; the
// position of a sector within its line of 128 bytes determines the bank (Accel-Sim, Khairy et al., ISCA 2020, fitted to
// V100 and A100).
inline std::uint64_t wavefronts(Sectors sectors) {
  std::array<std::uint64_t, 4> in_bank{};
  for (const std::uint64_t sector : sectors) ++in_bank[sector % 4];
  return *std::max_element(in_bank.begin(), in_bank.end());
}

// The traffic between memory and a cache that holds everything: each sector once. A sector that is written before it is
// read comes from the cache.
class Traffic {
 public:
  void read(Sectors sectors) {
    for (const std::uint64_t sector : sectors) {
      Used& used = used_[sector / 64];
      const std::uint64_t bit = std::uint64_t{1} << sector % 64;
      if (((used.read | used.written) & bit) == 0) ++reads;
      used.read |= bit;
    }
  }
  void write(Sectors sectors) {
    for (const std::uint64_t sector : sectors) {
      Used& used = used_[sector / 64];
      const std::uint64_t bit = std::uint64_t{1} << sector % 64;
      if ((used.written & bit) == 0) ++writes;
      used.written |= bit;
    }
  }
  std::uint64_t reads = 0, writes = 0;

 private:
  struct Used {
    std::uint64_t read = 0, written = 0;  // a bit per sector
  };
  std::unordered_map<std::uint64_t, Used> used_;  // by 64 sectors
};

}  // namespace weft::machine_code
