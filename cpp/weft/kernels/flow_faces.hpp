// nu (n x grad q, omega) on element sides at boundaries of prescribed velocity: the contribution of curl curl u to the
// pressure's Neumann condition, integrated by parts along the closed boundary (Johnston and Liu 2004, Eq. 14).
//
// One block per side, one thread per point (a, b) of it. With the tangents x_a, x_b and n dA = s (x_a x x_b) da db, (n
// x grad q) dA = s (x_b dq/da - x_a dq/db): q is differentiated only along the side.
//
// Arrays: index [side][n^3], the entries of the element's points, [layer away from the side][b][a]; metric
// [side][9][n^2]: dr/dx, dr/dy, dr/dz for the inward direction r, then for a and b; tangents [side][6][n^2]: s w x_b,
// then -s w x_a, with the quadrature weight w; derivative [n][n] row-major. y [side][n^2].
#include "weft/kernels/dialect.hpp"

namespace {

using real = WEFT_REAL;
constexpr int n = WEFT_N + 1;
constexpr int points = n * n;

}  // namespace

WEFT_KERNEL(flow_wall_vorticity, points,
            (int stride, real viscosity, const real* WEFT_RESTRICT derivative, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT metric, const real* WEFT_RESTRICT tangents, const real* WEFT_RESTRICT u,
             real* WEFT_RESTRICT y)) {
  WEFT_SHARED(real, d[n][n]);
  WEFT_SHARED(real, face[3][n][n]);
  WEFT_SHARED(real, ga[n][n]);
  WEFT_SHARED(real, gb[n][n]);
  real inward[WEFT_SLOTS(points)][3];

  WEFT_THREADS_2D(a, n, b, n) {
    d[b][a] = derivative[b * n + a];
    for (int c = 0; c < 3; ++c) {
      real sum = 0;
      WEFT_UNROLL
      for (int m = 0; m < n; ++m) {
        const long entry = index[(static_cast<long>(WEFT_BLOCK) * n + m) * points + b * n + a];
        const real value = u[static_cast<long>(c) * stride + entry];
        if (m == 0) face[c][b][a] = value;
        sum += derivative[m] * value;
      }
      inward[WEFT_SLOT(b * n + a)][c] = sum;
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(a, n, b, n) {
    real along[3][3];  // [direction][component]
    WEFT_UNROLL
    for (int c = 0; c < 3; ++c) {
      real da = 0, db = 0;
      WEFT_UNROLL
      for (int m = 0; m < n; ++m) {
        da += d[a][m] * face[c][b][m];
        db += d[b][m] * face[c][m][a];
      }
      along[0][c] = inward[WEFT_SLOT(b * n + a)][c];
      along[1][c] = da;
      along[2][c] = db;
    }
    const real* g = metric + static_cast<long>(WEFT_BLOCK) * 9 * points + b * n + a;
    const real* x = tangents + static_cast<long>(WEFT_BLOCK) * 6 * points + b * n + a;
    // du_c/dx_j
    real slope[3][3];
    WEFT_UNROLL
    for (int j = 0; j < 3; ++j) {
      WEFT_UNROLL
      for (int c = 0; c < 3; ++c)
        slope[c][j] =
            g[j * points] * along[0][c] + g[(3 + j) * points] * along[1][c] + g[(6 + j) * points] * along[2][c];
    }
    const real wx = viscosity * (slope[2][1] - slope[1][2]), wy = viscosity * (slope[0][2] - slope[2][0]),
               wz = viscosity * (slope[1][0] - slope[0][1]);
    ga[b][a] = x[0] * wx + x[points] * wy + x[2 * points] * wz;
    gb[b][a] = x[3 * points] * wx + x[4 * points] * wy + x[5 * points] * wz;
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(a, n, b, n) {
    real sum = 0;
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) sum += d[m][a] * ga[b][m] + d[m][b] * gb[m][a];
    y[static_cast<long>(WEFT_BLOCK) * points + b * n + a] = sum;
  }
}
