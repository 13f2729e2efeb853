// Blocks of elements for the host's SIMD kernels, one element per vector lane: the data that kernels read.
// docs/cpu-kernels.md explains the design.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace weft::space {

constexpr int cube(int n) { return n * n * n; }

struct Range {
  std::int64_t begin, end;
};

// The data that kernels read. Arrays that begin with [blocks] are aligned to a vector.
struct BlockIndex {
  const std::int32_t* index;  // [blocks][surface points][lanes]: entry of the vector
  // [blocks]: the first of the block's (n - 2)^3 * lanes interior points in the vector if they are contiguous, else
  // -1 - (their position in interior_index).
  const std::int64_t* interior;
  const std::int32_t* interior_index;
  // [blocks]: two lanes of a vector share an entry, or there are several threads and a lane has the entry of masked
  // points. Such blocks are added lane by lane, without those of that entry.
  const std::uint8_t* conflict;
  std::int32_t zero;  // the entry of masked points
  // [blocks][surface points]: 1 if the point's lanes are consecutive entries, which are read and written as one vector.
  // nullptr: all points are accessed by index.
  const std::uint8_t* runs;
  bool by_loads;  // whether other surface points use single loads and stores, even if the processor can gather
};

// The schedule of a sweep. Blocks that touch the same entry are in one chunk or in chunks of different colours, and are
// executed in order. So entries are updated just before the first block that touches them, and summed just after the
// last. Those shared with other ranks, and the few that the assembly leaves apart, are handled before and after the
// sweep.
struct Plan {
  std::vector<Range> before;        // [blocks]: entries first touched by the block, its inside points in a row left out
  std::vector<std::int64_t> ahead;  // [blocks + 1]: entry where those first touched by the block begin, insides too
  std::vector<Range> after;         // entries last touched by a block, insides left out ...
  std::vector<std::int64_t> after_begin;  // ... [blocks + 1] into it
  std::vector<Range> apart;               // in pieces of equal work for threads
  Range halo;
  std::int64_t zero;  // the entry of masked points
  // [part][colour]: chunks of blocks that share no entry and may run at the same time.
  std::array<std::vector<std::vector<Range>>, 3> chunks;
  int threads;
};

}  // namespace weft::space
