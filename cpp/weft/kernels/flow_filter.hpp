// A one-dimensional matrix applied along the three directions of each element: y = (F x F x F) u of each field.
//
// A block does an element, a thread a column of points (i, j). `entries` [element][n^3] holds the entry e of each
// point, or ~e where another point of this rank writes it: where elements meet their values agree if F keeps the ends
// of lines (Fischer and Mullen 2001). Out of place; matrix [n][n] row-major; u and y [fields][stride].
#include "weft/kernels/dialect.hpp"

namespace {

using real = WEFT_REAL;
constexpr int n = WEFT_N + 1;
constexpr int columns = n * n;

}  // namespace

WEFT_KERNEL(flow_filter, columns,
            (int fields, long stride, const real* WEFT_RESTRICT matrix, const int* WEFT_RESTRICT entries,
             const real* WEFT_RESTRICT u, real* WEFT_RESTRICT y)) {
  WEFT_SHARED(real, f[n][n]);
  WEFT_SHARED(real, plane[n][n][n]);
  WEFT_SHARED(real, once[n][n][n]);
  const int* WEFT_RESTRICT own = entries + static_cast<long>(WEFT_BLOCK) * (n * columns);

  WEFT_THREADS_2D(i, n, j, n) { f[j][i] = matrix[j * n + i]; }
  WEFT_BARRIER();
  for (int field = 0; field < fields; ++field) {
    WEFT_THREADS_2D(i, n, j, n) {
      real line[n];
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) {
        const int e = own[k * columns + j * n + i];
        line[k] = u[field * stride + (e < 0 ? ~e : e)];
      }
      WEFT_UNROLL
      for (int k = 0; k < n; ++k) {
        real sum = 0;
        WEFT_UNROLL
        for (int m = 0; m < n; ++m) sum += f[k][m] * line[m];
        plane[k][j][i] = sum;
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS_2D(i, n, j, n) {
      for (int k = 0; k < n; ++k) {
        real sum = 0;
        WEFT_UNROLL
        for (int m = 0; m < n; ++m) sum += f[j][m] * plane[k][m][i];
        once[k][j][i] = sum;
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS_2D(i, n, j, n) {
      for (int k = 0; k < n; ++k) {
        real sum = 0;
        WEFT_UNROLL
        for (int m = 0; m < n; ++m) sum += f[i][m] * once[k][j][m];
        const int e = own[k * columns + j * n + i];
        if (e >= 0) y[field * stride + e] = sum;
      }
    }
  }
}
