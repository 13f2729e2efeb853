// Converts the text of an operand, as nvdisasm writes it, to the form that the emulator reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "instruction.hpp"

namespace weft::machine_code {

struct Unknown {};  // thrown for anything that is not accounted for

// How an instruction reads an operand: the meaning of an immediate's text, and how many words a register has.
enum class Reads : std::uint8_t { integer, f32, f64 };

Operand source(std::string text, Reads reads, std::uint32_t words = 1);
bool is_predicate(std::string_view text);  // "P0", "!UPT"
Operand predicate(std::string text);
void set_address(Operand& operand, const std::string& text);  // the sum inside brackets: registers and an offset

// Numbers: "12"; "-0x1c"; "1.5", "+INF", "-QNAN"; a value in half precision.
std::uint64_t number(std::string_view text, int base = 10);
std::int32_t hexadecimal(std::string text);
double decimal(std::string text);
std::uint32_t half_of(double value);

// Removes a prefix or suffix of the text; returns false, and removes nothing, if the text does not have it.
bool take(std::string& text, std::string_view prefix);
bool take_end(std::string& text, std::string_view suffix);

}  // namespace weft::machine_code
