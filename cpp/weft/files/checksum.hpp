// CRC-64 (ECMA-182's polynomial, reflected, as in xz): finds every burst of up to 64 wrong bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::files {

// The checksum of `bytes` appended to data whose checksum is `before`.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace weft::files
