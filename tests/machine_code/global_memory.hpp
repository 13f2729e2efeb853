// Races in global memory: which thread used each word last, and when.
//
// Nothing orders the blocks of a launch, so one block may not use what another writes, except by atomic operations
// only. Within a block, two warps are ordered by a barrier. Threads of one warp are taken to be ordered.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace weft::machine_code {

class GlobalMemory {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max(), several_blocks = none - 1;
  static constexpr std::uint16_t several_warps = std::numeric_limits<std::uint16_t>::max();

 public:
  struct Access {
    std::uint32_t block = none;
    std::uint16_t barriers = 0, thread = 0;  // `barriers`: of the block so far, modulo 2^16
  };

  // nullptr, or what is wrong with an access of 4, 8 or 16 bytes; if the text ends with "of", `other` is the other
  // thread, which is of the same block. `constant`: through a cache that does not see the launch's own writes.
  const char* read(std::uint64_t address, unsigned bytes, Access who, bool constant, unsigned& other) {
    for (std::uint64_t word = address / 4; word < (address + bytes) / 4; ++word) {
      Word& used = at(word);
      if (used.writer.block != none) {
        if (used.writer.block != who.block) return "reads global memory that another block of the launch writes";
        if (apart(used.writer, who, other)) return "reads global memory with no barrier after the write of";
        if (constant) return "reads as constant what the launch has written";
      }
      note(used.reader, who);
    }
    return nullptr;
  }
  const char* write(std::uint64_t address, unsigned bytes, Access who, bool atomic, unsigned& other) {
    for (std::uint64_t word = address / 4; word < (address + bytes) / 4; ++word) {
      Word& used = at(word);
      if (used.reader.block != none) {
        if (used.reader.block != who.block) return "writes global memory that another block of the launch reads";
        if (apart(used.reader, who, other)) return "writes global memory with no barrier after the read of";
      }
      if (used.writer.block != none && !(atomic && used.atomic)) {
        if (used.writer.block != who.block) return "writes global memory that another block of the launch writes";
        if (apart(used.writer, who, other)) return "writes global memory with no barrier after the write of";
      }
      if (!(atomic && used.atomic)) used.writer = {};
      used.atomic = atomic;
      note(used.writer, who);
    }
    return nullptr;
  }

 private:
  static constexpr std::uint64_t words = 512;  // of a page

  // The last accesses; or all since the last barrier if they are of several warps, or all if they are of several
  // blocks.
  struct Word {
    Access writer, reader;
    bool atomic = false;  // the last writes
  };

  static bool apart(const Access& first, Access who, unsigned& other) {
    if (first.barriers != who.barriers) return false;
    if (first.thread != several_warps && first.thread / 32 == who.thread / 32) return false;
    other = first.thread == several_warps ? 0 : first.thread;
    return true;
  }
  static void note(Access& last, Access who) {
    const bool first = last.block == none;
    if (!first && last.block != who.block) {
      last.block = several_blocks;
    } else if (!first && last.barriers == who.barriers && last.thread / 32 != who.thread / 32) {
      last.thread = several_warps;
    } else {
      last = who;
    }
  }
  Word& at(std::uint64_t word) {
    if (const std::uint64_t number = word / words; number != known_) {
      std::vector<Word>& page = pages_[number];
      if (page.empty()) page.resize(words);
      known_ = number;
      page_ = page.data();
    }
    return page_[word % words];
  }

  std::unordered_map<std::uint64_t, std::vector<Word>> pages_;
  std::uint64_t known_ = ~std::uint64_t{0};
  Word* page_ = nullptr;
};

}  // namespace weft::machine_code
