// The arithmetic of a block of elements, one element per vector lane: y_L = S_L u by sum factorisation.
//
// A block is worked in three passes, so that only two arrays of it, U and Q, live in the second cache:
//   columns in t: u read from the vector into U; Q = d u / dt
//   planes k:     d/dr and d/ds, the metric, their transposes: U = (d/dr)^T f_r + (d/ds)^T f_s, Q = f_t
//   columns in t: U + (d/dt)^T Q added to the vector
// A sweep (simd_sweep.hpp) says what reading and adding mean.
#pragma once

#include <cstdint>

#include "weft/mesh/shape.hpp"
#include "weft/simd/ahead.hpp"
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

// Up to as many vectors as a CG iteration with a preconditioner reads.
template <class T>
using Ahead = simd::Ahead<T, 5>;

template <class T>
struct SimdElements;

// What a block's columns between their two passes go through: derivatives within planes and the metric, on U and Q.
template <class T>
using PlanesOfBlock = void (*)(const SimdElements<T>&, std::int64_t block, Ahead<T>&, Vec<T>* U, Vec<T>* Q);

template <class T>
struct PlanesByShape {
  PlanesOfBlock<T> affine, trilinear, stored;
  PlanesOfBlock<T> of(mesh::Shape shape) const {
    return shape == mesh::Shape::affine ? affine : shape == mesh::Shape::trilinear ? trilinear : stored;
  }
};

// Views. n = order + 1, lanes = simd::lanes<T>; arrays that begin with [blocks] are aligned to a vector.
template <class T>
struct SimdElements {
  space::BlockIndex blocks;
  const T* forward;            // D by even and odd parts, see simd::contract()
  const T* transposed;         // D^T the same way
  const T* points;             // [n] GLL
  const T* weights;            // [n]
  const T* inverse_weights;    // [n]
  const T* factors;            // [stored blocks][n^3][6][lanes]
  const std::int32_t* stored;  // [blocks]: place among the stored blocks
  const T* maps;               // [blocks][8][3][lanes] coefficients of the others' trilinear maps (mesh/trilinear.hpp)
  const mesh::Shape* shapes;   // [blocks]; curved: the metric is stored
  PlanesByShape<T> planes;
};

// Planes are padded so that a column does not fall into one set of the first cache.
template <int n>
inline constexpr int plane_stride = n * n + 1;

// Between U and Q: one point's do not fall into one set of the first cache either.
inline constexpr int scratch_gap = 3;
constexpr int scratch_vectors(int order) {
  const int n = order + 1;
  return 2 * n * (n * n + 1) + scratch_gap;
}

// How far ahead factors are asked for, in vectors of six a point: far enough to hide memory's latency behind the
// arithmetic of some rows, near enough to stay in the second cache (measured: 3 to 48 KiB do, 32 is best).
inline constexpr int factors_ahead = 512;

// Coefficient m of a block's maps.
template <class T>
WEFT_ALWAYS_INLINE Vec3<T> map_coefficient(const T* maps, int m) {
  constexpr int lanes = simd::lanes<T>;
  return {load(maps + 3 * m * lanes), load(maps + (3 * m + 1) * lanes), load(maps + (3 * m + 2) * lanes)};
}

// (ur, us, ut) <- scale C^T C (ur, us, ut), C's columns the cofactors cr, cs, ct of dx/dr: with scale = w / det that is
// G (ur, us, ut), without forming G.
template <class T>
WEFT_ALWAYS_INLINE void metric(const Vec3<T>& cr, const Vec3<T>& cs, const Vec3<T>& ct, Vec<T> scale, Vec<T>& ur,
                               Vec<T>& us, Vec<T>& ut) {
  const Vec3<T> q{(cr.x * ur + cs.x * us + ct.x * ut) * scale, (cr.y * ur + cs.y * us + ct.y * ut) * scale,
                  (cr.z * ur + cs.z * us + ct.z * ut) * scale};
  ur = space::dot<T>(cr, q);
  us = space::dot<T>(cs, q);
  ut = space::dot<T>(ct, q);
}

// Affine maps x = a0 + a1 r + a2 s + a3 t: G / w is constant.
template <int n, class T>
class AffineRows {
 public:
  AffineRows(const SimdElements<T>& d, std::int64_t block) : d_(d) {
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
  Vec<T> rr_, rs_, rt_, ss_, st_, tt_;  // C^T C / det
  T weight_;
};

// Trilinear maps x = a0 + a1 r + a2 s + a3 t + a4 rs + a5 rt + a6 st + a7 rst. Along a row (s, t fixed) dx/dr does not
// change, dx/ds and dx/dt are linear in r, so cofactors and determinant are polynomials in r of degree 2 at most: their
// coefficients are made once a row (from some made once a plane), their even and odd parts serve r and -r together.
template <int n, class T>
class TrilinearRows {
 public:
  TrilinearRows(const SimdElements<T>& d, std::int64_t block) : d_(d), a_(d.maps + block * 24 * simd::lanes<T>) {
    for (int j = 0; j < n; ++j) {
      t0_[j] = a(3) + a(6) * d.points[j];
      t1_[j] = a(5) + a(7) * d.points[j];
    }
  }
  WEFT_ALWAYS_INLINE void plane(int k) {
    const T t = d_.points[k];
    const Vec3<T> s0 = a(2) + a(6) * t, s1 = a(4) + a(7) * t;
    r_ = a(1) + a(5) * t;
    s1_ = s1;
    // cofactor r: (s0 + s1 r) x (dx/dt), with dx/dt = (a3 + a6 s) + (a5 + a7 s) r; cofactor t: (r_ + s1 s) x (s0 + s1
    // r).
    cr_[0] = space::cross<T>(s0, a(3));
    cr_[1] = space::cross<T>(s0, a(5)) + space::cross<T>(s1, a(3));
    cr_[2] = space::cross<T>(s1, a(5));
    cr_s_[0] = space::cross<T>(s0, a(6));
    cr_s_[1] = space::cross<T>(s0, a(7)) + space::cross<T>(s1, a(6));
    cr_s_[2] = space::cross<T>(s1, a(7));
    ct0_ = space::cross<T>(r_, s0);
    ct0_s_ = space::cross<T>(s1, s0);
    ct1_ = space::cross<T>(r_, s1);
    inverse_weight_ = d_.inverse_weights[k];
  }
  // ur in registers; us, ut: the row's values in memory.
  WEFT_ALWAYS_INLINE void row(int j, Vec<T> (&ur)[n], Vec<T>* us, Vec<T>* ut) const {
    const T sj = d_.points[j];
    const Vec3<T> xr = r_ + s1_ * sj;
    const Vec3<T> cr0 = cr_[0] + cr_s_[0] * sj, cr1 = cr_[1] + cr_s_[1] * sj, cr2 = cr_[2] + cr_s_[2] * sj;
    const Vec3<T> cs0 = space::cross<T>(t0_[j], xr), cs1 = space::cross<T>(t1_[j], xr);
    const Vec3<T> ct0 = ct0_ + ct0_s_ * sj, ct1 = ct1_;
    const T w = inverse_weight_ * d_.inverse_weights[j];
    const Vec<T> d0 = space::dot<T>(xr, cr0) * w, d1 = space::dot<T>(xr, cr1) * w, d2 = space::dot<T>(xr, cr2) * w;
    WEFT_UNROLL_ALL for (int i = 0; i < n / 2; ++i) {
      const int m = n - 1 - i;
      const T r = d_.points[m], rr = r * r;
      const Vec3<T> even = cr0 + cr2 * rr, odd = cr1 * r, s = cs1 * r, t = ct1 * r;
      const Vec<T> det = d0 + d2 * rr, change = d1 * r;
      metric<T>(even - odd, cs0 - s, ct0 - t, d_.weights[i] / (det - change), ur[i], us[i], ut[i]);
      metric<T>(even + odd, cs0 + s, ct0 + t, d_.weights[i] / (det + change), ur[m], us[m], ut[m]);
    }
    if constexpr (n % 2 == 1) metric<T>(cr0, cs0, ct0, d_.weights[n / 2] / d0, ur[n / 2], us[n / 2], ut[n / 2]);
  }

 private:
  WEFT_ALWAYS_INLINE Vec3<T> a(int m) const { return map_coefficient(a_, m); }

  const SimdElements<T>& d_;
  const T* a_;
  Vec3<T> t0_[n], t1_[n];      // dx/dt = t0 + t1 r, by row
  Vec3<T> r_, s1_;             // dx/dr = r + s1 s, of the plane
  Vec3<T> cr_[3], cr_s_[3];    // cofactor r: powers of r, each linear in s
  Vec3<T> ct0_, ct0_s_, ct1_;  // cofactor t: ct0 + ct0_s s + ct1 r
  T inverse_weight_;
};

template <int n, class T>
class StoredRows {
 public:
  StoredRows(const SimdElements<T>& d, std::int64_t block)
      : at_(reinterpret_cast<const Vec<T>*>(d.factors) + std::int64_t{d.stored[block]} * cube(n) * 6) {}
  void plane(int) {}
  WEFT_ALWAYS_INLINE void row(int, Vec<T> (&ur)[n], Vec<T>* us, Vec<T>* ut) {
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) {
      const Vec<T>* g = at_ + 6 * i;
      for (int c = 0; c < 6; ++c) __builtin_prefetch(g + c + factors_ahead, 0, 2);
      const Vec<T> r = ur[i], s = us[i], t = ut[i];
      ur[i] = g[0] * r + g[1] * s + g[2] * t;
      us[i] = g[1] * r + g[3] * s + g[4] * t;
      ut[i] = g[2] * r + g[4] * s + g[5] * t;
    }
    at_ += 6 * n;
  }

 private:
  const Vec<T>* at_;
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
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i) {
      V u[n], du[n];
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = Uk[j * n + i];
      contract<n, T>(d.forward, u, du);
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) S[j * n + i] = du[j];
    }
#pragma GCC unroll 1
    for (int j = 0; j < n; ++j) {
      ahead.step();
      V u[n], ur[n];
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = Uk[j * n + i];
      contract<n, T>(d.forward, u, ur);
      rows.row(j, ur, S + j * n, Qk + j * n);
      contract<n, T>(d.transposed, ur, u);
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) Uk[j * n + i] = u[i];
    }
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i) {
      V f[n], u[n];
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) f[j] = S[j * n + i];
      contract<n, T>(d.transposed, f, u);
      WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) Uk[j * n + i] += u[j];
    }
  }
}

// One block. A sweep has
//   source(), target()   vectors read and added to by index
//   read(entry)          lanes entries in a row that this block alone touches: the values to compute with
//   write(entry, v)      the result for those
//   ahead                the entries that the next block touches first
template <int N, class T, class Sweep>
WEFT_ALWAYS_INLINE void apply_block(const SimdElements<T>& d, Sweep& sweep, std::int64_t block, Vec<T>* __restrict__ U,
                                    Vec<T>* __restrict__ Q) {
  using V = Vec<T>;
  constexpr int n = N + 1, stride = plane_stride<n>;
  const space::BlockColumns<n, T> columns(d.blocks, block);

  space::for_columns<n>([&](int ij, auto column) {
    V u[n], q[n];
    columns.read(sweep.source(), column, u, [&](std::int64_t entry) WEFT_LAMBDA_INLINE { return sweep.read(entry); });
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) U[k * stride + ij] = u[k];
    contract<n, T>(d.forward, u, q);
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) Q[k * stride + ij] = q[k];
  });

  d.planes.of(d.shapes[block])(d, block, sweep.ahead, U, Q);

  space::for_columns<n>([&](int ij, auto column) {
    V u[n], q[n];
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) q[k] = Q[k * stride + ij];
    contract<n, T>(d.transposed, q, u);
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] += U[k * stride + ij];
    columns.add(sweep.target(), column, u, [&](std::int64_t entry, V v) WEFT_LAMBDA_INLINE { sweep.write(entry, v); });
  });
}

}  // namespace weft::poisson
