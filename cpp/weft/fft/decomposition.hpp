// The box of points or modes of each rank, in each of the three pencil decompositions.
//
// Pencils are along x in physical space (real, [z over Pr][y over Pc][Nx]), along z in between ([Nz][y over Pc][kx over
// Pr]), and along y in Fourier space ([kz over Pc][Ny][kx over Pr]); C-ordered, x fastest. Pr = 1 gives slabs.
#pragma once

#include <cstdint>

#include "weft/fft/block.hpp"
#include "weft/fft/grid.hpp"

namespace weft::fft {

struct Sizes {
  std::int64_t x = 0, y = 0, z = 0;
  std::int64_t points() const { return x * y * z; }
  auto operator<=>(const Sizes&) const = default;
};

// Whether transforms keep all coefficients; modes_x as for Decomposition.
inline bool keeps_all_modes(const Sizes& sizes, std::int64_t modes_x) {
  return modes_x == 0 || modes_x == sizes.x / 2 + 1;
}

class Decomposition {
 public:
  // modes_x: kx = 0, …, modes_x - 1 are kept; 0 means all x / 2 + 1. std::invalid_argument for sizes below 1, sizes
  // that exceed the int of the libraries, and modes_x beyond the size.
  Decomposition(const Sizes& sizes, std::int64_t modes_x, const Grid& grid, int rank);

  const Sizes& sizes() const { return sizes_; }
  std::int64_t modes_x() const { return modes_x_; }
  bool keeps_all_modes() const { return fft::keeps_all_modes(sizes_, modes_x_); }
  const Grid& grid() const { return grid_; }
  int rank() const { return rank_; }

  // The boxes of this rank, or of a given rank.
  Box physical() const { return physical(rank_); }
  Box middle() const { return middle(rank_); }
  Box spectral() const { return spectral(rank_); }
  Box physical(int rank) const;  // x: points
  Box x_pencil(int rank) const;  // the same rows after the transform in x: [z over Pr][y over Pc][modes_x]
  Box x_pencil() const { return x_pencil(rank_); }
  Box middle(int rank) const;
  Box spectral(int rank) const;

  // Maximum number of complex values that a field has in any of its pencil decompositions.
  std::int64_t field_values() const;

 private:
  Sizes sizes_;
  std::int64_t modes_x_;
  Grid grid_;
  int rank_;
};

}  // namespace weft::fft
