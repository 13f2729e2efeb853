// The metric of a block, computed row by row and stored.
#pragma once

#include <cstdint>

#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/flow/simd_planes.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/block_index.hpp"
#include "weft/space/vec3.hpp"

namespace weft::flow {

using simd::load;
using space::cross;
using space::cube;
using space::Vec3;

// The cofactors C_a = J grad r_a (C_r, C_s, C_t) of a block, for one row of points after another.
template <int n, class T>
class Cofactors {
  using V = Vec<T>;

 public:
  Cofactors(const SimdTables<T>& t, const SimdGeometry<T>& g, std::int64_t block, Scratch<T>& scratch)
      : t_(t), shape_(g.shape[block]), row_(scratch.take(9 * n)) {
    constexpr int lanes = simd::lanes<T>;
    if (shape_ != Shape::curved) {
      maps_ = g.maps + block * 24 * lanes;
      if (shape_ == Shape::affine) {
        put(row_, cross<T>(a(2), a(3)), cross<T>(a(3), a(1)), cross<T>(a(1), a(2)));
        step = 0;
      }
      return;
    }
    X_ = scratch.take(3 * field_vectors<n, n>);
    Q_ = scratch.take(3 * field_vectors<n, n>);
    r_ = scratch.take(3 * n * n);
    s_ = scratch.take(3 * n * n);
    rows_ = scratch.take(3 * n);
    read(reinterpret_cast<const V*>(g.coordinates) + block * 3 * cube(n));
  }

  void plane(int k) {
    if (shape_ == Shape::trilinear) {
      const T t = t_.points[k];
      r0_ = a(1) + a(5) * t;
      r1_ = a(4) + a(7) * t;
      s0_ = a(2) + a(6) * t;
    } else if (shape_ == Shape::curved) {
      curved_plane(k);
    }
  }
  // 9 vectors per point: the x, y, z components of C_r, C_s, C_t. Points are `step` vectors apart.
  const V* row(int j) {
    if (shape_ == Shape::trilinear)
      trilinear_row(j);
    else if (shape_ == Shape::curved)
      curved_row(j);
    return row_;
  }
  int step = 9;

 private:
  WEFT_ALWAYS_INLINE Vec3<T> a(int c) const {
    constexpr int lanes = simd::lanes<T>;
    return {load(maps_ + 3 * c * lanes), load(maps_ + (3 * c + 1) * lanes), load(maps_ + (3 * c + 2) * lanes)};
  }
  static WEFT_ALWAYS_INLINE void put(V* to, const Vec3<T>& r, const Vec3<T>& s, const Vec3<T>& t) {
    to[0] = r.x, to[1] = r.y, to[2] = r.z;
    to[3] = s.x, to[4] = s.y, to[5] = s.z;
    to[6] = t.x, to[7] = t.y, to[8] = t.z;
  }
  // Along a row dx/dr is constant, dx/ds = s0 + r1 r and dx/dt = t0 + t1 r.
  __attribute__((noinline)) void trilinear_row(int j) {
    const T s = t_.points[j];
    const Vec3<T> xr = r0_ + r1_ * s, t0 = a(3) + a(6) * s, t1 = a(5) + a(7) * s;
    const Vec3<T> cr0 = cross<T>(s0_, t0), cr1 = cross<T>(s0_, t1) + cross<T>(r1_, t0), cr2 = cross<T>(r1_, t1);
    const Vec3<T> cs0 = cross<T>(t0, xr), cs1 = cross<T>(t1, xr), ct0 = cross<T>(xr, s0_), ct1 = cross<T>(xr, r1_);
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i) {
      const T r = t_.points[i];
      put(row_ + 9 * i, cr0 + (cr1 + cr2 * r) * r, cs0 + cs1 * r, ct0 + ct1 * r);
    }
  }

  // The coordinates are interpolated like a field.
  __attribute__((noinline)) void read(const V* from) {
    for (int c = 0; c < 3; ++c) {
      V* X = X_ + c * field_vectors<n, n>;
      V* Q = Q_ + c * field_vectors<n, n>;
#pragma GCC unroll 1
      for (int ij = 0; ij < n * n; ++ij, from += n, X += pitch<n>, Q += pitch<n>) {
        V u[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = from[k];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) X[k] = u[k];
        contract<n, T>(t_.derivative, u, [=](int k, V v) WEFT_LAMBDA_INLINE { Q[k] = v; });
      }
    }
  }
  void curved_plane(int k) {
    for (int c = 0; c < 3; ++c)
      plane_derivatives<n, T>(t_.derivative, X_ + c * field_vectors<n, n> + k, r_ + c * n * n, s_ + c * n * n);
    k_ = k;
  }
  void curved_row(int j) {
    const V* at[9];  // rows of the components of dx/dr, dx/ds, dx/dt
    for (int c = 0; c < 3; ++c) {
      at[c] = r_ + (c * n + j) * n;
      at[3 + c] = s_ + (c * n + j) * n;
      const V* const from = Q_ + c * field_vectors<n, n> + j * n * pitch<n> + k_;
      for (int i = 0; i < n; ++i) rows_[c * n + i] = from[i * pitch<n>];
      at[6 + c] = rows_ + c * n;
    }
#pragma GCC unroll 1
    for (int i = 0; i < n; ++i) {
      const Vec3<T> xr{at[0][i], at[1][i], at[2][i]}, xs{at[3][i], at[4][i], at[5][i]},
          xt{at[6][i], at[7][i], at[8][i]};
      put(row_ + 9 * i, cross<T>(xs, xt), cross<T>(xt, xr), cross<T>(xr, xs));
    }
  }

  const SimdTables<T>& t_;
  Shape shape_;
  V* row_;
  const T* maps_ = nullptr;  // affine and trilinear
  Vec3<T> r0_, r1_, s0_;     // trilinear, for the current plane: dx/dr = r0 + r1 s, dx/ds = s0 + r1 r
  // Curved: x on planes and its derivative along t; for the current plane dx/dr and dx/ds, [3][n][n]; for a row dx/dt.
  V *X_ = nullptr, *Q_ = nullptr, *r_ = nullptr, *s_ = nullptr, *rows_ = nullptr;
  int k_ = 0;
};

}  // namespace weft::flow
