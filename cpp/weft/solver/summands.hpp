// What A x consists of before its last sums, y = Z^T values + lambda x, for kernels that do these together with other
// work.
#pragma once

#include <cstdint>

namespace weft::solver {

template <class T>
struct Summands {
  const std::int32_t *offsets, *columns;  // entry e is the sum of values[columns[offsets[e] .. offsets[e + 1])]
  const T* values;
};

}  // namespace weft::solver
