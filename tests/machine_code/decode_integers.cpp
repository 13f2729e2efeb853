// Integer arithmetic and comparisons; bits, predicates and moves.
#include "decoder.hpp"

namespace weft::machine_code {

bool Decoder::integers(const std::string& name) {
  set(Op::nop, Pipe::integer);
  auto& from = i_.from;
  if (name == "IADD3" && has("64")) {
    i_.op = Op::add3_long;
    i_.to = destination(2);
    for (Operand& operand : from) operand = integer(2);
    for (const Operand& operand : from) {
      const bool small = operand.kind == Kind::immediate && operand.low >> 31 == 0 && operand.high == 0;
      if (operand.kind != Kind::reg && operand.kind != Kind::uniform && !small) return false;
    }
  } else if (name == "IADD3") {
    i_.op = Op::add3;
    i_.extended = has("X");
    i_.to = destination();
    if (at_predicate()) i_.to_predicate = destination_predicate();
    if (at_predicate()) i_.to_predicate2 = destination_predicate();
    for (Operand& operand : from) operand = integer();
    for (Operand& operand : i_.from_predicate)
      if (i_.extended && at_predicate()) operand = predicate(next());
  } else if (name == "VIADD") {
    i_.op = Op::add3;
    i_.to = destination();
    from[0] = integer();
    from[1] = integer();
    from[2] = source("RZ", Reads::integer);
  } else if (name == "IMAD") {
    i_.op = Op::multiply_add;
    i_.pipe = Pipe::f32;
    ignore({"MOV", "IADD", "SHL"});
    const bool wide = has("WIDE"), high = has("HI");
    i_.extended = has("X");
    i_.type = has("U32") ? u32 : s32;
    if (wide) i_.op = Op::multiply_add_wide;
    if (high) i_.op = Op::multiply_add_high;
    i_.to = destination(wide ? 2 : 1);
    if (at_predicate()) i_.to_predicate = destination_predicate();
    if (i_.to_predicate.kind != Kind::none && !wide && !high) return false;
    if (high && i_.extended) return false;
    from[0] = integer();
    from[1] = integer();
    from[2] = integer(wide || high ? 2 : 1);
    if ((wide || high) && from[2].kind == Kind::immediate && from[2].low != 0) return false;
    if (i_.extended) i_.from_predicate[0] = predicate(next());
  } else if (name == "LEA") {
    i_.high = has("HI");
    i_.op = i_.high ? Op::shift_add_high : Op::shift_add;
    i_.extended = has("X");
    i_.sign_from_first = has("SX32");
    i_.to = destination();
    if (at_predicate()) i_.to_predicate = destination_predicate();
    from[0] = integer();
    from[1] = integer();
    if (from[0].inverted || (from[0].negative && (i_.high || i_.extended))) return false;
    if (i_.high && !i_.sign_from_first) from[2] = integer();
    i_.shift = static_cast<std::uint8_t>(value() & 31);
    if (i_.extended) i_.from_predicate[0] = predicate(next());
  } else if (name == "ISETP") {
    i_.op = Op::compare;
    i_.extended = has("EX");
    i_.type = has("U32") ? u32 : s32;
    i_.compare = comparison();
    combining();
    i_.to_predicate = destination_predicate();
    i_.to_predicate2 = destination_predicate();
    from[0] = integer();
    from[1] = integer();
    i_.from_predicate[0] = predicate(next());
    if (i_.extended) i_.from_predicate[1] = predicate(next());
  } else if (name == "SEL") {
    i_.op = Op::select;
    i_.to = destination();
    from[0] = integer();
    from[1] = integer();
    i_.from_predicate[0] = predicate(next());
  } else if (name == "VIMNMX" || name == "IMNMX") {
    i_.op = Op::min_max;
    i_.type = has("U32") ? u32 : s32;
    i_.to = destination();
    from[0] = integer();
    from[1] = integer();
    i_.from_predicate[0] = predicate(next());
  } else if (name == "VIADDMNMX") {
    i_.op = Op::add_min_max;
    i_.type = has("U32") ? u32 : s32;
    i_.to = destination();
    for (Operand& operand : from) operand = integer();
    i_.from_predicate[0] = predicate(next());
  } else {
    return false;
  }
  return true;
}

bool Decoder::bits(const std::string& name) {
  set(Op::nop, Pipe::integer);
  auto& from = i_.from;
  if (name == "SHF") {
    i_.op = Op::funnel_shift;
    i_.left = has("L");
    if (!i_.left && !has("R")) return false;
    i_.wrap = has("W");
    i_.type = need(integer_type());
    i_.high = has("HI");
    i_.to = destination();
    for (Operand& operand : from) operand = integer();
  } else if (name == "LOP3") {
    i_.op = Op::logic;
    if (!has("LUT")) return false;
    if (at_predicate()) i_.to_predicate = destination_predicate();
    i_.to = destination();
    for (Operand& operand : from) operand = integer();
    i_.table = static_cast<std::uint8_t>(value());
    i_.from_predicate[0] = predicate(next());
  } else if (name == "PLOP3") {
    i_.op = Op::logic_predicates;
    if (!has("LUT")) return false;
    i_.to_predicate = destination_predicate();
    i_.to_predicate2 = destination_predicate();
    for (Operand& operand : from) operand = predicate(next());
    i_.table = static_cast<std::uint8_t>(value());
    i_.table2 = static_cast<std::uint8_t>(value());
  } else if (name == "IABS" || name == "MOV" || name == "POPC" || name == "BREV") {
    i_.op = name == "IABS"   ? Op::absolute
            : name == "MOV"  ? Op::move
            : name == "POPC" ? Op::population
                             : Op::reverse_bits;
    i_.to = destination();
    from[0] = integer();
    if (name == "MOV" && !operands_.empty() && value() != 0xf) return false;  // byte mask: all bytes
  } else if (name == "FLO") {
    i_.op = Op::find_leading;
    i_.type = has("U32") ? u32 : s32;
    i_.shift_amount = has("SH");
    i_.to = destination();
    if (at_predicate() && destination_predicate().reg != 7) return false;
    from[0] = integer();
  } else if (name == "PRMT") {
    i_.op = Op::permute_bytes;
    i_.to = destination();
    for (Operand& operand : from) operand = integer();
  } else if (name == "BMSK") {
    i_.op = Op::bit_mask;
    i_.wrap = has("W");
    i_.to = destination();
    from[0] = integer();
    from[1] = integer();
  } else if (name == "SGXT") {
    i_.op = Op::extend_sign;
    i_.type = has("U32") ? u32 : s32;
    i_.wrap = has("W");
    i_.to = destination();
    from[0] = integer();
    from[1] = integer();
  } else if (name == "P2R") {
    i_.op = Op::predicates_to_register;
    i_.to = destination();
    if (next() != "PR") return false;
    from[0] = integer();
    i_.mask = value();
  } else if (name == "R2P") {
    i_.op = Op::register_to_predicates;
    if (next() != "PR") return false;
    from[0] = integer();
    i_.mask = value();
  } else if (name == "HFMA2") {  // how the compiler loads a constant on another pipe: -0 * 0 + two halves
    i_.op = Op::move;
    i_.pipe = Pipe::f32;
    ignore({"MMA"});
    i_.to = destination();
    if (next() != "-RZ" || next() != "RZ") return false;
    const std::string high = next(), low = next();
    from[0].kind = Kind::immediate;
    from[0].low = half_of(decimal(high)) << 16 | half_of(decimal(low));
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::machine_code
