// Local solves of an overlapping Schwarz method by fast diagonalisation (Lottes and Fischer, J. Sci. Comput. 24, 2005).
//
// A subdomain is an element of n = WEFT_N + 1 points a direction with one more layer of points beyond each face, those
// of the neighbours; there is nothing beyond its edges. A thread has a line of m = n + 2 points.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int n = WEFT_N + 1;
constexpr int m = n + 2;
constexpr int line_threads = m * m;

// line = V^T line
WEFT_FUNCTION void to_modes(const real* WEFT_RESTRICT v, real (&line)[m]) {
  real sum[m];
  WEFT_UNROLL
  for (int a = 0; a < m; ++a) sum[a] = 0;
  WEFT_UNROLL
  for (int k = 0; k < m; ++k) {
    WEFT_UNROLL
    for (int a = 0; a < m; ++a) sum[a] += v[k * m + a] * line[k];
  }
  WEFT_UNROLL
  for (int a = 0; a < m; ++a) line[a] = sum[a];
}

// line = V line
WEFT_FUNCTION void from_modes(const real* WEFT_RESTRICT v, real (&line)[m]) {
  real sum[m];
  WEFT_UNROLL
  for (int k = 0; k < m; ++k) sum[k] = 0;
  WEFT_UNROLL
  for (int a = 0; a < m; ++a) {
    WEFT_UNROLL
    for (int k = 0; k < m; ++k) sum[k] += v[k * m + a] * line[a];
  }
  WEFT_UNROLL
  for (int k = 0; k < m; ++k) line[k] = sum[k];
}

// points [element][n^3] = what each subdomain's solve with r as right-hand side gives at its element's own points.
// inside [element][n^3], beyond [element][6][n^2]: entries of r, by face as in mesh/reference.hpp. vectors
// [element][3][m][m], values [element][3][m]: of the one-dimensional operators.
WEFT_KERNEL(schwarz_points, line_threads,
            (const int* WEFT_RESTRICT inside, const int* WEFT_RESTRICT beyond, const real* WEFT_RESTRICT vectors,
             const real* WEFT_RESTRICT values, const real* WEFT_RESTRICT r, real* WEFT_RESTRICT points)) {
  WEFT_SHARED(real, u[m][m][m]);
  const long element = WEFT_BLOCK;
  const real* const v = vectors + element * 3 * m * m;
  const real* const lambda = values + element * 3 * m;
  const int* const own = inside + element * n * n * n;
  const int* const face = beyond + element * 6 * n * n;
  WEFT_THREADS_2D(i, m, j, m) {  // along t
    const int x = i - 1, y = j - 1;
    const bool outside_r = x < 0 || x >= n, outside_s = y < 0 || y >= n;
    real line[m];
    WEFT_UNROLL
    for (int k = 0; k < m; ++k) {
      const int z = k - 1;
      const bool outside_t = z < 0 || z >= n;
      real value = 0;
      if (!outside_r && !outside_s && !outside_t)
        value = r[own[(z * n + y) * n + x]];
      else if (!outside_r && !outside_s)
        value = r[face[(z < 0 ? 4 : 5) * n * n + y * n + x]];
      else if (!outside_r && !outside_t)
        value = r[face[(y < 0 ? 2 : 3) * n * n + z * n + x]];
      else if (!outside_s && !outside_t)
        value = r[face[(x < 0 ? 0 : 1) * n * n + z * n + y]];
      line[k] = value;
    }
    to_modes(v + 2 * m * m, line);
    WEFT_UNROLL
    for (int k = 0; k < m; ++k) u[k][j][i] = line[k];
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, m, k, m) {  // along s
    real line[m];
    WEFT_UNROLL
    for (int j = 0; j < m; ++j) line[j] = u[k][j][i];
    to_modes(v + m * m, line);
    WEFT_UNROLL
    for (int j = 0; j < m; ++j) u[k][j][i] = line[j];
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(j, m, k, m) {  // along r and back
    real line[m];
    WEFT_UNROLL
    for (int i = 0; i < m; ++i) line[i] = u[k][j][i];
    to_modes(v, line);
    const real two = lambda[m + j] + lambda[2 * m + k];
    WEFT_UNROLL
    for (int i = 0; i < m; ++i) {
      const real sum = lambda[i] + two;
      line[i] = sum > 0 ? line[i] / sum : real(0);
    }
    from_modes(v, line);
    WEFT_UNROLL
    for (int i = 0; i < m; ++i) u[k][j][i] = line[i];
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, m, k, m) {  // along s
    real line[m];
    WEFT_UNROLL
    for (int j = 0; j < m; ++j) line[j] = u[k][j][i];
    from_modes(v + m * m, line);
    WEFT_UNROLL
    for (int j = 0; j < m; ++j) u[k][j][i] = line[j];
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, m, j, m) {  // along t
    if (i >= 1 && i <= n && j >= 1 && j <= n) {
      real line[m];
      WEFT_UNROLL
      for (int k = 0; k < m; ++k) line[k] = u[k][j][i];
      from_modes(v + 2 * m * m, line);
      WEFT_UNROLL
      for (int k = 1; k <= n; ++k) points[((element * n + k - 1) * n + j - 1) * n + i - 1] = line[k];
    }
  }
}
