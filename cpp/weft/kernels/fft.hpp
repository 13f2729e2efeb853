// Packing and unpacking for distributed Fourier transforms: copies boxes of complex values from their location to their
// destination, all variables and all bricks of an exchange in one launch. And what a whole field needs before a 3-D
// plan.
//
// table: for each of `pieces` the number of blocks before it, then for each piece fft_words words: destination and
// source addresses, the number of values along x, y and z, and the strides in y and z on both sides, in values.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int fft_threads = 256;
constexpr int fft_chunk = 2048;  // values per block
constexpr int fft_words = 9;

struct alignas(2 * sizeof(real)) fft_value {
  real re, im;
};

WEFT_FUNCTION void fft_copy(int block, int pieces, const long* WEFT_RESTRICT table, real scale) {
  int piece = 0, end = pieces;  // the last piece that begins at or before this block
  while (end - piece > 1) {
    const int middle = (piece + end) / 2;
    if (table[middle] <= block) {
      piece = middle;
    } else {
      end = middle;
    }
  }
  const long* words = table + pieces + static_cast<long>(piece) * fft_words;
  fft_value* to = reinterpret_cast<fft_value*>(words[0]);
  const fft_value* from = reinterpret_cast<const fft_value*>(words[1]);
  const long first = (block - table[piece]) * fft_chunk, left = words[2] * words[3] * words[4] - first;
  const int count = static_cast<int>(left < fft_chunk ? left : fft_chunk);
  // The chunk begins at (x, y, z) = (first_x, first_y, first_z). The divisions below are in 32 bits.
  const unsigned nx = static_cast<unsigned>(words[2]), ny = static_cast<unsigned>(words[3]);
  const long first_row = first / nx, first_z = first_row / ny;
  const unsigned first_x = static_cast<unsigned>(first - first_row * nx);
  const unsigned first_y = static_cast<unsigned>(first_row - first_z * ny);
  WEFT_STRIDED(i, count, fft_threads) {
    const unsigned row = (first_x + i) / nx, x = first_x + i - row * nx;
    const unsigned layer = (first_y + row) / ny, y = first_y + row - layer * ny;
    const long z = first_z + layer;
    const fft_value value = from[x + y * words[7] + z * words[8]];
    to[x + y * words[5] + z * words[6]] = {scale * value.re, scale * value.im};
  }
}

// The same kernel under a second name, so that a timeline distinguishes gathering before a transform from scattering
// after it.
WEFT_KERNEL(unpack, fft_threads, (int pieces, const long* WEFT_RESTRICT table, real scale)) {
  fft_copy(WEFT_BLOCK, pieces, table, scale);
}
WEFT_KERNEL(pack, fft_threads, (int pieces, const long* WEFT_RESTRICT table, real scale)) {
  fft_copy(WEFT_BLOCK, pieces, table, scale);
}

// Replaces the coefficients of kx = 0 and, for an even number of points, of the last kx by those of a real field: each
// pair (ky, kz), (-ky, -kz) by the mean of one and the conjugate of the other. Transforms line by line depend on these
// means alone; the libraries' 3-D c2r plans require such input. modes: [nz][ny][row]; one block per kz from 0 to nz /
// 2, and per kx.
WEFT_KERNEL(symmetrize, fft_threads, (fft_value * modes, int row, int ny, int nz)) {
  const int kz = WEFT_BLOCK % (nz / 2 + 1), kx = WEFT_BLOCK / (nz / 2 + 1) * (row - 1);
  const long here = static_cast<long>(kz) * ny, there = static_cast<long>(kz == 0 ? 0 : nz - kz) * ny;
  WEFT_STRIDED(ky, ny, fft_threads) {
    const long one = here + ky, other = there + (ky == 0 ? 0 : ny - ky);
    if (one <= other) {
      const fft_value a = modes[one * row + kx], b = modes[other * row + kx];
      const fft_value mean = {(a.re + b.re) / 2, (a.im - b.im) / 2};
      modes[one * row + kx] = mean;
      modes[other * row + kx] = {mean.re, -mean.im};
    }
  }
}
