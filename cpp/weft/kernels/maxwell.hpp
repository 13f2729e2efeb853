// Maxwell's equations on the elements of a rank, spectral-element discontinuous Galerkin on GLL points (NekCEM):
//   maxwell_traces   -n x H and -n x E at face points, what the exchange adds across faces (Eqs. 6 and 7)
//   maxwell_curl_*   residual <- a residual + dt (curl H / eps - sigma E / eps, -curl E / mu): Algorithms 2 and 3 in
//   one
//                    kernel, nothing of u_r, u_s, u_t is stored
//   maxwell_update   residual += dt (lift of the fluxes, Eqs. 4 and 5), fields += b residual
//   maxwell_energy   partial sums of the energy
//
// The chain rule is taken in covariant components: with x_d = dx/dr_d, h_d = H . x_d and J = x_r . (x_s x x_t),
//   J curl H = x_r (D_s h_t - D_t h_s) + x_s (D_t h_r - D_r h_t) + x_t (D_r h_s - D_s h_r),
// 12 derivatives instead of 18. A constant field has h_d = D_d (H . x), and D_s D_t = D_t D_s: free streams are kept on
// any curved element. By summation by parts, sum w J (E . curl H - H . curl E) is a sum over faces of
// w (x_a x x_b) . (H x E): with the same normals in the fluxes the energy is kept, or dissipated, to rounding.
//
// Arrays: fields and residual [element][6][n^3], Ex Ey Ez Hx Hy Hz; jacobian [element][9][n^3]: x_r, x_s, x_t of x, y,
// z each; face_geometry [element][6][4][n^2]: unit outward normal, ratio of the area element to w_0 J; traces:
// component c of face point p, p as in [element][6][n^2], at p * trace_entry + c * trace_field; media [element][4]: 1 /
// eps, 1 / mu, sigma / eps, 0; fluxes [element][6][4], see `lift`; derivative [n][n].
#include "weft/kernels/block_sum.hpp"
#include "weft/kernels/blocks.hpp"
#include "weft/kernels/element.hpp"
#include "weft/kernels/launch_shared.hpp"
#include "weft/kernels/memory_hints.hpp"

namespace {

constexpr int line_threads = 256;
constexpr int line_chunk = 1024;  // items per block in kernels that are not organised by element

// The position within the element of point q = b n + a of a face.
WEFT_FUNCTION int face_point(int side, int q) {
  const int a = q % n, b = q / n, end = side % 2 * (n - 1);
  return side < 2 ? (b * n + a) * n + end : side < 4 ? (b * n + end) * n + a : (end * n + b) * n + a;
}

// The frame x_r, x_s, x_t of a point.
struct Frame {
  real r[3], s[3], t[3];
};
WEFT_FUNCTION Frame frame_at(const real* WEFT_RESTRICT jacobian, long element, int p) {
  const real* g = jacobian + element * (9 * points) + p;
  return {{g[0], g[points], g[2 * points]},
          {g[3 * points], g[4 * points], g[5 * points]},
          {g[6 * points], g[7 * points], g[8 * points]}};
}
WEFT_FUNCTION real determinant(const Frame& x) {
  return x.r[0] * (x.s[1] * x.t[2] - x.s[2] * x.t[1]) + x.r[1] * (x.s[2] * x.t[0] - x.s[0] * x.t[2]) +
         x.r[2] * (x.s[0] * x.t[1] - x.s[1] * x.t[0]);
}
WEFT_FUNCTION real dot(const real (&a)[3], real x, real y, real z) { return a[0] * x + a[1] * y + a[2] * z; }

// residual <- a residual + dt rate; if a = 0, the old residual is not used and may be NaN.
WEFT_FUNCTION void accumulate(real* residual, real a, real dt, real rate) {
  *residual = (a == real(0) ? real(0) : a * *residual) + dt * rate;
}

// Updates the residual of a point from the contravariant curls, which are J times too large.
WEFT_FUNCTION void store_rates(const Frame& x, const real (&curl_h)[3], const real (&curl_e)[3],
                               const real* WEFT_RESTRICT media, real a, real dt, const real* WEFT_RESTRICT field,
                               real* WEFT_RESTRICT residual) {
  const real inverse = real(1) / determinant(x);
  const real e = inverse * media[0], h = -inverse * media[1], loss = media[2];
  WEFT_UNROLL
  for (int c = 0; c < 3; ++c) {
    const real own = loss == real(0) ? real(0) : loss * field[c * points];
    accumulate(residual + c * points, a, dt, e * (x.r[c] * curl_h[0] + x.s[c] * curl_h[1] + x.t[c] * curl_h[2]) - own);
    accumulate(residual + (3 + c) * points, a, dt, h * (x.r[c] * curl_e[0] + x.s[c] * curl_e[1] + x.t[c] * curl_e[2]));
  }
}

}  // namespace

WEFT_KERNEL(maxwell_traces, line_threads,
            (long count, const real* WEFT_RESTRICT face_geometry, const real* WEFT_RESTRICT fields,
             real* WEFT_RESTRICT traces, long trace_entry, long trace_field)) {
  for (int first = 0; first < line_chunk; first += line_threads) {
    WEFT_THREADS(thread, line_threads) {
      const long at = static_cast<long>(WEFT_BLOCK) * line_chunk + first + thread;
      if (at < count) {
        const long side = at / face, element = side / 6;
        const int q = static_cast<int>(at % face);
        const real* g = face_geometry + side * (4 * face) + q;
        const real x = g[0], y = g[face], z = g[2 * face];
        const real* u = fields + element * (6 * points) + face_point(static_cast<int>(side % 6), q);
        const real e[3] = {u[0], u[points], u[2 * points]};
        const real h[3] = {u[3 * points], u[4 * points], u[5 * points]};
        real* out = traces + at * trace_entry;
        out[0 * trace_field] = z * h[1] - y * h[2];
        out[1 * trace_field] = x * h[2] - z * h[0];
        out[2 * trace_field] = y * h[0] - x * h[1];
        out[3 * trace_field] = z * e[1] - y * e[2];
        out[4 * trace_field] = x * e[2] - z * e[0];
        out[5 * trace_field] = y * e[0] - x * e[1];
      }
    }
  }
}

// A few terms of a sum at a time: enough loads in flight, with few registers.
#if defined(WEFT_TARGET_GPU)
#define WEFT_UNROLL_SOME _Pragma("unroll 2")
#else
#define WEFT_UNROLL_SOME
#endif

#if !defined(WEFT_TARGET_GPU) || WEFT_N <= 7                                    // 512 threads per block
constexpr int points_budget = sm_100 && n == 5 && sizeof(real) == 8 ? 80 : 64;  // registers per thread

// One thread per point; shared arrays hold the covariant components. On a GPU, the frame of a point is read again from
// the L1 cache after the barrier: this saves 18 registers in double precision, so that two blocks fit.
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<tile * points, points_budget>)
WEFT_KERNEL(maxwell_curl_points, tile* points,
            (int count, const real* WEFT_RESTRICT derivative, const real* WEFT_RESTRICT jacobian,
             const real* WEFT_RESTRICT media, real a, real dt, const real* WEFT_RESTRICT fields,
             real* WEFT_RESTRICT residual)) {
  WEFT_SHARED(real, d[n][n]);  // d[m][i] = D[i][m]
  WEFT_SHARED(real, er[tile * face][n]);
  WEFT_SHARED(real, es[tile * face][n]);
  WEFT_SHARED(real, et[tile * face][n]);
  WEFT_SHARED(real, hr[tile * face][n]);
  WEFT_SHARED(real, hs[tile * face][n]);
  WEFT_SHARED(real, ht[tile * face][n]);
  Frame frames[WEFT_SLOTS(tile * points)];

  WEFT_THREADS_2D(i, n, q, tile * face) {
    if (q < n) d[i][q] = derivative[q * n + i];
    const int p = q % face * n + i;
    const long element = WEFT_BLOCK * tile + q / face;
    if (element < count) {
      const Frame x = frame_at(jacobian, element, p);
      const real* u = fields + element * (6 * points) + p;
      const real e[3] = {u[0], u[points], u[2 * points]};
      const real h[3] = {u[3 * points], u[4 * points], u[5 * points]};
      er[q][i] = dot(x.r, e[0], e[1], e[2]);
      es[q][i] = dot(x.s, e[0], e[1], e[2]);
      et[q][i] = dot(x.t, e[0], e[1], e[2]);
      hr[q][i] = dot(x.r, h[0], h[1], h[2]);
      hs[q][i] = dot(x.s, h[0], h[1], h[2]);
      ht[q][i] = dot(x.t, h[0], h[1], h[2]);
      frames[WEFT_SLOT(q * n + i)] = x;
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS_2D(i, n, q, tile * face) {
    const int e = q / face, k = q / n % n, j = q % n;
    const long element = WEFT_BLOCK * tile + e;
    if (element < count) {
      const int layer = q - j, column = e * face + j;
      real h_rs = 0, h_rt = 0, h_sr = 0, h_st = 0, h_tr = 0, h_ts = 0;  // D_s h_r, D_t h_r, D_r h_s, …
      real e_rs = 0, e_rt = 0, e_sr = 0, e_st = 0, e_tr = 0, e_ts = 0;
      WEFT_UNROLL_SOME
      for (int m = 0; m < n; ++m) {
        const real dr = d[m][i], ds = d[m][j], dt_ = d[m][k];
        h_sr += dr * hs[q][m];
        h_tr += dr * ht[q][m];
        h_rs += ds * hr[layer + m][i];
        h_ts += ds * ht[layer + m][i];
        h_rt += dt_ * hr[column + m * n][i];
        h_st += dt_ * hs[column + m * n][i];
        e_sr += dr * es[q][m];
        e_tr += dr * et[q][m];
        e_rs += ds * er[layer + m][i];
        e_ts += ds * et[layer + m][i];
        e_rt += dt_ * er[column + m * n][i];
        e_st += dt_ * es[column + m * n][i];
      }
      const real curl_h[3] = {h_ts - h_st, h_rt - h_tr, h_sr - h_rs};
      const real curl_e[3] = {e_ts - e_st, e_rt - e_tr, e_sr - e_rs};
      const long at = element * (6 * points) + q % face * n + i;
#if defined(WEFT_TARGET_GPU)
      const Frame x = frame_at(jacobian, element, q % face * n + i);
#else
      const Frame& x = frames[WEFT_SLOT(q * n + i)];
#endif
      store_rates(x, curl_h, curl_e, media + element * 4, a, dt, fields + at, residual + at);
    }
  }
}
#endif
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS 1

namespace {

// Passed to the kernel by value, so that its entries are constants in the instructions: [n][n].
struct Matrix {
  real d[256];
};
constexpr int pitch = n | 1;
constexpr int column_threads = 2 * tile * face;
constexpr int column_registers = sizeof(real) == 4 ? 72 : n == 9 ? 96 : 128;  // per thread
constexpr int column_blocks = blocks_for<column_threads, column_registers>;

// Prefetches a layer of the frames and fields of an element, one line per thread.
WEFT_FUNCTION void prefetch_layer(const real* jacobian, const real* fields, int element, int layer, int thread) {
  constexpr int lines = (face - 1) * static_cast<int>(sizeof(real)) / line_bytes + 2;
  const int which = thread / lines;
  if (which < 15) {
    const real* values =
        which < 9 ? jacobian + (element * 9l + which) * points : fields + (element * 6l + which - 9) * points;
    prefetch_lines<face, lines>(values + layer * face, thread % lines);
  }
}

}  // namespace

// One thread per field, E or H, and column of points along t: components to be differentiated along t stay in its
// registers; layers pass through shared memory one by one, in two buffers. The component along t is set aside in shared
// memory, where a launch can give enough. Layers are differentiated in the opposite order to that in which they are
// read, so that the frames needed again are those read last, which caches still hold. Few blocks fit on a
// multiprocessor: each also prefetches the first layers of the element of the block that takes its place.
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS column_blocks
WEFT_KERNEL(maxwell_curl_columns, column_threads,
            (int count, Matrix derivative, const real* WEFT_RESTRICT jacobian, const real* WEFT_RESTRICT media, real a,
             real dt, const real* WEFT_RESTRICT fields, real* WEFT_RESTRICT residual)) {
  WEFT_SHARED(real, d[n][pitch]);  // d[m][i] = D[i][m]
  WEFT_SHARED(real, planes[2][3][2 * tile * n][pitch]);
  using Row = real[column_threads];
  Row* const stash = weft_launch_shared<Row>();
  real r[WEFT_SLOTS(column_threads)][n], s[WEFT_SLOTS(column_threads)][n], t[WEFT_SLOTS(column_threads)][n];

  WEFT_THREADS(thread, column_threads) {
    if (thread < face) d[thread % n][thread / n] = derivative.d[thread];
    const int field = WEFT_BLOCK * (2 * tile) + thread / face, element = field / 2;
    WEFT_UNROLL
    for (int k = 0; k < n; ++k) {
      real along[3] = {};
      if (element < count) {
        const int p = k * face + thread % face;
        const Frame x = frame_at(jacobian, element, p);
        const real* u = fields + static_cast<long>(field) * (3 * points) + p;
        const real values[3] = {u[0], u[points], u[2 * points]};
        along[0] = dot(x.r, values[0], values[1], values[2]);
        along[1] = dot(x.s, values[0], values[1], values[2]);
        along[2] = dot(x.t, values[0], values[1], values[2]);
      }
      r[WEFT_SLOT(thread)][k] = along[0];
      s[WEFT_SLOT(thread)][k] = along[1];
      (weft_has_launch_shared ? stash[k][thread] : t[WEFT_SLOT(thread)][k]) = along[2];
    }
  }
  WEFT_UNROLL
  for (int k = n - 1; k >= 0; --k) {
    WEFT_THREADS(thread, column_threads) {
      const int i = thread % n, row = thread / n;
      planes[k % 2][0][row][i] = r[WEFT_SLOT(thread)][k];
      planes[k % 2][1][row][i] = s[WEFT_SLOT(thread)][k];
      planes[k % 2][2][row][i] = weft_has_launch_shared ? stash[k][thread] : t[WEFT_SLOT(thread)][k];
      const int next = (WEFT_BLOCK + column_blocks * multiprocessors) * tile;
      if (column_blocks < 3 && k < n / 2 && next < count) prefetch_layer(jacobian, fields, next, n / 2 - 1 - k, thread);
    }
    WEFT_BARRIER();
    WEFT_THREADS(index, column_threads) {
      const int thread = weft_anew(index);  // less is kept in registers from layer to layer
      const int i = thread % n, row = thread / n, j = row % n, first = row - j;
      const int field = WEFT_BLOCK * (2 * tile) + thread / face, element = field / 2;
      if (element < count) {
        const int p = k * face + thread % face;
        // Loaded before the derivatives are taken, so that latencies overlap with this work.
        const Frame x = frame_at(weft_anew(jacobian), element, p);
        const bool of_h = field % 2 == 1;  // its curl changes E
        const long other = static_cast<long>(field ^ 1) * (3 * points) + p;
        real before[3] = {};
        if (a != real(0)) {
          WEFT_UNROLL
          for (int c = 0; c < 3; ++c) before[c] = a * residual[other + c * points];
        }
        real curl[3] = {};
        WEFT_UNROLL
        for (int m = 0; m < n; ++m) {
          const real along_t = derivative.d[k * n + m];
          curl[0] -= along_t * s[WEFT_SLOT(thread)][m];
          curl[1] += along_t * r[WEFT_SLOT(thread)][m];
        }
        WEFT_NO_UNROLL
        for (int m = 0; m < n; ++m) {
          const real along_r = d[m][i], along_s = d[m][j];
          curl[0] += along_s * planes[k % 2][2][first + m][i];
          curl[1] -= along_r * planes[k % 2][2][row][m];
          curl[2] += along_r * planes[k % 2][1][row][m];
          curl[2] -= along_s * planes[k % 2][0][first + m][i];
        }
        const real* constants = weft_anew(media) + element * 4;
        const real scale = (of_h ? constants[0] : -constants[1]) / determinant(x);
        const real loss = of_h ? constants[2] : real(0);
        WEFT_UNROLL
        for (int c = 0; c < 3; ++c) {
          const real rate = scale * (x.r[c] * curl[0] + x.s[c] * curl[1] + x.t[c] * curl[2]);
          const real lost = loss == real(0) ? real(0) : loss * fields[other + c * points];
          residual[other + c * points] = before[c] + dt * (rate - lost);
        }
      }
    }
  }
}
WEFT_LAUNCH_SHARED(maxwell_curl_columns,
                   weft_has_launch_shared ? n * column_threads * static_cast<int>(sizeof(real)) : 0);
#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS 1

namespace {

// What a face adds to the rates of one of its points. With the sums of the two sides S_H = -n x {H}, S_E = -n x {E} and
// the impedances Z, Z+ of the two sides, the upwind flux of jumping media (Hesthaven and Warburton 2008, 6.5; Eqs. 4
// and 5 where Z = Z+ = 1) is
//   n x (H* - H) = (Z+ S_H - alpha n x S_E) / (Z + Z+)
//   n x (E* - E) = (Z S_E + alpha Z Z+ n x S_H) / (Z + Z+)
// and central for alpha = 0. fluxes: the four factors, with 1 / eps and 1 / mu, and with what a boundary makes of its
// own trace (a mirrored field doubles one sum and empties the other, an absorbing boundary leaves both).
WEFT_FUNCTION void lift(long element, int side, int q, const real* WEFT_RESTRICT face_geometry,
                        const real* WEFT_RESTRICT fluxes, const real* WEFT_RESTRICT traces, long trace_entry,
                        long trace_field, real (&rate)[6]) {
  const real* g = face_geometry + (element * 6 + side) * (4 * face) + q;
  const real* f = fluxes + (element * 6 + side) * 4;
  const real* trace = traces + ((element * 6 + side) * face + q) * trace_entry;
  real s[6];
  WEFT_UNROLL
  for (int c = 0; c < 6; ++c) s[c] = trace[c * trace_field];
  const real x = g[0], y = g[face], z = g[2 * face], scale = g[3 * face];
  const real hh = scale * f[0], he = scale * f[1], ee = scale * f[2], eh = scale * f[3];
  rate[0] += hh * s[0] - he * (y * s[5] - z * s[4]);
  rate[1] += hh * s[1] - he * (z * s[3] - x * s[5]);
  rate[2] += hh * s[2] - he * (x * s[4] - y * s[3]);
  rate[3] -= ee * s[3] + eh * (y * s[2] - z * s[1]);
  rate[4] -= ee * s[4] + eh * (z * s[0] - x * s[2]);
  rate[5] -= ee * s[5] + eh * (x * s[1] - y * s[0]);
}

constexpr bool fields_early = sizeof(real) == 4 || sm_100;

}  // namespace

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS (blocks_for<line_threads, (sm_100 ? 96 : 80)>)

// fields may be null: then only the residual is updated.
WEFT_KERNEL(maxwell_update, line_threads,
            (long count, const real* WEFT_RESTRICT face_geometry, const real* WEFT_RESTRICT fluxes,
             const real* WEFT_RESTRICT traces, long trace_entry, long trace_field, real dt, real b,
             real* WEFT_RESTRICT fields, real* WEFT_RESTRICT residual)) {
  for (int first = 0; first < line_chunk; first += line_threads) {
    WEFT_THREADS(thread, line_threads) {
      const long at = static_cast<long>(WEFT_BLOCK) * line_chunk + first + thread;
      if (at < count) {
        const long element = at / points;
        const int p = static_cast<int>(at % points);
        const int i = p % n, j = p / n % n, k = p / face;
        const bool r = i == 0 || i == n - 1, s = j == 0 || j == n - 1, t = k == 0 || k == n - 1;
        // Loaded before the values of the faces, so that memory latencies overlap; the fields too if there are enough
        // registers.
        real* own = residual + element * (6 * points) + p;
        real* field = fields + element * (6 * points) + p;
        real values[6], before[6] = {};
        WEFT_UNROLL
        for (int c = 0; c < 6; ++c) values[c] = own[c * points];
        if (fields_early && fields != nullptr) {
          WEFT_UNROLL
          for (int c = 0; c < 6; ++c) before[c] = field[c * points];
        }
        real rate[6] = {};
        if (r) lift(element, i == 0 ? 0 : 1, k * n + j, face_geometry, fluxes, traces, trace_entry, trace_field, rate);
        if (s) lift(element, j == 0 ? 2 : 3, k * n + i, face_geometry, fluxes, traces, trace_entry, trace_field, rate);
        if (t) lift(element, k == 0 ? 4 : 5, j * n + i, face_geometry, fluxes, traces, trace_entry, trace_field, rate);
        if (r || s || t) {
          WEFT_UNROLL
          for (int c = 0; c < 6; ++c) own[c * points] = values[c] += dt * rate[c];
        }
        if (fields != nullptr) {
          WEFT_UNROLL
          for (int c = 0; c < 6; ++c)
            field[c * points] = (fields_early ? before[c] : field[c * points]) + b * values[c];
        }
      }
    }
  }
}

#undef WEFT_MIN_BLOCKS
#define WEFT_MIN_BLOCKS 1

// partials[block][2] = sums of w J eps E . E and w J mu H . H over the block's points, in double. weights: [n].
WEFT_KERNEL(maxwell_energy, line_threads,
            (long count, const real* WEFT_RESTRICT weights, const real* WEFT_RESTRICT jacobian,
             const real* WEFT_RESTRICT media, const real* WEFT_RESTRICT fields, double* WEFT_RESTRICT partials)) {
  WEFT_SHARED(double, electric[line_threads]);
  WEFT_SHARED(double, magnetic[line_threads]);
  double e[WEFT_SLOTS(line_threads)] = {}, h[WEFT_SLOTS(line_threads)] = {};
  for (int first = 0; first < line_chunk; first += line_threads) {
    WEFT_THREADS(thread, line_threads) {
      const long at = static_cast<long>(WEFT_BLOCK) * line_chunk + first + thread;
      if (at < count) {
        const long element = at / points;
        const int p = static_cast<int>(at % points);
        const double mass = static_cast<double>(weights[p % n] * weights[p / n % n] * weights[p / face]) *
                            static_cast<double>(determinant(frame_at(jacobian, element, p)));
        const real* u = fields + element * (6 * points) + p;
        double squares[2] = {0, 0};
        WEFT_UNROLL
        for (int c = 0; c < 6; ++c)
          squares[c / 3] += static_cast<double>(u[c * points]) * static_cast<double>(u[c * points]);
        e[WEFT_SLOT(thread)] += mass * squares[0] / static_cast<double>(media[element * 4]);
        h[WEFT_SLOT(thread)] += mass * squares[1] / static_cast<double>(media[element * 4 + 1]);
      }
    }
  }
  block_sum<line_threads>(e, electric, partials + 2 * WEFT_BLOCK);
  block_sum<line_threads>(h, magnetic, partials + 2 * WEFT_BLOCK + 1);
}
