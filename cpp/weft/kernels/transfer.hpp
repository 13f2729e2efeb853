// Transfers between the vectors of two polynomial orders on the same elements: x_f += P x_c and r_c = P^T r_f (before
// Z^T).
//
// WEFT_N is the fine order; the coarse order has `coarse` points per direction; J [n][coarse] interpolates along a
// line. Every fine degree of freedom takes its value from ONE point of one element: `place` [element][n^3] holds its
// entry at that point and -1 at all other points. So P is the interpolation of a continuous function, each entry is
// written once, and P^T is exactly its transpose. `index` [element][coarse^3] is Z of the coarse vector. One thread per
// line. On GPUs the shared memory suffices for orders up to 13 in double precision.
#include "weft/kernels/element.hpp"

// x_f[place] += J x_c J^T …; with fresh, x_f[place] = …
WEFT_KERNEL(prolong, face,
            (int fresh, int coarse, const real* WEFT_RESTRICT interpolation, const int* WEFT_RESTRICT index,
             const int* WEFT_RESTRICT place, const real* WEFT_RESTRICT x_c, real* WEFT_RESTRICT x_f)) {
  WEFT_SHARED(real, a[n][n][n]);
  WEFT_SHARED(real, b[n][n][n]);
  WEFT_SHARED(real, jt[n][n]);  // jt[m][i] = J[i][m]
  const long element = WEFT_BLOCK;
  WEFT_THREADS_2D(i, n, j, n) {
    if (j < coarse) jt[j][i] = interpolation[i * coarse + j];
    if (i < coarse && j < coarse) {
      for (int k = 0; k < coarse; ++k) a[k][j][i] = x_c[index[((element * coarse + k) * coarse + j) * coarse + i]];
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, j, n) {  // along r: b[k][j][i], i < n
    if (j < coarse) {
      for (int k = 0; k < coarse; ++k) {
        real sum = 0;
        for (int m = 0; m < coarse; ++m) sum += jt[m][i] * a[k][j][m];
        b[k][j][i] = sum;
      }
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, k, n) {  // along s: a[k][j][i], j < n
    if (k < coarse) {
      for (int j = 0; j < n; ++j) {
        real sum = 0;
        for (int m = 0; m < coarse; ++m) sum += jt[m][j] * b[k][m][i];
        a[k][j][i] = sum;
      }
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, j, n) {  // along t
    for (int k = 0; k < n; ++k) {
      real sum = 0;
      for (int m = 0; m < coarse; ++m) sum += jt[m][k] * a[m][j][i];
      const int to = place[((element * n + k) * n + j) * n + i];
      if (to >= 0) x_f[to] = fresh ? sum : x_f[to] + sum;
    }
  }
}

// coarse_points [element][coarse^3] = J^T … r_f[place]
WEFT_KERNEL(restrict_points, face,
            (int coarse, const real* WEFT_RESTRICT interpolation, const int* WEFT_RESTRICT place,
             const real* WEFT_RESTRICT r_f, real* WEFT_RESTRICT coarse_points)) {
  WEFT_SHARED(real, a[n][n][n]);
  WEFT_SHARED(real, b[n][n][n]);
  WEFT_SHARED(real, jm[n][n]);  // jm[m][i] = J[m][i]
  const long element = WEFT_BLOCK;
  WEFT_THREADS_2D(i, n, j, n) {
    if (i < coarse) jm[j][i] = interpolation[j * coarse + i];
    for (int k = 0; k < n; ++k) {
      const int from = place[((element * n + k) * n + j) * n + i];
      a[k][j][i] = from >= 0 ? r_f[from] : real(0);
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, j, n) {  // along t: b[k][j][i], k < coarse
    for (int k = 0; k < coarse; ++k) {
      real sum = 0;
      for (int m = 0; m < n; ++m) sum += jm[m][k] * a[m][j][i];
      b[k][j][i] = sum;
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, k, n) {  // along s: a[k][j][i], j < coarse
    if (k < coarse) {
      for (int j = 0; j < coarse; ++j) {
        real sum = 0;
        for (int m = 0; m < n; ++m) sum += jm[m][j] * b[k][m][i];
        a[k][j][i] = sum;
      }
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, j, n) {  // along r
    if (i < coarse && j < coarse) {
      for (int k = 0; k < coarse; ++k) {
        real sum = 0;
        for (int m = 0; m < n; ++m) sum += jm[m][i] * a[k][j][m];
        coarse_points[((element * coarse + k) * coarse + j) * coarse + i] = sum;
      }
    }
  }
}
