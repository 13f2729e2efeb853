// CRC-64 (the polynomial of ECMA-182, reflected, as in xz): detects every burst of up to 64 wrong bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::files {

// The checksum of `bytes` appended to data whose checksum is `before`.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace weft::files
