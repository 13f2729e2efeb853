// Divides the blocks of a rank among threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weft/space/block_index.hpp"

namespace weft::space {

// [part][colour]: chunks of blocks that share no entry and may run at the same time.
using Chunks = std::array<std::vector<std::vector<Range>>, 3>;

// An order of the blocks in which consecutive chunks are executed one after the other: part by part, colour by colour.
// So the first block that touches an entry, and the last one, are also the first and last in time.
struct Division {
  std::vector<std::int64_t> order;  // the blocks in this order: a permutation within each part
  Chunks chunks;                    // in the new order
};

// parts: consecutive ranges that contain all blocks. costs: [blocks] relative times. entries_of(block): the entries
// that it touches, in [0, entries); negative ones do not count.
//
// Each thread gets consecutive blocks of a part, of the same cost as those of the others, and processes them in as few
// colours as keep the threads busy: mostly two, since blocks that touch nothing of another thread fill up any colour.
// The last block stays last. std::runtime_error if too many blocks touch the same entry.
Division divide_blocks(const std::array<Range, 3>& parts, int threads, std::span<const int> costs, std::int64_t entries,
                       const std::function<std::span<const std::int32_t>(std::int64_t block)>& entries_of);

}  // namespace weft::space
