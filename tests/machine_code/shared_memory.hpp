// The shared memory of a block, with what is needed to find races and reads of memory that was never written.
//
// For each unit (the smallest access of the kernel, at most 8 bytes) it records who wrote it last, who has read it, and
// when. Two accesses are ordered if a barrier of the block lies between them. Two accesses of one warp are also ordered
// if a synchronisation of the warp in which both lanes took part lies between them, or if the lanes have not diverged:
// NVRTC omits __syncwarp where lanes cannot have diverged.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace weft::machine_code {

// The synchronisations of a warp so far: for each two lanes the number of the last one in which both took part. One
// that covers all lanes of the warp is noted once for all.
struct WarpSyncs {
  unsigned count = 0, of_all = 0;
  std::array<std::array<unsigned, 32>, 32> of_two{};

  void add(std::uint32_t lanes, bool all) {
    ++count;
    if (all) {
      of_all = count;
      return;
    }
    for (unsigned a = 0; a < 32; ++a)
      for (unsigned b = 0; b < 32; ++b)
        if ((lanes >> a & lanes >> b & 1) != 0) of_two[a][b] = count;
  }
};

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
  // The current moment, and the synchronisations of the thread's warp.
  struct Now : Moment {
    const WarpSyncs* syncs = nullptr;
    // Of these lanes of this warp, those with which this lane has synchronised after so many synchronisations.
    std::uint32_t synchronised(std::uint32_t lanes, unsigned before) const;
  };

  void start(unsigned begin, unsigned end, unsigned unit);  // initially nothing is written

  bool holds(std::uint64_t address, unsigned bytes) const { return address >= begin_ && address + bytes <= end_; }
  char* at(std::uint64_t address) { return bytes_.data() + (address - begin_); }

  // nullptr, or what is wrong with the access; `other` is then the other thread. A read of several units is wrong if
  // none of them was written.
  const char* read(std::uint64_t address, unsigned bytes, const Now& when, unsigned& other);
  const char* write(std::uint64_t address, unsigned bytes, const Now& when, bool atomic, unsigned& other);
  bool unwritten(std::uint64_t address, unsigned bytes) const;
  // Makes it unwritten: an asynchronous copy is on its way there.
  const char* await(std::uint64_t address, unsigned bytes, const Now& when, unsigned& other);

 private:
  // Accesses of one kind to a unit that need no order among themselves.
  class Group {
   public:
    void add(const Now& when);
    bool all_before(const Now& when, unsigned& other) const;  // `other`: a thread whose access is not

   private:
    Moment last_;
    std::uint32_t lanes_ = 0;  // of the last one's warp, since the last barrier or synchronisation of the whole warp
    bool any_ = false, several_warps_ = false;  // since the last barrier
  };
  struct Unit {
    Moment writer;  // the last one
    Group readers;
    bool written = false, atomic = false;
  };
  static bool in_order(const Moment& first, const Now& second);
  // Whether all writes of the unit come before; after atomic ones, those of its group.
  bool written_before(std::size_t index, const Now& when, unsigned& other) const;

  unsigned begin_ = 0, end_ = 0, unit_ = 4;
  std::vector<char> bytes_;
  std::vector<Unit> units_;
  std::unordered_map<std::size_t, Group> atomics_;  // of units whose last write was atomic
};

}  // namespace weft::machine_code
