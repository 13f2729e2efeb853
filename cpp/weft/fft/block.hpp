// Boxes of grid points or modes, and where their values are stored.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <vector>

namespace weft::fft {

// A range in each of x, y, z: of points, or of modes (kx, ky, kz in FFT order).
struct Box {
  std::array<std::int64_t, 3> first{}, count{};

  std::int64_t size() const { return count[0] * count[1] * count[2]; }
  bool empty() const { return size() == 0; }
};

inline Box intersection(const Box& a, const Box& b) {
  Box common;
  for (std::size_t d = 0; d < 3; ++d) {
    common.first[d] = std::max(a.first[d], b.first[d]);
    const std::int64_t end = std::min(a.first[d] + a.count[d], b.first[d] + b.count[d]);
    common.count[d] = std::max<std::int64_t>(0, end - common.first[d]);
  }
  return common;
}

// The argument of a pointwise function: several variables at the same points or modes. On the host a block is a panel
// of lines in cache; on a GPU it is everything that a rank has.
template <class V>
struct Block {
  V* data = nullptr;  // of variable 0 at box.first
  int variables = 0;
  int first_variable = 0;  // index among the variables of the stage; 0 unless the stage works in batches
  Box box;                 // global indices
  std::int64_t y_stride = 0, z_stride = 0, variable_stride = 0;  // counted in values; values along x are contiguous

  // The line of box.count[0] values along x at indices y and z within the box.
  V* row(int variable, std::int64_t y, std::int64_t z) const {
    return data + variable * variable_stride + y * y_stride + z * z_stride;
  }
};

// The values of one variable in a box, within a field or a message.
template <class V>
struct Piece {
  V* data = nullptr;  // at box.first
  Box box;
  std::int64_t y_stride = 0, z_stride = 0;

  V* at(std::int64_t x, std::int64_t y, std::int64_t z) const {  // global indices
    return data + (x - box.first[0]) + (y - box.first[1]) * y_stride + (z - box.first[2]) * z_stride;
  }
};

// A box stored contiguously: [z][y][x].
template <class V>
Piece<V> whole(V* data, const Box& box) {
  return {data, box, box.count[0], box.count[0] * box.count[1]};
}

// The pieces of one variable, which together make up a pencil.
template <class V>
using Pieces = std::vector<Piece<V>>;

}  // namespace weft::fft
