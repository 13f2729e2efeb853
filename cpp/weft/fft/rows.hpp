// Copying the rows of a panel on the host.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>

#include "weft/fft/block.hpp"

namespace weft::fft {

// to[i] = scale from[i]
template <class T>
inline void copy_row(T* __restrict__ to, const T* __restrict__ from, std::int64_t n, T scale) {
  if (scale == T(1)) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = scale * from[i];
  }
}
template <class T>
inline void copy_row(std::complex<T>* to, const std::complex<T>* from, std::int64_t n, T scale) {
  copy_row(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), 2 * n, scale);
}

// A variable of a block from its pieces, and to them.
template <class V, class T>
void load(const Block<V>& block, int variable, const Pieces<V>& pieces, T scale) {
  for (const Piece<V>& piece : pieces) {
    const Box common = intersection(block.box, piece.box);
    if (common.empty()) continue;
    const auto [x, y, z] = common.first;
    for (std::int64_t k = z; k < z + common.count[2]; ++k) {
      for (std::int64_t j = y; j < y + common.count[1]; ++j) {
        V* const to = block.row(variable, j - block.box.first[1], k - block.box.first[2]) + (x - block.box.first[0]);
        copy_row(to, piece.at(x, j, k), common.count[0], scale);
      }
    }
  }
}
template <class V, class T>
void store(const Block<V>& block, int variable, const Pieces<V>& pieces, T scale) {
  for (const Piece<V>& piece : pieces) {
    const Box common = intersection(block.box, piece.box);
    if (common.empty()) continue;
    const auto [x, y, z] = common.first;
    for (std::int64_t k = z; k < z + common.count[2]; ++k) {
      for (std::int64_t j = y; j < y + common.count[1]; ++j) {
        const V* const from =
            block.row(variable, j - block.box.first[1], k - block.box.first[2]) + (x - block.box.first[0]);
        copy_row(piece.at(x, j, k), from, common.count[0], scale);
      }
    }
  }
}

// One variable from pieces to pieces of the same box.
template <class T>
void copy_pieces(const Pieces<std::complex<T>>& from, const Pieces<std::complex<T>>& to) {
  for (const Piece<std::complex<T>>& piece : to) {
    load(Block<std::complex<T>>{piece.data, 1, 0, piece.box, piece.y_stride, piece.z_stride, 0}, 0, from, T(1));
  }
}

}  // namespace weft::fft
