// From the text of an instruction to what the emulator runs. Every suffix and operand has to be accounted for: what is
// left over makes the instruction unknown, and an unknown instruction is an error.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include "instruction.hpp"

namespace weft::machine_code {
namespace {

struct Unknown {};

using Kind = Operand::Kind;
constexpr Type s32{Type::Kind::signed_integer, 32}, u32{Type::Kind::unsigned_integer, 32};
constexpr Type f32{Type::Kind::floating, 32}, f64{Type::Kind::floating, 64};

std::uint64_t number(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) throw Unknown{};
  return value;
}

bool take(std::string& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.erase(0, prefix.size());
  return true;
}
bool take_end(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.erase(text.size() - suffix.size());
  return true;
}

std::int32_t hexadecimal(std::string text) {
  const bool negative = take(text, "-");
  if (!take(text, "0x")) throw Unknown{};
  const auto value = static_cast<std::int64_t>(number(text, 16));
  return static_cast<std::int32_t>(negative ? -value : value);
}

// "R12", "RZ", "UR4", "URZ"
void set_register(Operand& operand, const std::string& text) {
  const bool uniform = text.starts_with('U');
  const std::string name = text.substr(uniform ? 2 : 1);
  const std::uint64_t index = name == "Z" ? (uniform ? 63u : 255u) : number(name);
  if (text[uniform ? 1 : 0] != 'R' || index > (uniform ? 63u : 255u)) throw Unknown{};
  (uniform ? operand.uniform : operand.reg) = static_cast<std::uint16_t>(index);
}

// The sum inside brackets: registers and an offset.
void set_address(Operand& operand, const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part.find("0x") != part.npos) {
      operand.offset = hexadecimal(part);
      continue;
    }
    const bool wide = take_end(part, ".64");
    if (take_end(part, ".X4") || take_end(part, ".X8") || take_end(part, ".X16") || take_end(part, ".U32"))
      throw Unknown{};
    set_register(operand, part);
    (part.starts_with('U') ? operand.uniform_wide : operand.wide) = wide;
  }
}

// Of floating point: what nvdisasm writes in decimals, as the words of a double; its infinities and NaNs.
double decimal(std::string text) {
  const bool negative = take(text, "-");
  take(text, "+");
  double value = 0;
  if (text == "INF") {
    value = std::numeric_limits<double>::infinity();
  } else if (text == "QNAN") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    char* end = nullptr;
    value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || text.find('x') != text.npos) throw Unknown{};
  }
  return negative ? -value : value;
}

std::uint32_t half_of(double value) {
  if (std::isnan(value)) throw Unknown{};  // its payload is not written
  const std::uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  value = std::abs(value);
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent, -13);
  const double mantissa = std::ldexp(value, 11 - exponent);  // 1024 … 2047, less where subnormal
  if (mantissa != std::floor(mantissa) || exponent > 16) throw Unknown{};
  return sign | static_cast<std::uint32_t>(static_cast<int>(mantissa) + ((exponent + 13) << 10));
}

enum class Reads : std::uint8_t { integer, f32, f64 };

Operand source(std::string text, Reads reads, std::uint32_t words = 1) {
  Operand operand;
  operand.words = reads == Reads::f64 ? 2 : words;
  take_end(text, ".reuse");
  const std::string whole = text;
  if (take(text, "-")) operand.negative = true;
  if (take(text, "~")) operand.inverted = true;
  if (text.starts_with('|') && text.size() > 2) {
    text.erase(0, 1);
    take_end(text, ".reuse");
    if (!take_end(text, "|")) throw Unknown{};
    operand.absolute = true;
  }
  take_end(text, ".reuse");
  if (text.starts_with('R')) {
    operand.kind = Kind::reg;
    set_register(operand, text);
  } else if (text.starts_with("UR")) {
    operand.kind = Kind::uniform;
    set_register(operand, text);
  } else if (text.starts_with("c[")) {
    operand.kind = Kind::constant;
    const std::size_t end = text.find(']');
    if (end == text.npos || text.size() < end + 3 || text[end + 1] != '[' || !text.ends_with(']')) throw Unknown{};
    operand.bank = static_cast<std::uint8_t>(hexadecimal(text.substr(2, end - 2)));
    set_address(operand, text.substr(end + 2, text.size() - end - 3));
  } else {
    operand = {};
    operand.words = reads == Reads::f64 ? 2 : words;
    operand.kind = Kind::immediate;
    if (whole.find("0x") != whole.npos) {
      operand.low = static_cast<std::uint32_t>(hexadecimal(whole));
      if (reads == Reads::f64) throw Unknown{};
      if (words == 2) operand.high = 0;
    } else if (reads == Reads::f32) {
      operand.low = std::bit_cast<std::uint32_t>(static_cast<float>(decimal(whole)));
    } else if (reads == Reads::f64) {
      // The upper word is all that is encoded; twenty digits say it exactly.
      operand.high = static_cast<std::uint32_t>((std::bit_cast<std::uint64_t>(decimal(whole)) + 0x80000000u) >> 32);
    } else {
      throw Unknown{};
    }
  }
  return operand;
}

bool is_predicate(std::string_view text) {
  if (text.starts_with('!')) text.remove_prefix(1);
  if (text.starts_with('U')) text.remove_prefix(1);
  return text.size() == 2 && text[0] == 'P' && (text[1] == 'T' || (text[1] >= '0' && text[1] <= '6'));
}
Operand predicate(std::string text) {
  if (!is_predicate(text)) throw Unknown{};
  Operand operand;
  operand.inverted = take(text, "!");
  operand.kind = take(text, "U") ? Kind::uniform_predicate : Kind::predicate;
  operand.reg = text[1] == 'T' ? 7 : static_cast<std::uint16_t>(text[1] - '0');
  return operand;
}

class Decoder {
 public:
  Decoder(const Line& line, const Listing& listing)
      : line_(line), listing_(listing), suffixes_(line.suffixes), operands_(line.operands) {}

  Instruction decode();

 private:
  // Suffixes, each taken once.
  bool has(std::string_view name) {
    const auto found = std::find(suffixes_.begin(), suffixes_.end(), name);
    if (found == suffixes_.end()) return false;
    suffixes_.erase(found);
    return true;
  }
  void ignore(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) has(name);
  }
  template <class T>
  std::optional<T> one_of(std::initializer_list<std::pair<std::string_view, T>> names) {
    for (const auto& [name, value] : names)
      if (has(name)) return value;
    return std::nullopt;
  }
  template <class T>
  T need(std::optional<T> value) {
    if (!value) throw Unknown{};
    return *value;
  }

  // Operands, in order.
  std::string next() {
    if (operands_.empty()) throw Unknown{};
    std::string text = std::move(operands_.front());
    operands_.erase(operands_.begin());
    return text;
  }
  bool at_predicate() const { return !operands_.empty() && is_predicate(operands_.front()); }
  Operand destination(std::uint32_t words = 1) {
    Operand operand = source(next(), Reads::integer, words);
    if (operand.kind != Kind::reg && operand.kind != Kind::uniform) throw Unknown{};
    if (operand.negative || operand.inverted || operand.absolute) throw Unknown{};
    if (operand.kind == Kind::uniform) on_uniform();
    return operand;
  }
  void on_uniform() {
    i_.on_uniform = true;
    i_.pipe = Pipe::uniform;
  }
  Operand destination_predicate() {
    Operand operand = predicate(next());
    if (operand.inverted) throw Unknown{};
    if (operand.kind == Kind::uniform_predicate) on_uniform();
    return operand;
  }
  Operand integer(std::uint32_t words = 1) { return source(next(), Reads::integer, words); }
  std::uint32_t value() {
    const Operand operand = integer();
    if (operand.kind != Kind::immediate) throw Unknown{};
    return operand.low;
  }
  void memory_address(std::string text) {
    if (take(text, "desc[")) {
      const std::size_t end = text.find(']');
      if (end == text.npos) throw Unknown{};
      text.erase(0, end + 1);
    }
    if (!take(text, "[") || !take_end(text, "]")) throw Unknown{};
    i_.address.kind = Kind::address;
    set_address(i_.address, text);
    if (i_.space != Space::global) return;
    // Atomics write [R4] for the pair that others write as [R4.64].
    if (i_.op == Op::atomic) i_.address.wide = true;
    if (i_.address.reg != 255 && !i_.address.wide) throw Unknown{};
    if (i_.address.uniform != 63 && !i_.address.uniform_wide) throw Unknown{};
  }
  std::uint32_t label(std::string text) const {
    if (!take(text, "`(") || !take_end(text, ")")) throw Unknown{};
    const auto found = listing_.labels.find(text);
    if (found != listing_.labels.end()) return found->second / 16;
    throw Unknown{};
  }
  std::uint8_t convergence_barrier() {
    std::string text = next();
    if (!take(text, "B")) throw Unknown{};
    return static_cast<std::uint8_t>(number(text) & 15);
  }

  void set(Op op, Pipe pipe) {
    i_.op = op;
    i_.pipe = pipe;
  }
  void rounding() {
    if (const auto mode = one_of<Rounding>(
            {{"RN", Rounding::nearest}, {"RM", Rounding::down}, {"RP", Rounding::up}, {"RZ", Rounding::zero}}))
      i_.rounding = *mode;
  }
  void combining() {
    i_.combine = need(
        one_of<Combine>({{"AND", Combine::conjunction}, {"OR", Combine::disjunction}, {"XOR", Combine::exclusive}}));
  }
  Compare comparison() {
    return need(one_of<Compare>({{"F", Compare::never},
                                 {"LT", Compare::lt},
                                 {"EQ", Compare::eq},
                                 {"LE", Compare::le},
                                 {"GT", Compare::gt},
                                 {"NE", Compare::ne},
                                 {"GE", Compare::ge},
                                 {"NUM", Compare::number},
                                 {"NAN", Compare::nan},
                                 {"LTU", Compare::ltu},
                                 {"EQU", Compare::equ},
                                 {"LEU", Compare::leu},
                                 {"GTU", Compare::gtu},
                                 {"NEU", Compare::neu},
                                 {"GEU", Compare::geu},
                                 {"T", Compare::always}}));
  }
  // Of conversions: the types in order, with what is meant where none is written.
  std::optional<Type> integer_type() {
    using K = Type::Kind;
    return one_of<Type>({{"U8", {K::unsigned_integer, 8}},
                         {"S8", {K::signed_integer, 8}},
                         {"U16", {K::unsigned_integer, 16}},
                         {"S16", {K::signed_integer, 16}},
                         {"U32", u32},
                         {"S32", s32},
                         {"U64", {K::unsigned_integer, 64}},
                         {"S64", {K::signed_integer, 64}}});
  }
  std::optional<Type> float_type() { return one_of<Type>({{"F32", f32}, {"F64", f64}}); }
  Operand typed_source(Type type) {
    if (type.kind != Type::Kind::floating) return integer(type.bits == 64 ? 2 : 1);
    return source(next(), type.bits == 64 ? Reads::f64 : Reads::f32);
  }

  void floating(Op op, Pipe pipe, Reads reads, int count) {
    set(op, pipe);
    i_.flush = has("FTZ");
    i_.saturate = has("SAT");
    rounding();
    i_.to = destination(reads == Reads::f64 ? 2 : 1);
    for (int k = 0; k < count; ++k) i_.from[static_cast<std::size_t>(k)] = source(next(), reads);
  }
  void floating_compare(Op op, Pipe pipe, Reads reads) {
    set(op, pipe);
    i_.flush = has("FTZ");
    if (reads == Reads::f64 && has("MIN")) {
      i_.op = Op::f64_min;
    } else {
      i_.compare = comparison();
    }
    combining();
    i_.to_predicate = destination_predicate();
    i_.to_predicate2 = destination_predicate();
    for (std::size_t k = 0; k < 2; ++k) i_.from[k] = source(next(), reads);
    i_.from_predicate[0] = predicate(next());
  }
  void access(Op op, Space space) {
    set(op, Pipe::memory);
    i_.space = space;
    i_.type = u32;
    i_.bytes = 4;
    if (const auto type = one_of<Type>({{"U8", {Type::Kind::unsigned_integer, 8}},
                                        {"S8", {Type::Kind::signed_integer, 8}},
                                        {"U16", {Type::Kind::unsigned_integer, 16}},
                                        {"S16", {Type::Kind::signed_integer, 16}}})) {
      i_.type = *type;
      i_.bytes = static_cast<std::uint8_t>(type->bits / 8);
    }
    if (has("64")) i_.bytes = 8;
    if (has("128")) i_.bytes = 16;
    // Caching and the scope of ordering: the emulator runs one block after the other and has no caches.
    ignore({"E", "CONSTANT", "STRONG", "WEAK", "CTA", "SM", "GPU", "SYS", "EF", "EL", "LU", "EU", "NA", "LTC64B",
            "LTC128B", "LTC256B", "PRIVATE"});
  }
  void atomic_type() {
    i_.type = u32;
    if (has("F64")) i_.type = f64;
    if (has("F32")) i_.type = f32;
    if (has("64")) i_.type = {Type::Kind::unsigned_integer, 64};
    if (has("U32")) i_.type = u32;
    if (has("S32")) i_.type = s32;
    if (has("U64")) i_.type = {Type::Kind::unsigned_integer, 64};
    if (has("S64")) i_.type = {Type::Kind::signed_integer, 64};
    if (i_.type.kind == Type::Kind::floating) {
      rounding();
      i_.flush = has("FTZ");
      if (i_.rounding != Rounding::nearest || i_.atomic != Atomic::add) throw Unknown{};
    }
    i_.bytes = i_.type.bits / 8;
  }
  void atomic(Space space, bool fetches) {
    set(Op::atomic, Pipe::memory);
    i_.space = space;
    i_.fetches = fetches;
    ignore({"E", "STRONG", "CTA", "SM", "GPU", "SYS"});
    i_.atomic = need(one_of<Atomic>({{"ADD", Atomic::add},
                                     {"MIN", Atomic::min},
                                     {"MAX", Atomic::max},
                                     {"AND", Atomic::conjunction},
                                     {"OR", Atomic::disjunction},
                                     {"XOR", Atomic::exclusive},
                                     {"EXCH", Atomic::exchange},
                                     {"INC", Atomic::increment},
                                     {"DEC", Atomic::decrement},
                                     {"CAS", Atomic::compare_swap}}));
    atomic_type();
    const std::uint32_t words = i_.bytes / 4;
    if (fetches) {
      if (at_predicate() && predicate(next()).reg != 7) throw Unknown{};
      i_.to = destination(words);
    }
    memory_address(next());
    i_.from[0] = integer(words);
    if (i_.atomic == Atomic::compare_swap) i_.from[1] = integer(words);
  }
  void read_special_register(const std::string& name) {
    static const std::map<std::string, Register> names{
        {"SR_TID.X", Register::tid_x},     {"SR_TID.Y", Register::tid_y},           {"SR_TID.Z", Register::tid_z},
        {"SR_CTAID.X", Register::block_x}, {"SR_CTAID.Y", Register::block_y},       {"SR_CTAID.Z", Register::block_z},
        {"SR_LANEID", Register::lane},     {"SR_CgaCtaId", Register::cluster_rank}, {"SR_CLOCKLO", Register::clock},
        {"SRZ", Register::zero},           {"SR_EQMASK", Register::eq_mask},        {"SR_LTMASK", Register::lt_mask},
        {"SR_LEMASK", Register::le_mask},  {"SR_GTMASK", Register::gt_mask},        {"SR_GEMASK", Register::ge_mask}};
    const auto found = names.find(name);
    if (found == names.end()) throw Unknown{};
    i_.reg = found->second;
  }

  bool control(const std::string& name);
  bool integers(const std::string& name);
  bool floats(const std::string& name);
  bool threads(const std::string& name);
  bool memory(const std::string& name);

  const Line& line_;
  const Listing& listing_;
  std::vector<std::string> suffixes_, operands_;
  Instruction i_;
};

bool Decoder::control(const std::string& name) {
  set(Op::nop, Pipe::control);
  if (name == "NOP") return true;
  if (name == "YIELD" || name == "ERRBAR" || name == "CCTL" || name == "NANOSLEEP" || name == "MEMBAR") {
    suffixes_.clear();  // nothing to do in an order of execution that is sequential
    operands_.clear();
    return true;
  }
  if (name == "BRA") {
    i_.op = has("DIV") ? Op::branch_if_divergent : Op::branch;
    has("U");
    i_.from_predicate[0] = {};
    if (i_.op == Op::branch_if_divergent)
      i_.from[0] = integer();
    else if (at_predicate())
      i_.from_predicate[0] = predicate(next());
    i_.target = label(next());
  } else if (name == "BRX" || name == "BRXU") {
    i_.op = Op::branch_indexed;  // "R4 -0xe0", "UR4 -0xe0": register pair, offset from the next instruction
    std::string text = next();
    const std::size_t space = text.find(' ');
    i_.from[0] = source(text.substr(0, space), Reads::integer, 2);
    i_.mask = line_.address + 16;
    if (space != text.npos) i_.mask += static_cast<std::uint32_t>(hexadecimal(text.substr(text.rfind(' ') + 1)));
  } else if (name == "CALL") {
    i_.op = Op::call;
    if (!has("REL") || !has("NOINC")) return false;
    i_.target = label(next());
  } else if (name == "RET") {
    i_.op = Op::ret;  // "R4 `(function)": to the function's address + R4
    if (!has("REL") || !has("NODEC")) return false;
    std::string text = next();
    const std::size_t space = text.find(' ');
    if (space == text.npos) return false;
    i_.from[0] = source(text.substr(0, space), Reads::integer, 2);
    i_.mask = 16 * label(text.substr(space + 1));
  } else if (name == "EXIT") {
    i_.op = Op::exit;
    if (at_predicate()) i_.from_predicate[0] = predicate(next());
  } else if (name == "BSSY") {
    i_.op = Op::sync_set;
    i_.barrier = convergence_barrier();
    i_.target = label(next());
  } else if (name == "BSYNC") {
    i_.op = Op::sync;
    i_.barrier = convergence_barrier();
  } else if (name == "BREAK") {
    i_.op = Op::sync_leave;
    if (at_predicate()) i_.from_predicate[0] = predicate(next());
    i_.barrier = convergence_barrier();
  } else if (name == "BMOV") {
    if (!has("32")) return false;
    i_.wrap = has("CLEAR");
    if (!operands_.empty() && operands_.front().starts_with('B')) {
      i_.op = Op::sync_write;
      i_.barrier = convergence_barrier();
      i_.from[0] = integer();
    } else {
      i_.op = Op::sync_read;
      i_.to = destination();
      i_.barrier = convergence_barrier();
    }
  } else if (name == "WARPSYNC") {
    i_.op = Op::warp_sync;
    i_.acquires_all = has("ALL");
    const bool collective = has("COLLECTIVE");
    if (!i_.acquires_all) i_.from[0] = integer();
    if (collective) i_.target = label(next());  // where those go on that are together; the next instruction
  } else if (name == "BAR") {
    i_.op = Op::barrier;
    if (!has("SYNC")) return false;
    has("DEFER_BLOCKING");
    if (value() != 0 || !operands_.empty()) return false;
  } else if (name == "BPT") {
    i_.op = Op::trap;
    if (!has("TRAP")) return false;
    operands_.clear();
  } else {
    return false;
  }
  return true;
}

bool Decoder::integers(const std::string& name) {
  set(Op::nop, Pipe::integer);
  auto& from = i_.from;
  if (name == "IADD3") {
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
  } else if (name == "SHF") {
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
  } else if (name == "IABS" || name == "MOV" || name == "POPC" || name == "BREV") {
    i_.op = name == "IABS"   ? Op::absolute
            : name == "MOV"  ? Op::move
            : name == "POPC" ? Op::population
                             : Op::reverse_bits;
    i_.to = destination();
    from[0] = integer();
    if (name == "MOV" && !operands_.empty() && value() != 0xf) return false;  // which bytes: all
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
  } else if (name == "HFMA2") {  // the compiler's way to load a constant on another pipe: -0 * 0 + two halves
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

bool Decoder::floats(const std::string& name) {
  set(Op::nop, Pipe::f32);
  if (name == "FADD") {
    floating(Op::f32_add, Pipe::f32, Reads::f32, 2);
  } else if (name == "FMUL") {
    floating(Op::f32_multiply, Pipe::f32, Reads::f32, 2);
  } else if (name == "FFMA") {
    floating(Op::f32_multiply_add, Pipe::f32, Reads::f32, 3);
  } else if (name == "FSEL") {
    floating(Op::f32_select, Pipe::f32, Reads::f32, 2);
    i_.from_predicate[0] = predicate(next());
  } else if (name == "FMNMX") {
    floating(Op::f32_min_max, Pipe::f32, Reads::f32, 2);
    i_.from_predicate[0] = predicate(next());
  } else if (name == "FSETP") {
    floating_compare(Op::f32_compare, Pipe::f32, Reads::f32);
  } else if (name == "DADD") {
    floating(Op::f64_add, Pipe::f64, Reads::f64, 2);
  } else if (name == "DMUL") {
    floating(Op::f64_multiply, Pipe::f64, Reads::f64, 2);
  } else if (name == "DFMA") {
    floating(Op::f64_multiply_add, Pipe::f64, Reads::f64, 3);
  } else if (name == "DSETP") {
    floating_compare(Op::f64_compare, Pipe::f64, Reads::f64);
  } else if (name == "MUFU") {
    i_.special = need(one_of<Special>({{"RCP", Special::rcp},
                                       {"RSQ", Special::rsq},
                                       {"SQRT", Special::sqrt},
                                       {"EX2", Special::ex2},
                                       {"LG2", Special::lg2},
                                       {"SIN", Special::sin},
                                       {"COS", Special::cos},
                                       {"TANH", Special::tanh},
                                       {"RCP64H", Special::rcp64h},
                                       {"RSQ64H", Special::rsq64h}}));
    const bool upper = i_.special == Special::rcp64h || i_.special == Special::rsq64h;
    floating(Op::special, Pipe::special, upper ? Reads::f64 : Reads::f32, 1);
    if (upper) {  // of a double, as which a constant is written too; registers are those of its upper word
      i_.to.words = i_.from[0].words = 1;
      i_.from[0].low = i_.from[0].high;
    }
  } else if (name == "FCHK") {
    set(Op::check_division, Pipe::f32);
    i_.to_predicate = destination_predicate();
    i_.from[0] = source(next(), Reads::f32);
    i_.from[1] = source(next(), Reads::f32);
  } else if (name == "I2F" || name == "I2FP") {
    set(Op::int_to_float, name == "I2F" ? Pipe::special : Pipe::f32);
    i_.type = float_type().value_or(f32);
    i_.source = integer_type().value_or(s32);
    rounding();
    i_.to = destination(i_.type.bits / 32);
    i_.from[0] = typed_source(i_.source);
    if (i_.source.bits < 32) return false;
  } else if (name == "F2I") {
    set(Op::float_to_int, Pipe::special);
    i_.flush = has("FTZ");
    i_.nan_to_zero = has("NTZ");
    i_.rounding = one_of<Rounding>({{"TRUNC", Rounding::zero}, {"FLOOR", Rounding::down}, {"CEIL", Rounding::up}})
                      .value_or(Rounding::nearest);
    i_.type = integer_type().value_or(s32);
    i_.source = float_type().value_or(f32);
    i_.to = destination(i_.type.bits == 64 ? 2 : 1);
    i_.from[0] = typed_source(i_.source);
  } else if (name == "F2F") {
    set(Op::float_to_float, Pipe::special);
    i_.flush = has("FTZ");
    rounding();
    if (suffixes_.size() != 2) return false;
    const std::string to = suffixes_[0], from = suffixes_[1];
    suffixes_.clear();
    const auto type = [](const std::string& text) {
      if (text != "F32" && text != "F64") throw Unknown{};
      return text == "F32" ? f32 : f64;
    };
    i_.type = type(to);
    i_.source = type(from);
    i_.to = destination(i_.type.bits / 32);
    i_.from[0] = typed_source(i_.source);
  } else if (name == "FRND") {
    set(Op::round, Pipe::special);
    i_.flush = has("FTZ");
    i_.rounding = one_of<Rounding>({{"TRUNC", Rounding::zero}, {"FLOOR", Rounding::down}, {"CEIL", Rounding::up}})
                      .value_or(Rounding::nearest);
    i_.type = float_type().value_or(f32);
    i_.to = destination(i_.type.bits / 32);
    i_.from[0] = typed_source(i_.type);
  } else {
    return false;
  }
  return true;
}

bool Decoder::threads(const std::string& name) {
  set(Op::nop, Pipe::integer);
  if (name == "VOTE") {
    i_.op = Op::vote;
    i_.vote = need(one_of<Vote>({{"ANY", Vote::any}, {"ALL", Vote::all}, {"EQ", Vote::equal}}));
    i_.to = source("RZ", Reads::integer);
    if (!at_predicate()) i_.to = destination();
    i_.to_predicate = destination_predicate();
    i_.from_predicate[0] = predicate(next());
  } else if (name == "SHFL") {
    set(Op::shuffle, Pipe::memory);
    i_.shuffle = need(one_of<Shuffle>(
        {{"IDX", Shuffle::index}, {"UP", Shuffle::up}, {"DOWN", Shuffle::down}, {"BFLY", Shuffle::butterfly}}));
    i_.to_predicate = destination_predicate();
    i_.to = destination();
    for (Operand& operand : i_.from) operand = integer();
  } else if (name == "MATCH") {
    i_.op = Op::match;
    i_.acquires_all = has("ALL");
    if (!i_.acquires_all && !has("ANY")) return false;
    const std::uint32_t words = has("U64") ? 2 : 1;
    if (at_predicate()) i_.to_predicate = destination_predicate();
    i_.to = destination();
    i_.from[0] = integer(words);
  } else if (name == "ELECT") {
    i_.op = Op::elect;
    i_.to_predicate = destination_predicate();
    i_.to = destination();
    if (at_predicate() && predicate(next()).reg != 7) return false;
  } else if (name == "REDUX") {
    i_.op = Op::uniform_reduce;
    const bool minimum = has("MIN"), maximum = has("MAX"), sum = has("SUM"), disjunction = has("OR"),
               exclusive = has("XOR");
    i_.atomic = minimum       ? Atomic::min
                : maximum     ? Atomic::max
                : sum         ? Atomic::add
                : disjunction ? Atomic::disjunction
                : exclusive   ? Atomic::exclusive
                              : Atomic::conjunction;
    i_.type = has("S32") ? s32 : u32;
    i_.to = destination();
    i_.from[0] = integer();
  } else if (name == "R2UR") {
    i_.op = Op::to_uniform;
    if (at_predicate() && predicate(next()).reg != 7) return false;
    i_.to = destination();
    i_.from[0] = integer();
  } else if (name == "UP2UR") {
    i_.op = Op::uniform_predicates_to_register;
    i_.to = destination();
    if (next() != "UPR") return false;
    i_.from[0] = integer();
    i_.mask = value();
  } else if (name == "S2R" || name == "S2UR" || name == "CS2R") {
    i_.op = Op::read_special;
    const bool narrow = name != "CS2R" || has("32");
    i_.to = destination(narrow ? 1 : 2);
    i_.wrap = !narrow;
    read_special_register(next());
  } else {
    return false;
  }
  return true;
}

bool Decoder::memory(const std::string& name) {
  set(Op::nop, Pipe::memory);
  const auto words = [&] { return std::max<std::uint32_t>(1, i_.bytes / 4); };
  if (name == "LDC" || name == "ULDC") {
    access(Op::load_constant, Space::global);
    i_.to = destination(words());
    i_.from[0] = integer(words());
    if (i_.from[0].kind != Kind::constant) return false;
  } else if (name == "LDG" || name == "LDS" || name == "LDL") {
    access(Op::load, name == "LDG" ? Space::global : name == "LDS" ? Space::shared : Space::local);
    i_.to = destination(words());
    memory_address(next());
  } else if (name == "STG" || name == "STS" || name == "STL") {
    access(Op::store, name == "STG" ? Space::global : name == "STS" ? Space::shared : Space::local);
    memory_address(next());
    i_.from[0] = integer(words());
  } else if (name == "RED" || name == "REDG") {
    atomic(Space::global, false);
  } else if (name == "ATOMG") {
    atomic(Space::global, true);
  } else if (name == "ATOMS") {
    atomic(Space::shared, true);
  } else if (name == "LDGSTS") {
    access(Op::copy_async, Space::shared);
    ignore({"BYPASS", "ACCESS"});
    memory_address(next());
    i_.from[0] = i_.address;
    i_.address = {};
    i_.space = Space::global;
    memory_address(next());
    i_.space = Space::shared;
  } else if (name == "LDGDEPBAR") {
    i_.op = Op::copy_group;
  } else if (name == "DEPBAR") {
    if (has("LE")) {
      i_.op = Op::copy_wait;
      next();  // which scoreboard: SB0 is that of asynchronous copies
      i_.mask = value();
    } else {
      operands_.clear();
    }
  } else {
    return false;
  }
  return true;
}

Instruction Decoder::decode() {
  if (!line_.guard.empty()) i_.guard = predicate(line_.guard);
  const Operand guard = i_.guard;
  // Instructions of the uniform registers have the names and operands of the others, with a U in front.
  const std::string& name = line_.name;
  const std::string plain = name.starts_with('U') && name != "UP2UR" ? name.substr(1) : name;
  const bool known = (plain == name && control(name)) || integers(name == "VOTEU" ? "VOTE" : plain) ||
                     (plain == name && floats(name)) || threads(name == "VOTEU" ? "VOTE" : plain) || memory(name);
  if (!known || !suffixes_.empty() || !operands_.empty()) throw Unknown{};
  i_.guard = guard;
  if (plain != name && !i_.on_uniform) throw Unknown{};
  return i_;
}

void check_registers(const Instruction& i, const Kernel& kernel) {
  const auto check = [&](const Operand& operand, std::uint32_t words) {
    const bool indexed = operand.kind == Kind::constant || operand.kind == Kind::address;
    if (operand.kind != Kind::reg && !indexed) return;
    const unsigned last = operand.reg + (indexed ? (operand.wide ? 2u : 1u) : words) - 1;
    if (operand.reg != 255 && last >= std::max(kernel.registers, 8u)) throw Unknown{};
  };
  check(i.to, i.to.words);
  check(i.address, 1);
  for (const Operand& operand : i.from) check(operand, operand.words);
}

}  // namespace

Code decode(const Listing& listing, const Kernel& kernel) {
  Code code;
  code.lines = listing.lines;
  code.shared_unit = 8;
  for (const Line& line : listing.lines) {
    try {
      const Instruction i = Decoder(line, listing).decode();
      check_registers(i, kernel);
      code.instructions.push_back(i);
      const bool shared = (i.op == Op::load || i.op == Op::store || i.op == Op::atomic || i.op == Op::copy_async) &&
                          i.space == Space::shared;
      if (shared) code.shared_unit = std::min<unsigned>(code.shared_unit, i.bytes);
    } catch (const Unknown&) {
      throw std::runtime_error("kernel " + kernel.name + ": the emulator does not know the instruction \"" + line.text +
                               "\" at address " + std::to_string(line.address));
    }
  }
  return code;
}

}  // namespace weft::machine_code
