// Copies many pieces of memory at once. A piece, one per block, is given by four numbers:
//   pieces[4 b] (0: from `first`, 1: from `second`), its offset there, its offset in `to`, its length; in units of
//   `real`. `second` and `to` may be the same array if the pieces do not overlap.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;  // only its size matters
constexpr int pieces_threads = 256;

WEFT_KERNEL(copy_pieces, pieces_threads,
            (const long* WEFT_RESTRICT pieces, const real* first, const real* second, real* to)) {
  const long* piece = pieces + 4 * static_cast<long>(WEFT_BLOCK);
  const real* from = (piece[0] == 0 ? first : second) + piece[1];
  real* target = to + piece[2];
  const int count = static_cast<int>(piece[3]);
  WEFT_STRIDED(i, count, pieces_threads) { target[i] = from[i]; }
}
