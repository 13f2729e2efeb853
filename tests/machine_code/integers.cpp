// Integer instructions, predicates, and what the lanes of a warp exchange in registers.
#include <algorithm>
#include <cmath>

#include "warp.hpp"

namespace weft::machine_code {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// A signed summand as a 32-bit adder sees it: -x is ~x + 1, so that -0 produces a carry.
void read_summand(const Operand& operand, const Warp& warp, const Surroundings& around, Longs& value) {
  Words place;
  const Words& raw = read_word(operand, warp, around, place);
  for (int l = 0; l < lanes; ++l) {
    const u64 inverse = ~raw[l];
    value[l] = operand.negative ? (inverse & 0xffffffffu) + 1 : operand.inverted ? inverse & 0xffffffffu : raw[l];
  }
}

u32 logic(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (u32 term = 0; term < 8; ++term)
    if ((table >> term & 1) != 0)
      result |= ((term & 4) != 0 ? a : ~a) & ((term & 2) != 0 ? b : ~b) & ((term & 1) != 0 ? c : ~c);
  return result;
}

bool is_signed(const Type& type) { return type.kind == Type::Kind::signed_integer; }

u32 funnel(const Instruction& i, u32 low, u32 amount, u32 high) {
  const u32 most = i.type.bits == 64 ? 63 : 32;
  const u32 shift = i.wrap ? amount & (i.type.bits == 64 ? 63 : 31) : std::min(amount, most);
  const u64 both = low | static_cast<u64>(high) << 32;
  u64 result = i.left ? both << shift : both >> shift;
  if (!i.left && is_signed(i.type)) result = static_cast<u64>(static_cast<s64>(both) >> shift);
  if (!i.wrap && i.type.bits == 64 && amount > 63 && !(is_signed(i.type) && !i.left)) result = 0;
  return static_cast<u32>(i.high ? result >> 32 : result);
}

template <class T>
Mask compared(const Instruction& i, const Words& a, const Words& b, Mask lower) {
  const auto x = [&](int l) { return static_cast<T>(a[l]); };
  const auto y = [&](int l) { return static_cast<T>(b[l]); };
  const Mask equal = mask_where([&](int l) { return x(l) == y(l); });
  const Mask less = mask_where([&](int l) { return x(l) < y(l); });
  const Mask greater = ~(equal | less);
  // The upper words of longer numbers: if they are equal, the comparison of the lower words decides.
  switch (i.compare) {
    case Compare::never:
      return 0;
    case Compare::always:
      return all_lanes;
    case Compare::eq:
      return i.extended ? equal & lower : equal;
    case Compare::ne:
      return i.extended ? ~equal | lower : ~equal;
    case Compare::lt:
      return i.extended ? less | (equal & lower) : less;
    case Compare::le:
      return i.extended ? less | (equal & lower) : less | equal;
    case Compare::gt:
      return i.extended ? greater | (equal & lower) : greater;
    case Compare::ge:
      return i.extended ? greater | (equal & lower) : greater | equal;
    default:
      return 0;
  }
}

u32 find_leading(const Instruction& i, u32 value) {
  if (is_signed(i.type) && static_cast<s32>(value) < 0) value = ~value;
  if (value == 0) return ~0u;
  const u32 zeros = static_cast<u32>(std::countl_zero(value));
  return i.shift_amount ? zeros : 31 - zeros;
}

u32 permuted(u32 a, u32 selector, u32 c) {
  const u64 bytes = a | static_cast<u64>(c) << 32;
  u32 result = 0;
  for (int k = 0; k < 4; ++k) {
    const u32 which = selector >> (4 * k);
    u32 byte = static_cast<u32>(bytes >> (8 * (which & 7))) & 0xff;
    if ((which & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * k);
  }
  return result;
}

u32 reversed(u32 value) {
  u32 result = 0;
  for (int k = 0; k < 32; ++k) result |= (value >> k & 1) << (31 - k);
  return result;
}

}  // namespace

bool run_integers(const Instruction& i, Warp& warp, const Surroundings& around, Mask active) {
  Words place0, place1, place2, result;
  const auto a = [&]() -> const Words& { return read_integer(i.from[0], warp, around, place0); };
  const auto b = [&]() -> const Words& { return read_integer(i.from[1], warp, around, place1); };
  const auto c = [&]() -> const Words& { return read_integer(i.from[2], warp, around, place2); };
  const auto each = [&](auto&& value) {
    for (int l = 0; l < lanes; ++l) result[l] = value(l);
    write_word(i.to, warp, result, active);
  };
  const auto carry = [&](int which, int l) -> u64 {
    return read_predicate(i.from_predicate[static_cast<std::size_t>(which)], warp, 0) >> l & 1;
  };
  switch (i.op) {
    case Op::add3: {
      if (i.to_predicate.kind == Operand::Kind::none && !i.extended) {
        const Words &x = a(), &y = b(), &z = c();
        each([&](int l) { return x[l] + y[l] + z[l]; });
        return true;
      }
      Longs x, y, z;
      read_summand(i.from[0], warp, around, x);
      read_summand(i.from[1], warp, around, y);
      read_summand(i.from[2], warp, around, z);
      for (int l = 0; l < lanes; ++l) x[l] += y[l] + z[l];
      if (i.extended)
        for (int l = 0; l < lanes; ++l) x[l] += carry(0, l) + carry(1, l);
      each([&](int l) { return static_cast<u32>(x[l]); });
      write_predicate(i.to_predicate, warp, mask_where([&](int l) { return x[l] >> 32 >= 1; }), active);
      write_predicate(i.to_predicate2, warp, mask_where([&](int l) { return x[l] >> 32 >= 2; }), active);
      return true;
    }
    case Op::add3_long: {
      Longs x, y, z;
      read_signed_long(i.from[0], warp, around, x);
      read_signed_long(i.from[1], warp, around, y);
      read_signed_long(i.from[2], warp, around, z);
      for (int l = 0; l < lanes; ++l) x[l] += y[l] + z[l];
      write_long(i.to, warp, x, active);
      return true;
    }
    case Op::multiply_add: {
      const Words &x = a(), &y = b(), &z = c();
      if (i.extended)
        each([&](int l) { return x[l] * y[l] + z[l] + static_cast<u32>(carry(0, l)); });
      else
        each([&](int l) { return x[l] * y[l] + z[l]; });
      return true;
    }
    case Op::multiply_add_wide: {
      const Words &x = a(), &y = b();
      Longs product, sum;
      for (int l = 0; l < lanes; ++l)
        product[l] = is_signed(i.type)
                         ? static_cast<u64>(static_cast<s64>(static_cast<s32>(x[l])) * static_cast<s32>(y[l]))
                         : static_cast<u64>(x[l]) * y[l];
      Longs z;
      read_signed_long(i.from[2], warp, around, z);
      for (int l = 0; l < lanes; ++l) sum[l] = product[l] + z[l];
      Mask over = mask_where([&](int l) { return sum[l] < product[l]; });
      if (i.extended)
        for (int l = 0; l < lanes; ++l) {
          sum[l] += carry(0, l);
          if (carry(0, l) != 0 && sum[l] == 0) over |= Mask{1} << l;
        }
      write_long(i.to, warp, sum, active);
      write_predicate(i.to_predicate, warp, over, active);
      return true;
    }
    case Op::multiply_add_high: {
      const Words &x = a(), &y = b();
      Longs z;
      read_signed_long(i.from[2], warp, around, z);
      Mask over = 0;
      each([&](int l) {
        if (is_signed(i.type)) {
          const __int128 product = static_cast<__int128>(static_cast<s32>(x[l])) * static_cast<s32>(y[l]);
          return static_cast<u32>((product + static_cast<s64>(z[l])) >> 32);
        }
        const unsigned __int128 sum = static_cast<unsigned __int128>(x[l]) * y[l] + z[l];
        over |= static_cast<Mask>(sum >> 64 != 0) << l;
        return static_cast<u32>(sum >> 32);
      });
      write_predicate(i.to_predicate, warp, over, active);
      return true;
    }
    case Op::shift_add:
    case Op::shift_add_high: {
      const Words& x = read_word(i.from[0], warp, around, place0);
      const Words& upper = i.op == Op::shift_add_high && !i.sign_from_first ? c() : zeros();
      Longs summand;
      read_summand(i.from[1], warp, around, summand);
      for (int l = 0; l < lanes; ++l) {
        u32 shifted = x[l] << i.shift;
        if (i.op == Op::shift_add_high) {
          const u32 over = i.sign_from_first ? static_cast<u32>(static_cast<s32>(x[l]) >> 31) : upper[l];
          shifted = static_cast<u32>((x[l] | static_cast<u64>(over) << 32) << i.shift >> 32);
        }
        const u64 term = i.from[0].negative ? static_cast<u64>(~shifted) + 1 : shifted;  // the sign is that of a << s
        summand[l] += term + (i.extended ? carry(0, l) : 0);
      }
      each([&](int l) { return static_cast<u32>(summand[l]); });
      write_predicate(i.to_predicate, warp, mask_where([&](int l) { return summand[l] >> 32 != 0; }), active);
      return true;
    }
    case Op::funnel_shift: {
      const Words &low = a(), &amount = b(), &high = c();
      each([&](int l) { return funnel(i, low[l], amount[l], high[l]); });
      return true;
    }
    case Op::logic: {
      const Words &x = a(), &y = b(), &z = c();
      each([&](int l) { return logic(x[l], y[l], z[l], i.table); });
      if (i.to_predicate.kind != Operand::Kind::none)
        write_predicate(
            i.to_predicate, warp,
            mask_where([&](int l) { return result[l] != 0; }) | read_predicate(i.from_predicate[0], warp, 0), active);
      return true;
    }
    case Op::logic_predicates: {
      Mask value[3];
      for (std::size_t k = 0; k < 3; ++k) value[k] = read_predicate(i.from[k], warp, 0);
      write_predicate(i.to_predicate, warp, logic(value[0], value[1], value[2], i.table), active);
      write_predicate(i.to_predicate2, warp, logic(value[0], value[1], value[2], i.table2), active);
      return true;
    }
    case Op::compare: {
      const Words &x = a(), &y = b();
      const Mask lower = read_predicate(i.from_predicate[1], warp, 0);
      const Mask holds = is_signed(i.type) ? compared<s32>(i, x, y, lower) : compared<u32>(i, x, y, lower);
      const Mask with = read_predicate(i.from_predicate[0], warp, all_lanes);
      write_predicate(i.to_predicate, warp, combined(i.combine, holds, with), active);
      write_predicate(i.to_predicate2, warp, combined(i.combine, ~holds, with), active);
      return true;
    }
    case Op::select: {
      const Words &x = a(), &y = b();
      const Mask first = read_predicate(i.from_predicate[0], warp, all_lanes);
      each([&](int l) { return (first >> l & 1) != 0 ? x[l] : y[l]; });
      return true;
    }
    case Op::min_max:
    case Op::add_min_max: {
      const Words &x = a(), &y = b();
      const bool sum = i.op == Op::add_min_max;
      const Words& z = sum ? c() : y;
      const Mask smaller = read_predicate(i.from_predicate[0], warp, all_lanes);
      each([&](int l) {
        const u32 p = sum ? x[l] + y[l] : x[l], q = z[l];
        const bool less = is_signed(i.type) ? static_cast<s32>(p) < static_cast<s32>(q) : p < q;
        return less == ((smaller >> l & 1) != 0) ? p : q;
      });
      return true;
    }
    case Op::absolute: {
      const Words& x = a();
      each([&](int l) { return static_cast<s32>(x[l]) < 0 ? 0u - x[l] : x[l]; });
      return true;
    }
    case Op::move: {
      const Words& x = a();
      each([&](int l) { return x[l]; });
      return true;
    }
    case Op::population: {
      const Words& x = a();
      each([&](int l) { return static_cast<u32>(std::popcount(x[l])); });
      return true;
    }
    case Op::find_leading: {
      const Words& x = a();
      each([&](int l) { return find_leading(i, x[l]); });
      return true;
    }
    case Op::reverse_bits: {
      const Words& x = a();
      each([&](int l) { return reversed(x[l]); });
      return true;
    }
    case Op::permute_bytes: {
      const Words &x = a(), &selector = b(), &z = c();
      each([&](int l) { return permuted(x[l], selector[l], z[l]); });
      return true;
    }
    case Op::bit_mask: {
      const Words &begin = a(), &width = b();
      each([&](int l) -> u32 {
        const u32 from = i.wrap ? begin[l] & 31 : begin[l], count = i.wrap ? width[l] & 31 : std::min(width[l], 32u);
        return from > 31 ? 0 : static_cast<u32>(((u64{1} << count) - 1) << from);
      });
      return true;
    }
    case Op::extend_sign: {
      const Words &x = a(), &width = b();
      each([&](int l) -> u32 {
        const u32 count = i.wrap ? width[l] & 31 : std::min(width[l], 32u);
        if (count == 0) return 0;
        const u32 up = x[l] << (32 - count);
        return is_signed(i.type) ? static_cast<u32>(static_cast<s32>(up) >> (32 - count)) : up >> (32 - count);
      });
      return true;
    }
    case Op::predicates_to_register:
    case Op::uniform_predicates_to_register: {
      const Words& x = a();
      const auto& from = i.op == Op::predicates_to_register ? warp.predicates : warp.uniform_predicates;
      each([&](int l) {
        u32 bits = 0;
        for (u32 k = 0; k < 7; ++k) bits |= (from[k] >> l & 1) << k;
        return (bits & i.mask) | (x[l] & ~i.mask);
      });
      return true;
    }
    case Op::register_to_predicates: {
      const Words& x = a();
      for (u32 k = 0; k < 7; ++k) {
        if ((i.mask >> k & 1) == 0) continue;
        const Mask value = mask_where([&](int l) { return x[l] >> k & 1; });
        warp.predicates[k] = (warp.predicates[k] & ~active) | (value & active);
      }
      return true;
    }
    default:
      return false;
  }
}

namespace {

void shuffle(const Instruction& i, Warp& warp, const Surroundings& around, Mask active, const char*& problem) {
  Words place0, place1, place2, result{};
  const Words &value = read_integer(i.from[0], warp, around, place0),
              &which = read_integer(i.from[1], warp, around, place1),
              &bounds = read_integer(i.from[2], warp, around, place2);
  Mask in_range = 0;
  for (int l = 0; l < lanes; ++l) {
    if ((active >> l & 1) == 0) continue;
    const int segment = static_cast<int>(bounds[l] >> 8 & 31), clamp = static_cast<int>(bounds[l] & 31);
    const int first = l & segment, last = first | (clamp & ~segment), by = static_cast<int>(which[l] & 31);
    int from = l;
    bool inside = true;
    switch (i.shuffle) {
      case Shuffle::index:
        from = first | (by & ~segment), inside = from <= last;
        break;
      case Shuffle::up:
        from = l - by, inside = from >= last;
        break;
      case Shuffle::down:
        from = l + by, inside = from <= last;
        break;
      case Shuffle::butterfly:
        from = l ^ by, inside = from <= last;
        break;
    }
    if (!inside) from = l;
    if ((active >> from & 1) == 0) problem = "takes a value from a lane that takes no part in the shuffle";
    result[l] = value[from];
    in_range |= static_cast<Mask>(inside) << l;
  }
  write_word(i.to, warp, result, active);
  write_predicate(i.to_predicate, warp, in_range, active);
}

u32 reduced(const Instruction& i, const Words& value, Mask active) {
  u32 result = value[std::countr_zero(active) & 31];
  for (int l = std::countr_zero(active) + 1; l < lanes; ++l) {
    if ((active >> l & 1) == 0) continue;
    const u32 x = value[l];
    const bool less = is_signed(i.type) ? static_cast<s32>(x) < static_cast<s32>(result) : x < result;
    switch (i.atomic) {
      case Atomic::add:
        result += x;
        break;
      case Atomic::min:
        result = less ? x : result;
        break;
      case Atomic::max:
        result = less ? result : x;
        break;
      case Atomic::disjunction:
        result |= x;
        break;
      case Atomic::exclusive:
        result ^= x;
        break;
      default:
        result &= x;
        break;
    }
  }
  return result;
}

u32 special_register(Register which, const Warp& warp, const Surroundings& around, int lane) {
  const u32 thread = 32 * warp.index + static_cast<u32>(lane), bit = u32{1} << lane;
  switch (which) {
    case Register::tid_x:
      return thread % around.threads[0];
    case Register::tid_y:
      return thread / around.threads[0] % around.threads[1];
    case Register::tid_z:
      return thread / around.threads[0] / around.threads[1];
    case Register::block_x:
      return around.block[0];
    case Register::block_y:
      return around.block[1];
    case Register::block_z:
      return around.block[2];
    case Register::lane:
      return static_cast<u32>(lane);
    case Register::clock:
      return static_cast<u32>(around.clock);
    case Register::eq_mask:
      return bit;
    case Register::lt_mask:
      return bit - 1;
    case Register::le_mask:
      return bit | (bit - 1);
    case Register::gt_mask:
      return ~(bit | (bit - 1));
    case Register::ge_mask:
      return ~(bit - 1);
    case Register::cluster_rank:
    case Register::zero:
      return 0;
  }
  return 0;
}

// For DMMA.8x8x4, thread 4 i + k has a[i][k], b[k][i], and c[i][2 k] and its neighbour (PTX ISA, "Matrix Fragments for
// mma.m8n8k4 with .f64 floating point type").
void multiply_matrices(const Instruction& i, Warp& warp, const Surroundings& around, Mask active,
                       const char*& problem) {
  if (active != all_lanes) problem = "multiplies matrices of which some threads of the warp hold no part";
  Row<double> a, b, c[2];
  read_double(i.from[0], warp, around, a);
  read_double(i.from[1], warp, around, b);
  Operand half = i.from[2], to = i.to;
  for (Row<double>& values : c) {
    read_double(half, warp, around, values);
    if (half.reg != 255) half.reg += 2;
  }
  for (int l = 0; l < lanes; ++l)
    for (int e = 0; e < 2; ++e)
      for (int k = 0; k < 4; ++k) c[e][l] = std::fma(a[l / 4 * 4 + k], b[(l % 4 * 2 + e) * 4 + k], c[e][l]);
  for (const Row<double>& values : c) {
    write_double(to, warp, values, active);
    if (to.reg != 255) to.reg += 2;
  }
}

}  // namespace

bool run_between_threads(const Instruction& i, Warp& warp, const Surroundings& around, Mask active,
                         const char*& problem) {
  Words result{}, place;
  switch (i.op) {
    case Op::vote: {
      const Mask votes = read_predicate(i.from_predicate[0], warp, all_lanes) & active;
      const bool holds = i.vote == Vote::any   ? votes != 0
                         : i.vote == Vote::all ? votes == active
                                               : votes == 0 || votes == active;
      result.at.fill(votes);
      write_word(i.to, warp, result, active);
      write_predicate(i.to_predicate, warp, holds ? all_lanes : 0, active);
      return true;
    }
    case Op::shuffle:
      shuffle(i, warp, around, active, problem);
      return true;
    case Op::f64_matrix:
      multiply_matrices(i, warp, around, active, problem);
      return true;
    case Op::match: {
      Longs value;
      read_long(i.from[0], warp, around, value);
      if (i.from[0].words == 1)
        for (int l = 0; l < lanes; ++l) value[l] &= 0xffffffffu;
      Mask all_equal = all_lanes;
      for (int l = 0; l < lanes; ++l) {
        if ((active >> l & 1) == 0) continue;
        result[l] = mask_where([&](int k) { return value[k] == value[l]; }) & active;
        if (result[l] != active) all_equal = 0;
      }
      if (i.acquires_all) result.at.fill(all_equal & active);
      write_word(i.to, warp, result, active);
      write_predicate(i.to_predicate, warp, all_equal, active);
      return true;
    }
    case Op::elect: {
      const int leader = std::countr_zero(active);
      result.at.fill(static_cast<u32>(leader));
      write_word(i.to, warp, result, active);
      write_predicate(i.to_predicate, warp, Mask{1} << leader, active);
      return true;
    }
    case Op::uniform_reduce:
      result.at.fill(reduced(i, read_integer(i.from[0], warp, around, place), active));
      write_word(i.to, warp, result, active);
      return true;
    case Op::to_uniform: {
      const Words& value = read_integer(i.from[0], warp, around, place);
      const u32 first = value[std::countr_zero(active) & 31];
      if ((mask_where([&](int l) { return value[l] != first; }) & active) != 0)
        problem = "takes as the same for the warp what differs between its lanes";
      write_word(i.to, warp, value, active);
      return true;
    }
    case Op::read_special:
      for (int l = 0; l < lanes; ++l) result[l] = special_register(i.reg, warp, around, l);
      write_word(i.to, warp, result, active);
      if (i.wrap) write_word(i.to, warp, zeros(), active, 1);
      return true;
    default:
      return false;
  }
}

}  // namespace weft::machine_code
