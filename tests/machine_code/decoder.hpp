// Decodes one instruction. Every suffix and operand must be accounted for: each is taken once, and anything left over
// makes the instruction unknown.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operand_text.hpp"

namespace weft::machine_code {

using Kind = Operand::Kind;
inline constexpr Type s32{Type::Kind::signed_integer, 32}, u32{Type::Kind::unsigned_integer, 32};
inline constexpr Type f32{Type::Kind::floating, 32}, f64{Type::Kind::floating, 64};

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
    // Atomics and prefetches write [R4] for the register pair that other instructions write as [R4.64].
    if (i_.op == Op::atomic || i_.op == Op::prefetch) i_.address.wide = true;
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
  // For conversions: the types in order, with the default if none is written.
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

  // Each returns false if the instruction does not belong to its group or is unknown.
  bool control(const std::string& name);      // decode_control.cpp
  bool integers(const std::string& name);     // decode_integers.cpp
  bool bits(const std::string& name);         // likewise
  bool floats(const std::string& name);       // decode_floats.cpp
  bool conversions(const std::string& name);  // likewise
  bool threads(const std::string& name);      // decode_threads.cpp
  bool memory(const std::string& name);       // decode_memory.cpp

  // Shared by the instructions of one group.
  void floating(Op op, Pipe pipe, Reads reads, int count);
  void floating_compare(Op op, Pipe pipe, Reads reads);
  void access(Op op, Space space);
  void atomic_type();
  void atomic(Space space, bool fetches);
  void read_special_register(const std::string& name);

  const Line& line_;
  const Listing& listing_;
  std::vector<std::string> suffixes_, operands_;
  Instruction i_;
};

}  // namespace weft::machine_code
