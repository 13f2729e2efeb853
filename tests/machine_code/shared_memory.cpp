#include "shared_memory.hpp"

#include <bit>

namespace weft::machine_code {

void SharedMemory::start(unsigned begin, unsigned end, unsigned unit) {
  begin_ = begin;
  end_ = end;
  unit_ = unit;
  bytes_.assign(end - begin, static_cast<char>(0xff));
  units_.assign((end - begin + unit - 1) / unit, Unit{});
  atomics_.clear();
}

std::uint32_t SharedMemory::Now::synchronised(std::uint32_t lanes, unsigned before) const {
  if (syncs->of_all > before) return lanes;
  std::uint32_t result = 0;
  if (syncs->count > before)
    for (unsigned l = 0; l < 32; ++l)
      if ((lanes >> l & 1) != 0 && syncs->of_two[thread % 32][l] > before) result |= std::uint32_t{1} << l;
  return result;
}

bool SharedMemory::in_order(const Moment& first, const Now& second) {
  if (first.barriers < second.barriers || first.thread == second.thread) return true;
  return first.warp() == second.warp() &&
         (second.synchronised(first.lane(), first.warp_syncs) != 0 ||
          (first.instruction < second.instruction && (second.together & first.lane()) != 0));
}

void SharedMemory::Group::add(const Now& when) {
  if (!any_ || last_.barriers < when.barriers) {
    lanes_ = 0;
    several_warps_ = false;
  } else if (last_.warp() != when.warp()) {
    several_warps_ = true;
  } else if (last_.warp_syncs < when.syncs->of_all) {
    lanes_ = 0;  // earlier accesses of this warp are ordered before all that it does from now on
  }
  any_ = true;
  lanes_ |= when.lane();
  last_ = when;
}

bool SharedMemory::Group::all_before(const Now& when, unsigned& other) const {
  if (!any_ || last_.barriers < when.barriers) return true;
  other = last_.thread;
  if (several_warps_ || last_.warp() != when.warp()) return false;
  std::uint32_t apart = lanes_ & ~when.together & ~when.lane();
  apart &= ~when.synchronised(apart, last_.warp_syncs);
  if (apart == 0) return true;
  other = 32 * when.warp() + static_cast<unsigned>(std::countr_zero(apart));
  return false;
}

bool SharedMemory::written_before(std::size_t index, const Now& when, unsigned& other) const {
  const Unit& unit = units_[index];
  if (unit.atomic) return atomics_.at(index).all_before(when, other);
  other = unit.writer.thread;
  return in_order(unit.writer, when);
}

const char* SharedMemory::read(std::uint64_t address, unsigned bytes, const Now& when, unsigned& other) {
  bool some_written = false;
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_) {
    Unit& unit = units_[at / unit_];
    if (!unit.written) continue;
    some_written = true;
    if (!written_before(at / unit_, when, other)) return "reads shared memory with no barrier after the write of";
    unit.readers.add(when);
  }
  return some_written ? nullptr : "reads shared memory that nothing was written to";
}

const char* SharedMemory::write(std::uint64_t address, unsigned bytes, const Now& when, bool atomic, unsigned& other) {
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_) {
    const std::size_t index = at / unit_;
    Unit& unit = units_[index];
    if (unit.written && !(atomic && unit.atomic) && !written_before(index, when, other))
      return "writes shared memory with no barrier after the write of";
    if (!unit.readers.all_before(when, other)) return "writes shared memory with no barrier after the read of";
    if (atomic)
      atomics_[index].add(when);
    else if (unit.atomic)
      atomics_.erase(index);
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

const char* SharedMemory::await(std::uint64_t address, unsigned bytes, const Now& when, unsigned& other) {
  if (const char* problem = write(address, bytes, when, false, other)) return problem;
  for (std::uint64_t at = address - begin_; at < address - begin_ + bytes; at += unit_)
    units_[at / unit_].written = false;
  return nullptr;
}

}  // namespace weft::machine_code
