#include "weft/files/checksum.hpp"

#include <array>
#include <cstring>

namespace weft::files {
namespace {

// [j][b]: byte b followed by j zero bytes, to process eight bytes per step.
using Tables = std::array<std::array<std::uint64_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint64_t b = 0; b < 256; ++b) {
    std::uint64_t value = b;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xC96C5795D7870F42U : 0);
    tables[0][b] = value;
  }
  for (std::size_t j = 1; j < 8; ++j)
    for (std::size_t b = 0; b < 256; ++b) tables[j][b] = (tables[j - 1][b] >> 8) ^ tables[0][tables[j - 1][b] & 0xFF];
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t before) {
  std::uint64_t value = ~before;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    for (std::size_t b = 0; b < 8; ++b) word |= static_cast<std::uint64_t>(bytes[i + b]) << (8 * b);
    word ^= value;
    value = 0;
    for (std::size_t b = 0; b < 8; ++b) value ^= tables[7 - b][(word >> (8 * b)) & 0xFF];
  }
  for (; i < bytes.size(); ++i) value = (value >> 8) ^ tables[0][(value ^ static_cast<std::uint64_t>(bytes[i])) & 0xFF];
  return ~value;
}

}  // namespace weft::files
