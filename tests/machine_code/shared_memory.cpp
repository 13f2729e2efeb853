#include "shared_memory.hpp"

#include <bit>

namespace weft::machine_code {

void SharedMemory::start(unsigned begin, unsigned end, unsigned unit) {
  begin_ = begin;
  end_ = end;
  unit_ = unit;
  bytes_.assign(end - begin, static_cast<char>(0xff));
  units_.assign((end - begin + unit - 1) / unit, Unit{});
}

const char* SharedMemory::read(std::uint64_t address, unsigned bytes, const Moment& when, unsigned& other) {
  bool some_written = false;
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_) {
    Unit& unit = units_[at / unit_];
    if (!unit.written) continue;
    some_written = true;
    if (!in_order(unit.writer, when)) {
      other = unit.writer.thread;
      return "reads shared memory with no barrier after the write of";
    }
    if (!unit.read || unit.reader.barriers < when.barriers) {
      unit.readers = 0;
      unit.several_warps = false;
    } else if (unit.reader.warp() != when.warp()) {
      unit.several_warps = true;
    } else if (unit.reader.warp_syncs < when.warp_syncs) {
      unit.readers = 0;  // earlier accesses of this warp are ordered before all that it does from now on
    }
    unit.read = true;
    unit.readers |= when.lane();
    unit.reader = when;
  }
  return some_written ? nullptr : "reads shared memory that nothing was written to";
}

const char* SharedMemory::write(std::uint64_t address, unsigned bytes, const Moment& when, bool atomic,
                                unsigned& other) {
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_) {
    Unit& unit = units_[at / unit_];
    if (unit.written && !in_order(unit.writer, when) && !(atomic && unit.atomic)) {
      other = unit.writer.thread;
      return "writes shared memory with no barrier after the write of";
    }
    const Moment& reader = unit.reader;
    if (unit.read && reader.barriers == when.barriers) {
      other = reader.thread;
      if (unit.several_warps || reader.warp() != when.warp())
        return "writes shared memory with no barrier after the read of";
      const std::uint32_t apart = unit.readers & ~when.together & ~when.lane();
      if (reader.warp_syncs == when.warp_syncs && apart != 0) {
        other = 32 * when.warp() + static_cast<unsigned>(std::countr_zero(apart));
        return "writes shared memory with no barrier after the read of";
      }
    }
    unit.writer = when;
    unit.atomic = atomic;
    unit.written = true;
  }
  return nullptr;
}

bool SharedMemory::unwritten(std::uint64_t address, unsigned bytes) const {
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_)
    if (!units_[at / unit_].written) return true;
  return false;
}

const char* SharedMemory::await(std::uint64_t address, unsigned bytes, const Moment& when, unsigned& other) {
  if (const char* problem = write(address, bytes, when, false, other)) return problem;
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_)
    units_[at / unit_].written = false;
  return nullptr;
}

}  // namespace weft::machine_code
