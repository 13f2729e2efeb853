#include "shared_memory.hpp"

namespace weft::machine_code {

void SharedMemory::start(unsigned begin, unsigned end, unsigned unit) {
  begin_ = begin;
  end_ = end;
  unit_ = unit;
  bytes_.assign(end - begin, static_cast<char>(0xff));
  units_.assign((end - begin + unit - 1) / unit, Unit{});
}

const char* SharedMemory::read(std::uint64_t address, unsigned bytes, Moment when, unsigned& other) {
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_) {
    Unit& unit = units_[at / unit_];
    if (!unit.written) return "reads shared memory that nothing was written to";
    if (unit.writer.thread != when.thread && !in_order(unit.writer, when)) {
      other = unit.writer.thread;
      return "reads shared memory with no barrier after the write of";
    }
    const bool same_warp = unit.reader.thread / 32 == when.thread / 32;
    if (!unit.read || unit.reader.barriers < when.barriers) {
      unit.several_readers = unit.several_warps = false;
    } else if (!same_warp) {
      unit.several_warps = true;
    } else if (unit.reader.warp_syncs < when.warp_syncs) {
      unit.several_readers = false;  // earlier ones of this warp are in order with all it does from here on
    } else if (unit.reader.thread != when.thread) {
      unit.several_readers = true;
    }
    unit.read = true;
    unit.reader = when;
  }
  return nullptr;
}

const char* SharedMemory::write(std::uint64_t address, unsigned bytes, Moment when, bool atomic, unsigned& other) {
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_) {
    Unit& unit = units_[at / unit_];
    if (unit.written && unit.writer.thread != when.thread && !in_order(unit.writer, when) && !(atomic && unit.atomic)) {
      other = unit.writer.thread;
      return "writes shared memory with no barrier after the write of";
    }
    const bool own_read = unit.reader.thread == when.thread && !unit.several_readers;
    if (unit.read && unit.reader.barriers == when.barriers &&
        (unit.several_warps || !(own_read || in_order(unit.reader, when)))) {
      other = unit.reader.thread;
      return "writes shared memory with no barrier after the read of";
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

const char* SharedMemory::await(std::uint64_t address, unsigned bytes, Moment when, unsigned& other) {
  if (const char* problem = write(address, bytes, when, false, other)) return problem;
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_) units_[at / unit_].written = false;
  return nullptr;
}

}  // namespace weft::machine_code
