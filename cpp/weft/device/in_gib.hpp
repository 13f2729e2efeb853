// Formats amounts of memory for messages to the user.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace weft::device {

// "1.5 GiB"
inline std::string in_gib(std::int64_t bytes) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text.data();
}

}  // namespace weft::device
