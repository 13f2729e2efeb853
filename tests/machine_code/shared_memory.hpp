// The shared memory of a block, with what is needed to find races and reads of what nobody wrote.
//
// For each unit (the smallest access of the kernel, at most 8 bytes): who wrote it last and who has read it since, and
// when. Two accesses are in order if a barrier of the block lies between them, or if they are of one warp and a
// synchronisation of that warp lies between. Lanes of one warp are not in order by themselves.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::machine_code {

class SharedMemory {
 public:
  // A moment of a thread: the barriers its block and the synchronisations its warp have been through.
  struct Moment {
    unsigned barriers = 0, warp_syncs = 0, thread = 0;
  };

  void start(unsigned begin, unsigned end, unsigned unit);  // nothing is written yet

  bool holds(std::uint64_t address, unsigned bytes) const {
    return address >= begin_ && address + bytes <= end_;
  }
  char* at(std::uint64_t address) { return bytes_.data() + (address - begin_); }

  // nullptr, or what is wrong with the access; `other` is then the other thread.
  const char* read(std::uint64_t address, unsigned bytes, Moment when, unsigned& other);
  const char* write(std::uint64_t address, unsigned bytes, Moment when, bool atomic, unsigned& other);
  bool unwritten(std::uint64_t address, unsigned bytes) const;
  // Makes it unwritten: an asynchronous copy is on its way there.
  const char* await(std::uint64_t address, unsigned bytes, Moment when, unsigned& other);

 private:
  struct Unit {
    Moment writer, reader;
    bool written = false, atomic = false, read = false, several_readers = false, several_warps = false;
  };
  static bool in_order(const Moment& first, const Moment& second) {
    return first.barriers < second.barriers ||
           (first.thread / 32 == second.thread / 32 && first.warp_syncs < second.warp_syncs);
  }

  unsigned begin_ = 0, end_ = 0, unit_ = 4;
  std::vector<char> bytes_;
  std::vector<Unit> units_;
};

}  // namespace weft::machine_code
