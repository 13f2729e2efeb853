// The shared memory of a block, with what is needed to find races and reads of memory that was never written.
//
// For each unit (the smallest access of the kernel, at most 8 bytes) it records who wrote it last, who has read it, and
// when. Two accesses are ordered if a barrier of the block lies between them. Two accesses of one warp are also ordered
// if a synchronisation of the warp lies between them, or if the lanes have not diverged: NVRTC omits __syncwarp where
// lanes cannot have diverged.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::machine_code {

class SharedMemory {
 public:
  // A moment in the execution of a thread: the number of barriers of its block and of synchronisations of its warp so
  // far, the current instruction, and the lanes that execute it.
  struct Moment {
    unsigned barriers = 0, warp_syncs = 0, thread = 0;
    std::uint32_t together = 0;
    std::uint64_t instruction = 0;
    unsigned warp() const { return thread / 32; }
    std::uint32_t lane() const { return std::uint32_t{1} << thread % 32; }
  };

  void start(unsigned begin, unsigned end, unsigned unit);  // initially nothing is written

  bool holds(std::uint64_t address, unsigned bytes) const { return address >= begin_ && address + bytes <= end_; }
  char* at(std::uint64_t address) { return bytes_.data() + (address - begin_); }

  // nullptr, or what is wrong with the access; `other` is then the other thread. A read of several units is wrong if
  // none of them was written.
  const char* read(std::uint64_t address, unsigned bytes, const Moment& when, unsigned& other);
  const char* write(std::uint64_t address, unsigned bytes, const Moment& when, bool atomic, unsigned& other);
  bool unwritten(std::uint64_t address, unsigned bytes) const;
  // Makes it unwritten: an asynchronous copy is on its way there.
  const char* await(std::uint64_t address, unsigned bytes, const Moment& when, unsigned& other);

 private:
  struct Unit {
    Moment writer, reader;      // the last ones
    std::uint32_t readers = 0;  // lanes of the last reader's warp, since the last barrier or synchronisation
    bool written = false, atomic = false, read = false, several_warps = false;
  };
  static bool in_order(const Moment& first, const Moment& second) {
    if (first.barriers < second.barriers || first.thread == second.thread) return true;
    return first.warp() == second.warp() &&
           (first.warp_syncs < second.warp_syncs ||
            (first.instruction < second.instruction && (second.together & first.lane()) != 0));
  }

  unsigned begin_ = 0, end_ = 0, unit_ = 4;
  std::vector<char> bytes_;
  std::vector<Unit> units_;
};

}  // namespace weft::machine_code
