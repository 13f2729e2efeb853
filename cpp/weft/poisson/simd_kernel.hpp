// The arithmetic of a block of elements, one element per vector lane: y_L = S_L u by sum factorisation.
//
// A block is processed in three passes, so that only two of its arrays, U and Q, are in the second-level cache:
//   columns in t: u read from the vector into U; Q = d u / dt
//   planes k:     d/dr and d/ds, the metric, their transposes: U = (d/dr)^T f_r + (d/ds)^T f_s, Q = f_t
//   columns in t: U + (d/dt)^T Q added to the vector
// For elements with right angles, S = K_r + K_s + K_t, where each matrix acts along one direction:
//   columns in t: u read into U
//   planes k:     Q = K_r u + K_s u
//   columns in t: Q + K_t u added to the vector
// A sweep (simd_sweep.hpp) defines what reading and adding do.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/mesh/shape.hpp"
#include "weft/simd/ahead.hpp"
#include "weft/simd/between_points.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/block_index.hpp"
#include "weft/space/columns.hpp"
#include "weft/space/vec3.hpp"

namespace weft::poisson {

using simd::contract;
using simd::load;
using simd::Vec;
using space::cube;
using space::Vec3;

// For at most as many vectors as a CG iteration with a preconditioner reads.
template <class T>
using Ahead = simd::Ahead<T, 5>;

// The cache into which the entries of the next block are prefetched: the first if they fit into it.
template <int n>
inline constexpr int ahead_cache = n <= 4 ? 1 : 2;

template <class T>
struct SimdElements;

// The middle pass: derivatives within the planes of a block, and the metric.
template <class T>
using PlanesOfBlock = void (*)(const SimdElements<T>&, std::int64_t block, Ahead<T>&, Vec<T>* U, Vec<T>* Q);

template <class T>
struct PlanesByShape {
  PlanesOfBlock<T> affine, trilinear, stored;  // boxes: box_planes()
  PlanesOfBlock<T> of(mesh::Shape shape) const {
    return shape == mesh::Shape::affine ? affine : shape == mesh::Shape::trilinear ? trilinear : stored;
  }
};

// Views. n = order + 1, lanes = simd::lanes<T>; arrays that begin with [blocks] are aligned to a vector.
template <class T>
struct SimdElements {
  space::BlockIndex blocks;
  const T* forward;            // D by even and odd parts, for simd::contract()
  const T* transposed;         // D^T in the same form
  const T* stiffness;          // D^T diag(weights) D in the form of between_points.hpp
  const T* points;             // [n] GLL
  const T* weights;            // [n]
  const T* factors;            // [stored blocks][n^3][6][lanes]
  const std::int32_t* stored;  // [blocks]: position among the stored blocks
  const T* maps;               // [blocks][8][3][lanes]: of the trilinear maps of other blocks (mesh/trilinear.hpp)
  const mesh::Shape* shapes;   // [blocks]; curved if the metric is stored
  PlanesByShape<T> planes;
};

// Planes are padded, so that the points of a column are not all in the same set of the first-level cache.
template <int n>
inline constexpr int plane_stride = n * n + 1;

// The distance from U to Q, so that the values of a point in both are not in the same set either.
inline constexpr int scratch_gap = 3;
constexpr int scratch_vectors(int order) {
  const int n = order + 1;
  return 2 * n * (n * n + 1) + scratch_gap;
}

// How far ahead factors are prefetched, in vectors, of which a point has six. 512 are far enough to hide the latency of
// memory (measured: from 4 to 64 KiB are equally good). The prefetches are spread over all 6 n^2 lines of a block, but
// its factors are read during the 4 n^2 lines of the planes, so by their end it has read n^3 vectors more than were
// prefetched meanwhile.
template <int n>
inline constexpr int factors_ahead = std::max(512, cube(n));

// The factors of a stored block.
template <int n, class T>
WEFT_ALWAYS_INLINE const Vec<T>* factors_of(const SimdElements<T>& d, std::int64_t block) {
  return reinterpret_cast<const Vec<T>*>(d.factors) + std::int64_t{d.stored[block]} * cube(n) * 6;
}

// Calls out(i, (M u)_i) after all results are known: among the arithmetic, gcc makes 5 % more instructions of it.
template <int n, class T, class Out>
WEFT_ALWAYS_INLINE void contract_then(const T* c, const Vec<T> (&u)[n], Out&& out) {
  Vec<T> v[n];
  contract<n, T>(c, u, v);
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) out(i, v[i]);
}

// Prefetches the factors that follow those of a stored block, one vector with each result of its 6 n^2 lines of points.
// In larger portions they fill the queue of outstanding misses, and the block's own accesses wait behind them.
template <int n, class T>
class FactorsAhead {
 public:
  // line: how many of the block's lines came before. No other block has factors.
  FactorsAhead(const SimdElements<T>& d, std::int64_t block, int line) {
    if (d.shapes[block] == mesh::Shape::curved) at_ = factors_of<n>(d, block) + factors_ahead<n> + line * n;
  }
  // contract_then() of the next line, or contract() if factors are prefetched.
  template <class Out>
  WEFT_ALWAYS_INLINE void line(const T* c, const Vec<T> (&u)[n], Out&& out) {
    constexpr int vectors = std::max(1, 64 / static_cast<int>(sizeof(Vec<T>)));  // per cache line
    if (at_ == nullptr) return contract_then<n, T>(c, u, out);
    contract<n, T>(c, u, [&](int i, Vec<T> v) WEFT_LAMBDA_INLINE {
      if (i % vectors == 0) {
        __builtin_prefetch(at_ + i, 0, 2);
        asm volatile("");  // else the compiler moves the prefetches of a line to its beginning
      }
      out(i, v);
    });
    at_ += n;
  }

 private:
  const Vec<T>* at_ = nullptr;
};

// Coefficient m of the maps of a block.
template <class T>
WEFT_ALWAYS_INLINE Vec3<T> map_coefficient(const T* maps, int m) {
  constexpr int lanes = simd::lanes<T>;
  return {load(maps + 3 * m * lanes), load(maps + (3 * m + 1) * lanes), load(maps + (3 * m + 2) * lanes)};
}

// Prefetches part k of n of the maps of the next block.
template <int n, class T>
WEFT_ALWAYS_INLINE void maps_ahead(const SimdElements<T>& d, std::int64_t block, int k) {
  constexpr int vectors = 24, share = (vectors + n - 1) / n;
  const T* const next = d.maps + (block + 1) * vectors * simd::lanes<T>;
  for (int v = k * share; v < std::min(vectors, (k + 1) * share); ++v)
    __builtin_prefetch(next + v * simd::lanes<T>, 0, 3);
}

// Affine maps x = a0 + a1 r + a2 s + a3 t: G / w is constant.
template <int n, class T>
class AffineRows {
 public:
  AffineRows(const SimdElements<T>& d, std::int64_t block) : d_(d), block_(block) {
    const T* const a = d.maps + block * 24 * simd::lanes<T>;
    const Vec3<T> xr = map_coefficient(a, 1), xs = map_coefficient(a, 2), xt = map_coefficient(a, 3);
    const Vec3<T> cr = space::cross<T>(xs, xt), cs = space::cross<T>(xt, xr), ct = space::cross<T>(xr, xs);
    const Vec<T> inverse = T(1) / space::dot<T>(xr, cr);
    rr_ = space::dot<T>(cr, cr) * inverse;
    rs_ = space::dot<T>(cr, cs) * inverse;
    rt_ = space::dot<T>(cr, ct) * inverse;
    ss_ = space::dot<T>(cs, cs) * inverse;
    st_ = space::dot<T>(cs, ct) * inverse;
    tt_ = space::dot<T>(ct, ct) * inverse;
  }
  void plane(int k) { weight_ = d_.weights[k]; }
  WEFT_ALWAYS_INLINE void ahead(int k) const { maps_ahead<n>(d_, block_, k); }
  template <class Out>
  WEFT_ALWAYS_INLINE void line(const T* c, const Vec<T> (&u)[n], Out&& out) const {
    contract_then<n, T>(c, u, out);
  }
  WEFT_ALWAYS_INLINE void row(int j, Vec<T> (&ur)[n], Vec<T>* us, Vec<T>* ut) const {
    const T w = weight_ * d_.weights[j];
    const Vec<T> rr = rr_ * w, rs = rs_ * w, rt = rt_ * w, ss = ss_ * w, st = st_ * w, tt = tt_ * w;
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) {
      const Vec<T> r = ur[i] * d_.weights[i], s = us[i] * d_.weights[i], t = ut[i] * d_.weights[i];
      ur[i] = rr * r + rs * s + rt * t;
      us[i] = rs * r + ss * s + st * t;
      ut[i] = rt * r + st * s + tt * t;
    }
  }

 private:
  const SimdElements<T>& d_;
  std::int64_t block_;
  Vec<T> rr_, rs_, rt_, ss_, st_, tt_;  // C^T C / det
  T weight_;
};

// Trilinear maps x = a0 + a1 r + a2 s + a3 t + a4 rs + a5 rt + a6 st + a7 rst. With A = x_r.x_r, alpha = x_r.x_s / A,
// beta = x_r.x_t / A, and the parts of x_s and x_t across x_r, whose products are
//   ss = x_t.x_t - beta x_r.x_t,  st = beta x_r.x_s - x_s.x_t,  tt = x_s.x_s - alpha x_r.x_s,
// the metric is
//   (f_s, f_t) = w A / det [ss st; st tt] (u_s - alpha u_r, u_t - beta u_r)
//   f_r        = w det / A u_r - alpha f_s - beta f_t
// Along a row (s, t fixed) A is constant, alpha and beta are linear in r, and ss, st, tt and det quadratic. All are
// made from the products x_r.x_s, ..., and x_r.(x_s x x_t), whose coefficients are polynomials of degree 1 or 2 in s:
// plane() makes those polynomials, and then the coefficients of its rows, before the rows are visited, so that neither
// loop needs more registers than there are. The rows take points r and -r together, with one division for both.
template <int n, class T>
class TrilinearRows {
  using V = Vec<T>;

 public:
  TrilinearRows(const SimdElements<T>& d, std::int64_t block)
      : d_(d), a_(d.maps + block * 24 * simd::lanes<T>), block_(block) {
    const Vec3<T> a3 = a(3), a5 = a(5), a6 = a(6), a7 = a(7);
    for (int j = 0; j < n; ++j) {
      const Vec3<T> t0 = a3 + a6 * d.points[j], t1 = a5 + a7 * d.points[j];  // x_t = t0 + t1 r
      xt_xt_[j] = {dot(t0, t0), dot(t0, t1), dot(t1, t1)};
    }
    for (int i = 0; i < n / 2; ++i) {
      const T r = d.points[n - 1 - i], w = d.weights[i];
      points_[i] = {r, 2 * r, r * r, w, w * r, w * (r * r), w * w};
    }
  }
  WEFT_ALWAYS_INLINE void plane(int k) {
    const T t = d_.points[k];
    const Vec3<T> r0 = a(1) + a(5) * t, s0 = a(2) + a(6) * t, s1 = a(4) + a(7) * t;  // x_r = r0 + s1 s, x_s = s0 + s1 r
    const Vec3<T> c0 = space::cross<T>(r0, s0), c1 = space::cross<T>(s1, s0), cr = space::cross<T>(r0, s1);
    const Vec3<T> a3 = a(3), a5 = a(5), a6 = a(6), a7 = a(7);
    // By power of r, the polynomials in s of these products; x_r x x_s = c0 + c1 s + cr r.
    const V rr = dot(r0, r0), rs = dot(r0, s0), rs1 = dot(r0, s1), ss = dot(s0, s0), ss1 = dot(s0, s1),
            s1s1 = dot(s1, s1);
    const V s1_a3 = dot(s1, a3), s1_a5 = dot(s1, a5), s1_a6 = dot(s1, a6), s1_a7 = dot(s1, a7);
    const V xr_xt[2][3] = {{dot(r0, a3), dot(r0, a6, s1_a3), s1_a6}, {dot(r0, a5), dot(r0, a7, s1_a5), s1_a7}};
    const V xs_xt[2][2] = {{dot(s0, a3), dot(s0, a6)}, {dot(s0, a5, s1_a3), dot(s0, a7, s1_a6)}};
    const V det[3][3] = {{dot(c0, a3), dot(c0, a6, dot(c1, a3)), dot(c1, a6)},
                         {dot(c0, a5, dot(cr, a3)), dot(c0, a7, dot(c1, a5, dot(cr, a6))), dot(c1, a7)},
                         {dot(cr, a5), dot(cr, a7), V{}}};
#pragma GCC unroll 1
    for (int j = 0; j < n; ++j) {
      const T s = d_.points[j], w = d_.weights[j] * d_.weights[k];
      const auto at = [s](const V& p0, const V& p1) WEFT_LAMBDA_INLINE { return p0 + p1 * s; };
      const auto at2 = [s](const V(&p)[3]) WEFT_LAMBDA_INLINE { return p[0] + (p[1] + p[2] * s) * s; };
      const Linear b{at(rs, ss1), at(rs1, s1s1)}, c{at2(xr_xt[0]), at2(xr_xt[1])};  // x_r.x_s and x_r.x_t
      const Quadratic e{at(xs_xt[0][0], xs_xt[0][1]), at(xs_xt[1][0], xs_xt[1][1]), at(s1_a5, s1_a7)};  // x_s.x_t
      const V inverse = T(1) / (rr + (rs1 + b.c1) * s), by_weight = inverse * w;                        // 1 / x_r.x_r
      const Linear alpha{b.c0 * inverse, b.c1 * inverse}, beta{c.c0 * inverse, c.c1 * inverse};
      Row& row = rows_[j];
      row.alpha = alpha;
      row.beta = beta;
      row.det = {at2(det[0]) * by_weight, at2(det[1]) * by_weight, at(det[2][0], det[2][1]) * by_weight};
      const Quadratic& tt = xt_xt_[j];
      row.ss = {tt.c0 - beta.c0 * c.c0, tt.c1 - beta.c0 * c.c1, tt.c2 - beta.c1 * c.c1};
      row.st = {beta.c0 * b.c0 - e.c0, beta.c0 * b.c1 + beta.c1 * b.c0 - e.c1, beta.c1 * b.c1 - e.c2};
      row.tt = {ss - alpha.c0 * b.c0, ss1 - alpha.c0 * b.c1, s1s1 - alpha.c1 * b.c1};
      weights_[j] = w * w;
    }
  }
  WEFT_ALWAYS_INLINE void ahead(int k) const { maps_ahead<n>(d_, block_, k); }
  template <class Out>
  WEFT_ALWAYS_INLINE void line(const T* c, const Vec<T> (&u)[n], Out&& out) const {
    contract_then<n, T>(c, u, out);
  }
  // The row's values: ur on the stack, us and ut in the planes.
  WEFT_ALWAYS_INLINE void row(int j, Vec<T> (&ur)[n], Vec<T>* us, Vec<T>* ut) const {
    const Row& row = rows_[j];
#pragma GCC unroll 1
    for (int i = 0; i < n / 2; ++i) {
      const int m = n - 1 - i;
      const Point& at = points_[i];
      const Pair alpha = row.alpha.at(at.r), beta = row.beta.at(at.r);
      const Pair det = Linear{row.det.c0 * at.w + row.det.c2 * at.w_rr, row.det.c1}.at(at.w_r);
      const Pair ss = row.ss.at(at.rr, at.two_r), st = row.st.at(at.rr, at.r), tt = row.tt.at(at.rr, at.two_r);
      const V inverse = (weights_[j] * at.w_w) / (det.minus * det.plus);
      flux(alpha.minus, beta.minus, det.minus, ss.minus, st.minus, tt.minus, inverse * det.plus, ur[i], us[i], ut[i]);
      flux(alpha.plus, beta.plus, det.plus, ss.plus, st.plus, tt.plus, inverse * det.minus, ur[m], us[m], ut[m]);
    }
    if constexpr (n % 2 == 1) {
      constexpr int m = n / 2;
      const T w = d_.weights[m];
      const V det = row.det.c0 * w;
      flux(row.alpha.c0, row.beta.c0, det, row.ss.c0, row.st.c0, row.tt.c0, weights_[j] * (w * w) / det, ur[m], us[m],
           ut[m]);
    }
  }

 private:
  struct Pair {  // at -r and r
    V minus, plus;
  };
  struct Linear {
    V c0, c1;
    WEFT_ALWAYS_INLINE Pair at(T r) const {
      V odd = c1 * r;
#if defined(__x86_64__)
      asm("" : "+v"(odd));  // else the compiler makes two multiply-adds of it, whose units are the ones that bind
#endif
      return {c0 - odd, c0 + odd};
    }
  };
  struct Quadratic {
    V c0, c1, c2;
    // by: r, or 2 r where c1 is half the coefficient.
    WEFT_ALWAYS_INLINE Pair at(T rr, T by) const { return Linear{c0 + c2 * rr, c1}.at(by); }
  };
  struct Row {
    Linear alpha, beta;
    Quadratic det;         // times w / A, without the weight along the row. A length: products of two do not underflow
    Quadratic ss, st, tt;  // ss, tt: half the linear coefficients
  };
  struct Point {  // of a row, and the same at -r; w: the weight
    T r, two_r, rr, w, w_r, w_rr, w_w;
  };

  // det: times w / A. scale: w A / det.
  static WEFT_ALWAYS_INLINE void flux(V alpha, V beta, V det, V ss, V st, V tt, V scale, V& ur, V& us, V& ut) {
    const V s = (us - alpha * ur) * scale, t = (ut - beta * ur) * scale;
    us = ss * s + st * t;
    ut = st * s + tt * t;
    ur = det * ur - alpha * us - beta * ut;
  }
  static WEFT_ALWAYS_INLINE V dot(const Vec3<T>& x, const Vec3<T>& y) { return space::dot<T>(x, y); }
  static WEFT_ALWAYS_INLINE V dot(const Vec3<T>& x, const Vec3<T>& y, V more) {
    return x.x * y.x + (x.y * y.y + (x.z * y.z + more));
  }
  WEFT_ALWAYS_INLINE Vec3<T> a(int m) const { return map_coefficient(a_, m); }

  const SimdElements<T>& d_;
  const T* a_;
  std::int64_t block_;
  Quadratic xt_xt_[n];  // by row, with half the linear coefficient
  Point points_[n / 2];
  Row rows_[n];   // of the plane
  T weights_[n];  // of the plane's rows, squared
};

template <int n, class T>
class StoredRows {
 public:
  StoredRows(const SimdElements<T>& d, std::int64_t block) : at_(factors_of<n>(d, block)), ahead_(d, block, n * n) {}
  void plane(int) {}
  void ahead(int) const {}
  template <class Out>
  WEFT_ALWAYS_INLINE void line(const T* c, const Vec<T> (&u)[n], Out&& out) {
    ahead_.line(c, u, out);
  }
  WEFT_ALWAYS_INLINE void row(int, Vec<T> (&ur)[n], Vec<T>* us, Vec<T>* ut) {
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) {
      const Vec<T>* g = at_ + 6 * i;
      const Vec<T> r = ur[i], s = us[i], t = ut[i];
      ur[i] = g[0] * r + g[1] * s + g[2] * t;
      us[i] = g[1] * r + g[3] * s + g[4] * t;
      ut[i] = g[2] * r + g[4] * s + g[5] * t;
    }
    at_ += 6 * n;
  }

 private:
  const Vec<T>* at_;
  FactorsAhead<n, T> ahead_;
};

// The middle pass. U, Q: [n] planes of plane_stride vectors.
template <int n, class T, class Rows>
__attribute__((noinline)) void planes(const SimdElements<T>& d, std::int64_t block, Ahead<T>& ahead,
                                      Vec<T>* __restrict__ U, Vec<T>* __restrict__ Q) {
  using V = Vec<T>;
  V S[n * n];
  Rows rows(d, block);
  for (int k = 0; k < n; ++k) {
    V* __restrict__ Uk = U + k * plane_stride<n>;
    V* __restrict__ Qk = Q + k * plane_stride<n>;
    rows.plane(k);
    rows.ahead(k);
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i) {
      V u[n];
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = Uk[j * n + i];
      rows.line(d.forward, u, [&](int j, V v) WEFT_LAMBDA_INLINE { S[j * n + i] = v; });
    }
#pragma GCC unroll 1
    for (int j = 0; j < n; ++j) {
      ahead.template step<ahead_cache<n>>();
      V u[n], ur[n];
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = Uk[j * n + i];
      rows.line(d.forward, u, [&](int i, V v) WEFT_LAMBDA_INLINE { ur[i] = v; });
      rows.row(j, ur, S + j * n, Qk + j * n);
      rows.line(d.transposed, ur, [&](int i, V v) WEFT_LAMBDA_INLINE { Uk[j * n + i] = v; });
    }
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i) {
      V f[n];
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) f[j] = S[j * n + i];
      rows.line(d.transposed, f, [&](int j, V v) WEFT_LAMBDA_INLINE { Uk[j * n + i] += v; });
    }
  }
}

// Elements with right angles: G / w is constant and diagonal.
template <class T>
struct BoxMetric {
  Vec<T> rr, ss, tt;

  BoxMetric(const SimdElements<T>& d, std::int64_t block) {
    const T* const a = d.maps + block * 24 * simd::lanes<T>;
    const Vec3<T> xr = map_coefficient(a, 1), xs = map_coefficient(a, 2), xt = map_coefficient(a, 3);
    const Vec<T> det = space::dot<T>(xr, space::cross<T>(xs, xt));
    rr = det / space::dot<T>(xr, xr);
    ss = det / space::dot<T>(xs, xs);
    tt = det / space::dot<T>(xt, xt);
  }
};

template <int n, class T, class Out>
WEFT_ALWAYS_INLINE void stiffness(const SimdElements<T>& d, const Vec<T> (&u)[n], Out&& out) {
  simd::contract<n, n, true, T>(d.stiffness, u, out);
}

// The middle pass for elements with right angles.
template <int n, class T>
__attribute__((noinline)) void box_planes(const SimdElements<T>& d, std::int64_t block, Vec<T> rr, Vec<T> ss,
                                          Ahead<T>& ahead, const Vec<T>* __restrict__ U, Vec<T>* __restrict__ Q) {
  using V = Vec<T>;
  V S[n * n];
  for (int k = 0; k < n; ++k) {
    const V* __restrict__ Uk = U + k * plane_stride<n>;
    V* __restrict__ Qk = Q + k * plane_stride<n>;
    maps_ahead<n>(d, block, k);
    const V rr_k = rr * d.weights[k], ss_k = ss * d.weights[k];
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i) {
      V u[n];
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = Uk[j * n + i];
      const V scale = ss_k * d.weights[i];
      stiffness<n, T>(d, u, [&](int j, V v) WEFT_LAMBDA_INLINE { S[j * n + i] = scale * v; });
    }
#pragma GCC unroll 1
    for (int j = 0; j < n; ++j) {
      ahead.template step<ahead_cache<n>>();
      V u[n];
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = Uk[j * n + i];
      const V scale = rr_k * d.weights[j];
      stiffness<n, T>(d, u, [&](int i, V v) WEFT_LAMBDA_INLINE { Qk[j * n + i] = scale * v + S[j * n + i]; });
    }
  }
}

// Processes one block. A sweep has
//   source(), target()   the vectors that are read, and added to, by index
//   entries              of a type Entries, which handles `lanes` contiguous entries that only this block touches:
//     read(entry)          returns the values to compute with
//     write(entry, v)      takes the result
//   keep(entries)        takes the sums from a copy of `entries`. In a copy, pointers and sums stay in registers;
//                        otherwise the compiler must assume that any store to a vector changes them
//   ahead                prefetches the entries that the next block touches first
// column_ahead() is called before each column is read or added to.
template <int N, class T, class Sweep, class ColumnAhead>
WEFT_ALWAYS_INLINE void apply_block(const SimdElements<T>& d, Sweep& sweep, std::int64_t block, Vec<T>* __restrict__ U,
                                    Vec<T>* __restrict__ Q, ColumnAhead&& column_ahead) {
  using V = Vec<T>;
  constexpr int n = N + 1, stride = plane_stride<n>;
  const space::BlockColumns<n, T> columns(d.blocks, block);

  const mesh::Shape shape = d.shapes[block];
  const bool box = shape == mesh::Shape::box;

  typename Sweep::Entries at = sweep.entries;
  const T* const source = sweep.source();
  FactorsAhead<n, T> first(d, block, 0);
  space::for_columns<n>([&](int ij, auto column) WEFT_LAMBDA_INLINE {
    column_ahead();
    columns.next_ahead(column);
    V u[n];
    columns.read(source, column, u, [&](std::int64_t entry) WEFT_LAMBDA_INLINE { return at.read(entry); });
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) U[k * stride + ij] = u[k];
    if (box) return;
    first.line(d.forward, u, [&](int k, V v) WEFT_LAMBDA_INLINE { Q[k * stride + ij] = v; });
  });
  sweep.keep(at);

  V tt{};
  if (box) {
    const BoxMetric<T> metric(d, block);
    tt = metric.tt;
    box_planes<n, T>(d, block, metric.rr, metric.ss, sweep.ahead, U, Q);
  } else {
    d.planes.of(shape)(d, block, sweep.ahead, U, Q);
  }

  at = sweep.entries;
  T* const target = sweep.target();
  FactorsAhead<n, T> last(d, block, 5 * n * n);
  space::for_columns<n>([&](int ij, auto column) WEFT_LAMBDA_INLINE {
    column_ahead();
    V u[n], q[n];
    if (box) {
      const V scale = tt * (d.weights[ij % n] * d.weights[ij / n]);
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) q[k] = U[k * stride + ij];
      stiffness<n, T>(d, q, [&](int k, V v) WEFT_LAMBDA_INLINE { u[k] = scale * v + Q[k * stride + ij]; });
    } else {
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) q[k] = Q[k * stride + ij];
      last.line(d.transposed, q, [&](int k, V v) WEFT_LAMBDA_INLINE { u[k] = v + U[k * stride + ij]; });
    }
    columns.add(target, column, u, [&](std::int64_t entry, V v) WEFT_LAMBDA_INLINE { at.write(entry, v); });
  });
  sweep.keep(at);
}

}  // namespace weft::poisson
