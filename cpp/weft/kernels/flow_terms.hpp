// The element terms of the incompressible Navier-Stokes equations on elements [first, first + count), before Z^T:
//   flow_gradient         (v, dp/dx_i) = w C_i . (D_r, D_s, D_t) p
//   flow_weak_divergence  (grad q, f) = D_r^T w C_r . f + D_s^T w C_s . f + D_t^T w C_t . f
//   flow_divergence       (q, div u)
//   flow_curl             (v, curl u)
//   flow_convect_skew     ((v, u . grad f) + (v, div(u f))) / 2 on the GLL points
// C_a = J grad r_a are the cofactors of dx/dr. By summation by parts W D = E - D^T W, E picking the ends of lines, so
// div(u f) in weak form is W D W^-1 applied to the flux w C . u f: `conservative` below.
//
// A thread has a column of points along t, WEFT_TILE_ELEMENTS elements per block; layers pass through shared memory, in
// two buffers.
//
// Arrays: index [element][n^3] entry of a vector; vectors [field][stride]; out [field][out_stride] by points;
// derivative and conservative [n][n]; the metric: flow_metric.hpp.
#include "weft/kernels/flow_metric.hpp"

// A few terms of a sum at a time: enough loads under way, and few registers.
#if defined(WEFT_TARGET_GPU)
#define WEFT_UNROLL_SOME _Pragma("unroll 4")
#else
#define WEFT_UNROLL_SOME
#endif

namespace {

// What the thread of column l = j n + i of an element works on.
struct Place {
  long element;  // of all
  int e, l, i, j;
  bool live;
};
WEFT_FUNCTION Place place_of(int block, int thread, int first, int count) {
  const int e = thread / face, l = thread % face;
  return {static_cast<long>(first) + block * tile + e, e, l, l % n, l / n, block * tile + e < count};
}

constexpr int column_threads = tile * face;

struct Gradient {
  real* WEFT_RESTRICT out;
  long stride;
};
WEFT_FUNCTION void store(const Gradient& to, long p, const real (&r)[1], const real (&s)[1], const real (&t)[1],
                         const real (&c)[9]) {
  WEFT_UNROLL
  for (int i = 0; i < 3; ++i) to.out[i * to.stride + p] = c[i] * r[0] + c[3 + i] * s[0] + c[6 + i] * t[0];
}
struct Divergence {
  real* WEFT_RESTRICT out;
};
WEFT_FUNCTION void store(const Divergence& to, long p, const real (&r)[3], const real (&s)[3], const real (&t)[3],
                         const real (&c)[9]) {
  to.out[p] = dot(c, r[0], r[1], r[2]) + dot(c + 3, s[0], s[1], s[2]) + dot(c + 6, t[0], t[1], t[2]);
}
// curl u = sum_a grad r_a x du/dr_a.
struct Curl {
  real* WEFT_RESTRICT out;
  long stride;
};
WEFT_FUNCTION void store(const Curl& to, long p, const real (&r)[3], const real (&s)[3], const real (&t)[3],
                         const real (&c)[9]) {
  WEFT_UNROLL
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    to.out[i * to.stride + p] =
        c[j] * r[k] - c[k] * r[j] + c[3 + j] * s[k] - c[3 + k] * s[j] + c[6 + j] * t[k] - c[6 + k] * t[j];
  }
}

// F fields through their derivatives r, s, t at each point: store(to, point, r, s, t, weighted cofactors).
template <int F, class To>
WEFT_FUNCTION void differentiate(int block, int first, int count, const Metric& metric,
                                 const real* WEFT_RESTRICT derivative, const int* WEFT_RESTRICT index,
                                 const real* WEFT_RESTRICT x, long stride, const To& to) {
  WEFT_SHARED(real, d[n][n]);  // d[m][i] = D[i][m]
  WEFT_SHARED(real, plane[2][F][tile][face]);
  real column[WEFT_SLOTS(column_threads)][F][n];
  WEFT_THREADS(thread, column_threads) {
    if (thread < face) d[thread % n][thread / n] = derivative[thread];
    const Place p = place_of(block, thread, first, count);
    WEFT_UNROLL
    for (int k = 0; k < n; ++k) {
      const long at = p.live ? index[p.element * points + k * face + p.l] : 0;
      WEFT_UNROLL
      for (int c = 0; c < F; ++c) column[WEFT_SLOT(thread)][c][k] = p.live ? x[c * stride + at] : real(0);
    }
  }
  WEFT_NO_UNROLL
  for (int k = 0; k < n; ++k) {
    WEFT_THREADS(thread, column_threads) {
      const Place p = place_of(block, thread, first, count);
      const long at = p.live ? index[p.element * points + k * face + p.l] : 0;
      WEFT_UNROLL
      for (int c = 0; c < F; ++c) plane[k % 2][c][p.e][p.l] = p.live ? x[c * stride + at] : real(0);
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, column_threads) {
      const Place p = place_of(block, thread, first, count);
      real r[F] = {}, s[F] = {}, t[F] = {};
      WEFT_UNROLL_SOME
      for (int q = 0; q < n; ++q) {
        const real dr = d[q][p.i], ds = d[q][p.j];
        WEFT_UNROLL
        for (int c = 0; c < F; ++c) {
          r[c] += dr * plane[k % 2][c][p.e][p.j * n + q];
          s[c] += ds * plane[k % 2][c][p.e][q * n + p.i];
        }
      }
      WEFT_UNROLL
      for (int q = 0; q < n; ++q) {
        WEFT_UNROLL
        for (int c = 0; c < F; ++c) t[c] += d[q][k] * column[WEFT_SLOT(thread)][c][q];
      }
      if (p.live) {
        real c[9];
        cofactors<n>(metric, p.element, p.i, p.j, k, c);
        store(to, p.element * points + k * face + p.l, r, s, t, c);
      }
    }
  }
}

}  // namespace

WEFT_KERNEL(flow_gradient, tile* face,
            (int first, int count, Metric metric, const real* WEFT_RESTRICT derivative, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, real* WEFT_RESTRICT out, long out_stride)) {
  differentiate<1>(WEFT_BLOCK, first, count, metric, derivative, index, x, 0, Gradient{out, out_stride});
}

WEFT_KERNEL(flow_divergence, tile* face,
            (int first, int count, Metric metric, const real* WEFT_RESTRICT derivative, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, long stride, real* WEFT_RESTRICT out)) {
  differentiate<3>(WEFT_BLOCK, first, count, metric, derivative, index, x, stride, Divergence{out});
}

WEFT_KERNEL(flow_curl, tile* face,
            (int first, int count, Metric metric, const real* WEFT_RESTRICT derivative, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, long stride, real* WEFT_RESTRICT out, long out_stride)) {
  differentiate<3>(WEFT_BLOCK, first, count, metric, derivative, index, x, stride, Curl{out, out_stride});
}

// A thread's own column of the fluxes along t waits in shared memory.
WEFT_KERNEL(flow_weak_divergence, tile* face,
            (int first, int count, Metric metric, const real* WEFT_RESTRICT derivative, const int* WEFT_RESTRICT index,
             const real* WEFT_RESTRICT x, long stride, real* WEFT_RESTRICT out)) {
  WEFT_SHARED(real, d[n][n]);  // D
  WEFT_SHARED(real, along_t[tile][n][face]);
  WEFT_SHARED(real, plane[2][2][tile][face]);
  WEFT_THREADS(thread, tile * face) {
    if (thread < face) d[thread / n][thread % n] = derivative[thread];
    const Place p = place_of(WEFT_BLOCK, thread, first, count);
    WEFT_NO_UNROLL
    for (int k = 0; k < n; ++k) {
      real flux = 0;
      if (p.live) {
        const long at = index[p.element * points + k * face + p.l];
        real c[9];
        cofactors<n>(metric, p.element, p.i, p.j, k, c);
        flux = dot(c + 6, x[at], x[stride + at], x[2 * stride + at]);
      }
      along_t[p.e][k][p.l] = flux;
    }
  }
  WEFT_NO_UNROLL
  for (int k = 0; k < n; ++k) {
    WEFT_THREADS(thread, tile * face) {
      const Place p = place_of(WEFT_BLOCK, thread, first, count);
      if (p.live) {
        const long at = index[p.element * points + k * face + p.l];
        const real u = x[at], v = x[stride + at], w = x[2 * stride + at];
        real c[9];
        cofactors<n>(metric, p.element, p.i, p.j, k, c);
        plane[k % 2][0][p.e][p.l] = dot(c, u, v, w);
        plane[k % 2][1][p.e][p.l] = dot(c + 3, u, v, w);
      }
    }
    WEFT_BARRIER();
    WEFT_THREADS(thread, tile * face) {
      const Place p = place_of(WEFT_BLOCK, thread, first, count);
      if (p.live) {
        real sum = 0;
        WEFT_UNROLL
        for (int q = 0; q < n; ++q)
          sum += d[q][p.i] * plane[k % 2][0][p.e][p.j * n + q] + d[q][p.j] * plane[k % 2][1][p.e][q * n + p.i] +
                 d[q][k] * along_t[p.e][q][p.l];
        out[p.element * points + k * face + p.l] = sum;
      }
    }
  }
}

WEFT_KERNEL(flow_convect_skew, tile* face,
            (int first, int count, Metric metric, const real* WEFT_RESTRICT derivative,
             const real* WEFT_RESTRICT conservative, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT u,
             const real* WEFT_RESTRICT fields, int field_count, long stride, real* WEFT_RESTRICT out,
             long out_stride)) {
  WEFT_SHARED(real, d[n][n]);   // d[m][i] = D[i][m]
  WEFT_SHARED(real, dc[n][n]);  // of the conservative form, in the same way
  WEFT_SHARED(real, along_t[tile][n][face]);
  WEFT_SHARED(real, plane[2][3][tile][face]);  // f, its fluxes along r and s
  real column[WEFT_SLOTS(tile * face)][n];
  WEFT_THREADS(thread, tile * face) {
    if (thread < face) {
      d[thread % n][thread / n] = derivative[thread];
      dc[thread % n][thread / n] = conservative[thread];
    }
  }
  for (int field = 0; field < field_count; ++field) {
    const real* WEFT_RESTRICT f = fields + field * stride;
    WEFT_THREADS(thread, tile * face) {
      const Place p = place_of(WEFT_BLOCK, thread, first, count);
      WEFT_UNROLL
      for (int k = 0; k < n; ++k)
        column[WEFT_SLOT(thread)][k] = p.live ? f[index[p.element * points + k * face + p.l]] : real(0);
      WEFT_NO_UNROLL
      for (int k = 0; k < n; ++k) {
        real flux = 0;
        if (p.live) {
          const long at = index[p.element * points + k * face + p.l];
          real c[9];
          cofactors<n>(metric, p.element, p.i, p.j, k, c);
          flux = f[at] * dot(c + 6, u[at], u[stride + at], u[2 * stride + at]);
        }
        along_t[p.e][k][p.l] = flux;
      }
    }
    WEFT_NO_UNROLL
    for (int k = 0; k < n; ++k) {
      const int buffer = (field * n + k) % 2;
      real velocity[WEFT_SLOTS(tile * face)][3];
      WEFT_THREADS(thread, tile * face) {
        const Place p = place_of(WEFT_BLOCK, thread, first, count);
        if (p.live) {
          const long at = index[p.element * points + k * face + p.l];
          const real x = u[at], y = u[stride + at], z = u[2 * stride + at], own = f[at];
          real c[9];
          cofactors<n>(metric, p.element, p.i, p.j, k, c);
          WEFT_UNROLL
          for (int a = 0; a < 3; ++a) velocity[WEFT_SLOT(thread)][a] = dot(c + 3 * a, x, y, z);
          plane[buffer][0][p.e][p.l] = own;
          plane[buffer][1][p.e][p.l] = velocity[WEFT_SLOT(thread)][0] * own;
          plane[buffer][2][p.e][p.l] = velocity[WEFT_SLOT(thread)][1] * own;
        }
      }
      WEFT_BARRIER();
      WEFT_THREADS(thread, tile * face) {
        const Place p = place_of(WEFT_BLOCK, thread, first, count);
        if (p.live) {
          real r = 0, s = 0, t = 0, flux = 0;
          WEFT_UNROLL
          for (int q = 0; q < n; ++q) {
            r += d[q][p.i] * plane[buffer][0][p.e][p.j * n + q];
            s += d[q][p.j] * plane[buffer][0][p.e][q * n + p.i];
            t += d[q][k] * column[WEFT_SLOT(thread)][q];
            flux += dc[q][p.i] * plane[buffer][1][p.e][p.j * n + q] + dc[q][p.j] * plane[buffer][2][p.e][q * n + p.i] +
                    dc[q][k] * along_t[p.e][q][p.l];
          }
          const real* velocity_here = velocity[WEFT_SLOT(thread)];
          out[field * out_stride + p.element * points + k * face + p.l] =
              real(0.5) * (dot(velocity_here, r, s, t) + flux);
        }
      }
    }
  }
}
