// Launches of the kernels in kernels/vector.hpp.
#pragma once

#include <cstdint>

#include "weft/device/device.hpp"

namespace weft::device {

// Entries per block; must equal vector_chunk in kernels/vector.hpp.
inline constexpr std::int64_t vector_chunk = 4096;
inline constexpr Shape vector_shape{256};
// Vectors or pairs of vectors per launch of "dots" and "add_terms"; must equal most_vectors in kernels/vector.hpp.
inline constexpr int most_vectors = 16;

// Number of blocks for n entries, which is also the number of partial sums that kernels with sums write.
inline std::int64_t vector_blocks(std::int64_t n) { return (n + vector_chunk - 1) / vector_chunk; }

// A vector kernel for entries of T: vector_kernel<double>(*device, "axpy").
template <class T>
LoadedKernel vector_kernel(Device& device, const char* name) {
  return device.kernel<T>("vector", name);
}

}  // namespace weft::device
