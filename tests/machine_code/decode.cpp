#include <algorithm>
#include <stdexcept>

#include "decoder.hpp"

namespace weft::machine_code {

Instruction Decoder::decode() {
  if (!line_.guard.empty()) i_.guard = predicate(line_.guard);
  const Operand guard = i_.guard;
  // Instructions on uniform registers have the same names and operands as the others, with a U in front.
  const std::string& name = line_.name;
  const std::string plain = name.starts_with('U') && name != "UP2UR" ? name.substr(1) : name;
  const bool known = (plain == name && control(name)) || integers(plain) || bits(plain) ||
                     (plain == name && (floats(name) || conversions(name))) ||
                     threads(name == "VOTEU" ? "VOTE" : plain) || memory(name);
  if (!known || !suffixes_.empty() || !operands_.empty()) throw Unknown{};
  i_.guard = guard;
  if (plain != name && !i_.on_uniform) throw Unknown{};
  return i_;
}

namespace {

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
