// CRC-64 (ECMA-182's polynomial, reflected, as in xz): finds every burst of up to 64 wrong bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::files {

// Of `bytes` after those that `before` is the checksum of.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace weft::files
