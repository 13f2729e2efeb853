// The state of a warp, and how operands are read from it and written to it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "instruction.hpp"
#include "shared_memory.hpp"

namespace weft::machine_code {

using Mask = std::uint32_t;  // a bit per lane
inline constexpr Mask all_lanes = ~Mask{0};
inline constexpr int lanes = 32;

template <class T>
struct alignas(64) Row {
  std::array<T, lanes> at;
  T& operator[](int lane) { return at[static_cast<std::size_t>(lane)]; }
  const T& operator[](int lane) const { return at[static_cast<std::size_t>(lane)]; }
};
using Words = Row<std::uint32_t>;
using Longs = Row<std::uint64_t>;

// Lanes of a warp that are at the same instruction.
struct Fragment {
  enum class State : std::uint8_t { runs, at_sync, at_warp_sync, at_barrier };
  Mask lanes = 0;
  std::uint32_t at = 0;  // index of the next instruction
  State state = State::runs;
  std::uint8_t sync = 0;  // the convergence barrier it waits at
  Mask awaited = 0;       // the lanes a warp-wide synchronisation waits for
};

// A copy from global to shared memory that has not been waited for.
struct Copy {
  std::uint32_t to = 0;
  std::uint8_t bytes = 0;
  std::array<char, 16> value{};
};
struct Copies {
  std::vector<Copy> open;                 // not in a group yet
  std::vector<std::vector<Copy>> groups;  // oldest first
};

struct Warp {
  unsigned index = 0;
  Mask alive = 0;  // lanes that have not returned
  WarpSyncs syncs;
  std::vector<Words> registers;
  std::vector<Mask> undefined;  // for each register, the lanes whose value was never written
  bool some_undefined = false;
  std::array<std::uint32_t, 64> uniform{};
  std::array<Mask, 8> predicates{}, uniform_predicates{};
  std::array<Words, 16> sync_masks{};  // for each convergence barrier, the mask as known to each lane
  std::vector<Fragment> fragments;
  std::vector<char> local;  // one lane after the other
  std::array<Copies, lanes> copies;
};

// Data that differ between launches and blocks, and that no instruction writes.
struct Surroundings {
  std::array<std::span<const char>, 5> constants;  // banks
  unsigned block[3] = {};
  unsigned threads[3] = {};
  std::uint64_t clock = 0;
};

struct OutOfBounds {
  const char* what;
  int lane;
};

inline const Words& zeros() {
  static const Words none{};
  return none;
}

inline std::uint32_t constant_word(const Surroundings& around, const Operand& operand, std::int64_t at, int lane) {
  std::uint32_t value = 0;
  const std::span<const char> bank =
      operand.bank < around.constants.size() ? around.constants[operand.bank] : std::span<const char>();
  if (at < 0 || static_cast<std::size_t>(at) + 4 > bank.size()) throw OutOfBounds{"constant memory", lane};
  __builtin_memcpy(&value, bank.data() + at, 4);
  return value;
}

// A 32-bit word of an operand, without its signs. Registers are returned in place, others in `place`.
inline const Words& read_word(const Operand& operand, const Warp& warp, const Surroundings& around, Words& place,
                              std::uint32_t word = 0) {
  std::uint32_t value = 0;
  switch (operand.kind) {
    case Operand::Kind::reg:
      return operand.reg == 255 ? zeros() : warp.registers[operand.reg + word];
    case Operand::Kind::uniform:
      value = operand.uniform == 63 ? 0 : warp.uniform[operand.uniform + word];
      break;
    case Operand::Kind::immediate:
      value = word == 0 ? operand.low : operand.high;
      break;
    case Operand::Kind::constant: {
      std::int64_t at = operand.offset + 4 * static_cast<std::int64_t>(word);
      if (operand.uniform != 63) at += static_cast<std::int32_t>(warp.uniform[operand.uniform]);
      if (operand.reg == 255) {
        value = constant_word(around, operand, at, 0);
        break;
      }
      for (int l = 0; l < lanes; ++l) {  // lanes that take no part may have any index
        const std::int64_t from = at + static_cast<std::int32_t>(warp.registers[operand.reg][l]);
        const bool there = from >= 0 && operand.bank < 5 &&
                           static_cast<std::size_t>(from) + 4 <= around.constants[operand.bank].size();
        place[l] = there ? constant_word(around, operand, from, l) : 0;
      }
      return place;
    }
    default:
      break;
  }
  place.at.fill(value);
  return place;
}

// As integers, after applying -x and ~x.
inline const Words& read_integer(const Operand& operand, const Warp& warp, const Surroundings& around, Words& place) {
  const Words& raw = read_word(operand, warp, around, place);
  if (!operand.negative && !operand.inverted && !operand.absolute) return raw;
  for (int l = 0; l < lanes; ++l) {
    std::uint32_t value = raw[l];
    if (operand.absolute && static_cast<std::int32_t>(value) < 0) value = 0u - value;
    place[l] = operand.inverted ? ~value : operand.negative ? 0u - value : value;
  }
  return place;
}
inline void read_long(const Operand& operand, const Warp& warp, const Surroundings& around, Longs& value) {
  Words place, place2;
  const Words& low = read_word(operand, warp, around, place, 0);
  const Words& high = read_word(operand, warp, around, place2, 1);
  for (int l = 0; l < lanes; ++l) value[l] = low[l] | static_cast<std::uint64_t>(high[l]) << 32;
}
inline void read_signed_long(const Operand& operand, const Warp& warp, const Surroundings& around, Longs& value) {
  read_long(operand, warp, around, value);
  if (operand.negative)
    for (int l = 0; l < lanes; ++l) value[l] = 0 - value[l];
  if (operand.inverted)
    for (int l = 0; l < lanes; ++l) value[l] = ~value[l];
}
// As floating point, after applying |x| and -x.
inline void read_float(const Operand& operand, const Warp& warp, const Surroundings& around, Row<float>& value) {
  Words place;
  const Words& raw = read_word(operand, warp, around, place);
  const std::uint32_t keep = operand.absolute ? 0x7fffffffu : ~0u, flip = operand.negative ? 0x80000000u : 0;
  for (int l = 0; l < lanes; ++l) value[l] = std::bit_cast<float>((raw[l] & keep) ^ flip);
}
inline void read_double(const Operand& operand, const Warp& warp, const Surroundings& around, Row<double>& value) {
  Longs raw;
  read_long(operand, warp, around, raw);
  const std::uint64_t sign = std::uint64_t{1} << 63;
  const std::uint64_t keep = operand.absolute ? ~sign : ~std::uint64_t{0}, flip = operand.negative ? sign : 0;
  for (int l = 0; l < lanes; ++l) value[l] = std::bit_cast<double>((raw[l] & keep) ^ flip);
}

inline void write_word(const Operand& to, Warp& warp, const Words& value, Mask active, std::uint32_t word = 0) {
  if (to.kind == Operand::Kind::uniform) {
    if (to.uniform != 63) warp.uniform[to.uniform + word] = value[std::countr_zero(active) & 31];
    return;
  }
  if (to.reg == 255) return;
  Words& place = warp.registers[to.reg + word];
  if (active == all_lanes) {
    place = value;
    return;
  }
  for (int l = 0; l < lanes; ++l) place[l] = (active >> l & 1) != 0 ? value[l] : place[l];
}
inline void write_float(const Operand& to, Warp& warp, const Row<float>& value, Mask active) {
  write_word(to, warp, std::bit_cast<Words>(value), active);
}
inline void write_long(const Operand& to, Warp& warp, const Longs& value, Mask active) {
  Words low, high;
  for (int l = 0; l < lanes; ++l) {
    low[l] = static_cast<std::uint32_t>(value[l]);
    high[l] = static_cast<std::uint32_t>(value[l] >> 32);
  }
  write_word(to, warp, low, active, 0);
  write_word(to, warp, high, active, 1);
}
inline void write_double(const Operand& to, Warp& warp, const Row<double>& value, Mask active) {
  write_long(to, warp, std::bit_cast<Longs>(value), active);
}

// `missing` if the instruction has no such operand.
inline Mask read_predicate(const Operand& operand, const Warp& warp, Mask missing) {
  if (operand.kind == Operand::Kind::none) return missing;
  const bool uniform = operand.kind == Operand::Kind::uniform_predicate;
  const Mask value = operand.reg == 7 ? all_lanes
                     : uniform        ? warp.uniform_predicates[operand.reg]
                                      : warp.predicates[operand.reg];
  return operand.inverted ? ~value : value;
}
inline void write_predicate(const Operand& to, Warp& warp, Mask value, Mask active) {
  if (to.kind == Operand::Kind::none || to.reg == 7) return;
  if (to.kind == Operand::Kind::uniform_predicate) {
    warp.uniform_predicates[to.reg] = (value >> (std::countr_zero(active) & 31) & 1) != 0 ? all_lanes : 0;
    return;
  }
  Mask& place = warp.predicates[to.reg];
  place = (place & ~active) | (value & active);
}

template <class Condition>
Mask mask_where(Condition&& condition) {
  Mask mask = 0;
  for (int l = 0; l < lanes; ++l) mask |= static_cast<Mask>(condition(l)) << l;
  return mask;
}

inline Mask combined(Combine how, Mask value, Mask with) {
  return how == Combine::conjunction ? value & with : how == Combine::disjunction ? value | with : value ^ with;
}

// Instructions that change only registers and predicates of the active lanes. Each function returns false if the
// instruction is not of its kind, and sets `problem` if it has no defined result.
bool run_integers(const Instruction& i, Warp& warp, const Surroundings& around, Mask active);
bool run_floats(const Instruction& i, Warp& warp, const Surroundings& around, Mask active);
bool run_between_threads(const Instruction& i, Warp& warp, const Surroundings& around, Mask active,
                         const char*& problem);

}  // namespace weft::machine_code
