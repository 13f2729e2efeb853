// The metric of a block at its GLL points, computed column by column in t, and point by point where it is used, so that
// it stays in registers. In contrast, simd_cofactors.hpp computes it row by row and stores it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/block_index.hpp"
#include "weft/space/vec3.hpp"

namespace weft::flow {

using simd::contract;
using space::cross;
using space::Vec3;

// Calls use(std::integral_constant<Shape, shape>).
template <class Use>
WEFT_ALWAYS_INLINE void with_shape(Shape shape, Use&& use) {
  switch (shape) {
    case Shape::box:  // treated like any other parallelepiped
    case Shape::affine:
      return use(std::integral_constant<Shape, Shape::affine>{});
    case Shape::trilinear:
      return use(std::integral_constant<Shape, Shape::trilinear>{});
    case Shape::curved:
      return use(std::integral_constant<Shape, Shape::curved>{});
  }
}

// The cofactors C_a = J grad r_a (C_r, C_s, C_t). Call slab(i) for the points with the same r, column(j) for those with
// the same s in the slab, and at(k) for a point.
template <int n, class T>
class ColumnCofactors {
  using V = Vec<T>;
  static constexpr int field = field_vectors<n, n>, slab_vectors = n * pitch<n>;

 public:
  ColumnCofactors(const SimdTables<T>& t, const SimdGeometry<T>& g, std::int64_t block, Scratch<T>& scratch)
      : t_(t), shape_(g.shape[block]), column_(scratch.take(3 * n > 21 ? 3 * n : 21)) {
    if (shape_ == Shape::curved) {
      x_ = reinterpret_cast<const V*>(g.coordinates) + block * 3 * space::cube(n);
      xr_ = scratch.take(3 * field);
      xs_ = scratch.take(3 * slab_vectors);
      along_r();
      return;
    }
    maps_ = g.maps + block * 24 * simd::lanes<T>;
    if (shape_ == Shape::affine) {
      put(0, cross<T>(a(2), a(3)));
      put(1, cross<T>(a(3), a(1)));
      put(2, cross<T>(a(1), a(2)));
    }
  }

  Shape shape() const { return shape_; }
  void slab(int i) {
    i_ = i;
    if (shape_ == Shape::trilinear) {
      const T r = t_.points[i];
      s0_ = a(2) + a(4) * r;
      s1_ = a(6) + a(7) * r;
      t0_ = a(3) + a(5) * r;
    } else if (shape_ == Shape::curved) {
      along_s();
    }
  }
  void column(int j) {
    if (shape_ == Shape::trilinear)
      trilinear(j);
    else if (shape_ == Shape::curved)
      curved(j);
  }
  // The x, y, z components of C_r, C_s, C_t at point k of the column; shape must be shape().
  template <Shape shape>
  WEFT_ALWAYS_INLINE void at(int k, V (&c)[9]) const {
    if constexpr (shape == Shape::affine) {
      WEFT_UNROLL_ALL for (int a = 0; a < 9; ++a) c[a] = column_[a];
    } else if constexpr (shape == Shape::trilinear) {
      const T t = t_.points[k];
      WEFT_UNROLL_ALL for (int a = 0; a < 6; ++a) c[a] = column_[a] + column_[9 + a] * t;
      WEFT_UNROLL_ALL for (int a = 6; a < 9; ++a) c[a] = column_[a] + (column_[9 + a] + column_[12 + a] * t) * t;
    } else {
      const V *const r = along_r_ + k, *const s = along_s_ + k, *const t = column_ + k;
      WEFT_UNROLL_ALL for (int d = 0; d < 3; ++d) {
        const int x = (d + 1) % 3, y = (d + 2) % 3;
        const V rx = r[x * field], ry = r[y * field], sx = s[x * slab_vectors], sy = s[y * slab_vectors], tx = t[x * n],
                ty = t[y * n];
        c[d] = sx * ty - sy * tx;
        c[3 + d] = tx * ry - ty * rx;
        c[6 + d] = rx * sy - ry * sx;
      }
    }
  }

 private:
  WEFT_ALWAYS_INLINE Vec3<T> a(int c) const {
    constexpr int lanes = simd::lanes<T>;
    return {simd::load(maps_ + 3 * c * lanes), simd::load(maps_ + (3 * c + 1) * lanes),
            simd::load(maps_ + (3 * c + 2) * lanes)};
  }
  WEFT_ALWAYS_INLINE void put(int to, const Vec3<T>& v) {
    column_[3 * to] = v.x, column_[3 * to + 1] = v.y, column_[3 * to + 2] = v.z;
  }
  // Along a column dx/dt is constant, dx/dr = r0 + r1 t and dx/ds = s0 + s1 t.
  __attribute__((noinline)) void trilinear(int j) {
    const T s = t_.points[j];
    const Vec3<T> r0 = a(1) + a(4) * s, r1 = a(5) + a(7) * s, s0 = s0_, s1 = s1_, xt = t0_ + s1_ * s;
    put(0, cross<T>(s0, xt));
    put(1, cross<T>(xt, r0));
    put(2, cross<T>(r0, s0));
    put(3, cross<T>(s1, xt));
    put(4, cross<T>(xt, r1));
    put(5, cross<T>(r0, s1) + cross<T>(r1, s0));
    put(6, cross<T>(r1, s1));
  }

  __attribute__((noinline)) void along_r() {
    for (int c = 0; c < 3; ++c)
      for (int j = 0; j < n; ++j) {
        const V* const x = x_ + c * space::cube(n) + j * n * n;
        V* const to = xr_ + c * field + j * slab_vectors;
#pragma GCC unroll 1
        for (int k = 0; k < n; ++k) {
          V u[n];
          WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = x[i * n + k];
          contract<n, T>(t_.derivative, u, [=](int i, V v) WEFT_LAMBDA_INLINE { to[i * pitch<n> + k] = v; });
        }
      }
  }
  __attribute__((noinline)) void along_s() {
    for (int c = 0; c < 3; ++c) {
      const V* const x = x_ + c * space::cube(n) + i_ * n;
      V* const to = xs_ + c * slab_vectors;
#pragma GCC unroll 1
      for (int k = 0; k < n; ++k) {
        V u[n];
        WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = x[j * n * n + k];
        contract<n, T>(t_.derivative, u, [=](int j, V v) WEFT_LAMBDA_INLINE { to[j * pitch<n> + k] = v; });
      }
    }
  }
  __attribute__((noinline)) void curved(int j) {
    for (int c = 0; c < 3; ++c) {
      const V* const x = x_ + c * space::cube(n) + (j * n + i_) * n;
      V* const to = column_ + c * n;
      V u[n];
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = x[k];
      contract<n, T>(t_.derivative, u, [=](int k, V v) WEFT_LAMBDA_INLINE { to[k] = v; });
    }
    along_r_ = xr_ + (j * n + i_) * pitch<n>;
    along_s_ = xs_ + j * pitch<n>;
  }

  const SimdTables<T>& t_;
  Shape shape_;
  V* column_;  // affine: C; trilinear: coefficients in C of 1, t and, for C_t, t^2; curved: dx/dt [3][n]
  int i_ = 0;
  const T* maps_ = nullptr;                          // affine and trilinear
  Vec3<T> s0_, s1_, t0_;                             // trilinear: dx/ds = s0 + s1 t, dx/dt = t0 + s1 s
  const V* x_ = nullptr;                             // curved: coordinates [3][column][k],
  V *xr_ = nullptr, *xs_ = nullptr;                  // dx/dr of the block, dx/ds of the slab [3][column][k],
  const V *along_r_ = nullptr, *along_s_ = nullptr;  // those of the column
};

}  // namespace weft::flow
