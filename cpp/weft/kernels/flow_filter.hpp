// Applies a one-dimensional matrix along the three directions of each element: y = (F x F x F) u for each field.
//
// One block per element, one thread per line of its points. `entries` [element][n^3] holds the entry e of each point,
// or ~e if another point of this rank writes it: where elements meet, their values agree if F leaves the ends of lines
// unchanged (Fischer and Mullen 2001). Out of place; matrix [n][n] row-major; u and y [fields][stride].
#include "weft/kernels/element.hpp"

namespace {

// Calls put(row, value) with the product of each row of the matrix and a line.
template <class Put>
WEFT_FUNCTION void apply(const real (&f)[n][n], const real (&line)[n], Put&& put) {
  WEFT_NO_UNROLL
  for (int row = 0; row < n; ++row) {
    real sum = 0;
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) sum += f[row][m] * line[m];
    put(row, sum);
  }
}

}  // namespace

WEFT_KERNEL(flow_filter, face,
            (int fields, long stride, const real* WEFT_RESTRICT matrix, const int* WEFT_RESTRICT entries,
             const real* WEFT_RESTRICT u, real* WEFT_RESTRICT y)) {
  WEFT_SHARED(real, f[n][n]);
  WEFT_SHARED(real, values[n][n][n + 1]);  // padded, so that a line along i does not map to one bank
  const int* WEFT_RESTRICT own = entries + static_cast<long>(WEFT_BLOCK) * (n * face);

  WEFT_THREADS_2D(i, n, j, n) { f[j][i] = matrix[j * n + i]; }
  WEFT_BARRIER();
  for (int field = 0; field < fields; ++field) {
    WEFT_THREADS_2D(i, n, j, n) {
      real line[n];
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) {
        const int e = own[k * face + j * n + i];
        line[k] = u[field * stride + (e < 0 ? ~e : e)];
      }
      apply(f, line, [&](int k, real value) { values[k][j][i] = value; });
    }
    WEFT_BARRIER();
    WEFT_THREADS_2D(i, n, k, n) {
      real line[n];
      WEFT_UNROLL
      for (int j = 0; j < n; ++j) line[j] = values[k][j][i];
      apply(f, line, [&](int j, real value) { values[k][j][i] = value; });
    }
    WEFT_BARRIER();
    WEFT_THREADS_2D(j, n, k, n) {
      real line[n];
      WEFT_UNROLL
      for (int i = 0; i < n; ++i) line[i] = values[k][j][i];
      apply(f, line, [&](int i, real value) { values[k][j][i] = value; });
    }
    WEFT_BARRIER();
    WEFT_THREADS_2D(i, n, j, n) {
      for (int k = 0; k < n; ++k) {
        const int e = own[k * face + j * n + i];
        if (e >= 0) y[field * stride + e] = values[k][j][i];
      }
    }  // the next field begins in the same threads
  }
}
