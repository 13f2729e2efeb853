#include "operand_text.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace weft::machine_code {

using Kind = Operand::Kind;

std::uint64_t number(std::string_view text, int base) {
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

namespace {

// "R12", "RZ", "UR4", "URZ"
void set_register(Operand& operand, const std::string& text) {
  const bool uniform = text.starts_with('U');
  const std::string name = text.substr(uniform ? 2 : 1);
  const std::uint64_t index = name == "Z" ? (uniform ? 63u : 255u) : number(name);
  if (text[uniform ? 1 : 0] != 'R' || index > (uniform ? 63u : 255u)) throw Unknown{};
  (uniform ? operand.uniform : operand.reg) = static_cast<std::uint16_t>(index);
}

}  // namespace

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

// For floating point: nvdisasm's decimal numbers, as the words of a double; also its infinities and NaNs.
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
  if (std::isnan(value)) throw Unknown{};  // nvdisasm does not write its payload
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

Operand source(std::string text, Reads reads, std::uint32_t words) {
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
      // Only the upper word is encoded; twenty digits determine it exactly.
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

}  // namespace weft::machine_code
