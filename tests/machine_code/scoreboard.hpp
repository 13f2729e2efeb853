// How long a block would take if it had a multiprocessor to itself: each warp issues in order, one instruction per
// clock, and an instruction waits for the registers that it reads and writes. A barrier joins the warps of the block.
// Warps do not compete for the pipes: that is counted elsewhere (counters.hpp).
//
// The time is stored by component, so that the latencies of any machine can be inserted: latencies of global memory, of
// the L2 and of shared memory that follow each other, and other clocks. The longest path is determined with the
// latencies of an H100.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "counters.hpp"
#include "instruction.hpp"
#include "traffic.hpp"

namespace weft::machine_code {

class Scoreboard {
 public:
  void start(std::size_t warps);  // starts a block
  void issue(unsigned warp, const Instruction& i);
  // The sectors loaded by the instruction just issued: the first load in a block waits for memory, or for the L2 if the
  // block has prefetched the sector; later loads wait for the L1.
  void load(Sectors sectors);
  void prefetch(std::uint64_t first, std::uint64_t end);  // of these sectors, into the L2
  void join();                                            // at a barrier
  Path finish();                                          // time of the block
  std::uint64_t loaded_sectors() const { return arrivals_.size(); }

 private:
  struct Warp {
    Path next;  // time at which it can issue
    std::vector<Path> registers, uniform, predicates, uniform_predicates;
    Path copies;               // asynchronous copies not yet in a group
    std::vector<Path> groups;  // oldest first
  };
  template <class Do>
  static void for_each_read(Warp& warp, const Instruction& i, Do&& wait);
  template <class Do>
  static void for_each_written(Warp& warp, const Instruction& i, Do&& write);
  void settle();  // makes the result of the instruction just issued available

  std::vector<Warp> warps_;
  std::unordered_map<std::uint64_t, Path> arrivals_;    // when the block's sectors arrive in the L1
  std::unordered_map<std::uint64_t, Path> prefetched_;  // when sectors that the block has prefetched arrive in the L2
  Warp* warp_ = nullptr;
  const Instruction* issued_ = nullptr;
  Path issued_at_, ready_;
};

}  // namespace weft::machine_code
