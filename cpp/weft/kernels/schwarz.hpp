// Local solves of an overlapping Schwarz method by fast diagonalisation (Lottes and Fischer, J. Sci. Comput. 24, 2005).
//
// A subdomain is an element of n = WEFT_N + 1 points per direction with one more layer of points beyond each face,
// those of the neighbours; there is nothing beyond its edges. A thread has a line of m = n + 2 points.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int n = WEFT_N + 1;
constexpr int m = n + 2;
constexpr int line_threads = m * m;

// A line u of m values, `stride` apart in the block's memory and the thread's own: to modes, u = V^T u, or from them,
// u = V u. The sums are registers, the line is not: both in registers spill from order 4 on.
template <bool to_modes>
WEFT_FUNCTION void change(const real* WEFT_RESTRICT v, real* u, int stride) {
  constexpr int in_stride = to_modes ? m : 1, out_stride = to_modes ? 1 : m;
  real sum[m];
  WEFT_UNROLL
  for (int a = 0; a < m; ++a) sum[a] = 0;
  WEFT_NO_UNROLL
  for (int k = 0; k < m; ++k) {
    const real x = u[k * stride];
    WEFT_UNROLL
    for (int a = 0; a < m; ++a) sum[a] += v[k * in_stride + a * out_stride] * x;
  }
  WEFT_UNROLL
  for (int a = 0; a < m; ++a) u[a * stride] = sum[a];
}
WEFT_FUNCTION void to_modes(const real* WEFT_RESTRICT v, real* u, int stride) { change<true>(v, u, stride); }
WEFT_FUNCTION void from_modes(const real* WEFT_RESTRICT v, real* u, int stride) { change<false>(v, u, stride); }

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
    WEFT_NO_UNROLL
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
      u[k][j][i] = value;
    }
    to_modes(v + 2 * m * m, &u[0][j][i], m * m);
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, m, k, m) { to_modes(v + m * m, &u[k][0][i], m); }  // along s
  WEFT_BARRIER();
  WEFT_THREADS_2D(j, m, k, m) {  // along r and back
    to_modes(v, u[k][j], 1);
    const real two = lambda[m + j] + lambda[2 * m + k];
    WEFT_NO_UNROLL
    for (int i = 0; i < m; ++i) {
      const real sum = lambda[i] + two;
      u[k][j][i] = sum > 0 ? u[k][j][i] / sum : real(0);
    }
    from_modes(v, u[k][j], 1);
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, m, k, m) { from_modes(v + m * m, &u[k][0][i], m); }  // along s
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, m, j, m) {  // along t
    if (i >= 1 && i <= n && j >= 1 && j <= n) {
      from_modes(v + 2 * m * m, &u[0][j][i], m * m);
      WEFT_NO_UNROLL
      for (int k = 1; k <= n; ++k) points[((element * n + k - 1) * n + j - 1) * n + i - 1] = u[k][j][i];
    }
  }
}
