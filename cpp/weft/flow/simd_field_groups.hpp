// Applies a term to any number of fields.
#pragma once

#include <algorithm>

#include "weft/flow/simd_blocks.hpp"

namespace weft::flow {

inline constexpr int together = 3;  // number of fields that a block processes at once

// Calls group(fields in, how many, fields out) for a few fields at a time.
template <class T, class Group>
void groups(const SimdCall<T>& c, Group&& group) {
  for (int i = 0; i < c.count; i += together)
    group(c.f + i * c.entries, std::min(together, c.count - i), c.out + i * c.entries);
}

}  // namespace weft::flow
