// The convecting velocity at the fine points of a block, J u . grad r_a, computed row by row from the velocity and the
// map.
#pragma once

#include <cstdint>

#include "weft/element/gauss.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/flow/simd_fine.hpp"
#include "weft/flow/simd_layout.hpp"
#include "weft/simd/between_points.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/block_index.hpp"
#include "weft/space/vec3.hpp"

namespace weft::flow {

// Computes W [3][m] for a row: W_r, W_s, W_t by parts, like the rows in simd_fine.hpp. At opposite points the velocity
// is u = a + b and a - b, and the cofactors are C_e + C_o and C_e - C_o: the even part of W is 2 (C_e a + C_o b), the
// odd part 2 (C_o a + C_e b).
template <int n, class T>
class FineVelocity {
  using V = Vec<T>;
  using Vec3 = space::Vec3<T>;
  static constexpr int m = element::dealiasing_points(n - 1), h = m / 2, component = m * n;

 public:
  FineVelocity(const SimdTables<T>& t, const SimdGeometry<T>& g, std::int64_t block, Scratch<T>& scratch)
      : t_(t), shape_(g.shape[block]) {
    constexpr int lanes = simd::lanes<T>;
    if (shape_ != Shape::curved) {
      maps_ = g.maps + block * 24 * lanes;
      if (shape_ == Shape::affine) {
        const Vec3 r = twice(a(1)), s = twice(a(2));
        cofactors_[0] = space::cross<T>(s, a(3));
        cofactors_[1] = space::cross<T>(a(3), r);
        cofactors_[2] = space::cross<T>(r, a(2));
      }
      return;
    }
    X_ = scratch.take(3 * field_vectors<n, m>);
    Q_ = scratch.take(3 * field_vectors<n, m>);
    for (V** to : {&r_, &s_, &t_layer_}) *to = scratch.take(3 * component);
    rows_ = scratch.take(9 * m);
    read(reinterpret_cast<const V*>(g.coordinates) + block * 3 * space::cube(n));
  }

  void layer(int k) {
    if (shape_ == Shape::trilinear) {
      const T t = t_.fine_points[k];
      r0_ = twice(a(1) + a(5) * t);
      r1_ = twice(a(4) + a(7) * t);
      s0_ = a(2) + a(6) * t;
      s1_ = a(4) + a(7) * t;
    } else if (shape_ == Shape::curved) {
      for (int c = 0; c < 3; ++c) {
        const V* const X = X_ + c * field_vectors<n, m> + k;
        const V* const Q = Q_ + c * field_vectors<n, m> + k;
        fine_lines<n, true, T>(t_, X, r_ + c * component, s_ + c * component);
        fine_lines<n, false, T>(t_, Q, t_layer_ + c * component, nullptr);
      }
    }
  }
  // B: row j of the layer's velocity, [3][m][n].
  void row(int j, const V* __restrict__ B, V* __restrict__ W) {
    if (shape_ == Shape::affine)
      affine_row(B, W);
    else if (shape_ == Shape::trilinear)
      trilinear_row(j, B, W);
    else
      curved_row(j, B, W);
  }

 private:
  WEFT_ALWAYS_INLINE Vec3 a(int c) const {
    constexpr int lanes = simd::lanes<T>;
    return {simd::load(maps_ + 3 * c * lanes), simd::load(maps_ + (3 * c + 1) * lanes),
            simd::load(maps_ + (3 * c + 2) * lanes)};
  }
  static WEFT_ALWAYS_INLINE Vec3 twice(const Vec3& v) { return v * T(2); }
  static WEFT_ALWAYS_INLINE V dot(const Vec3& c, const Vec3& v) { return space::dot<T>(c, v); }

  // The cofactors are constant, so they are applied before the row is interpolated to fine points.
  __attribute__((noinline)) void affine_row(const V* __restrict__ B, V* __restrict__ W) const {
    V u[3][n];
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) {
      const Vec3 v{B[i], B[component + i], B[2 * component + i]};
      WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c) u[c][i] = dot(cofactors_[c], v);
    }
    simd::contract_parts<m, n, true, T>(
        t_.value, row_parts<n>(u[0], u[1]),
        [&](int i, const Two<V>& even, const Two<V>& odd) WEFT_LAMBDA_INLINE {
          W[i] = even.first, W[m + i] = even.second;
          W[m - h + i] = odd.first, W[2 * m - h + i] = odd.second;
        },
        [&](const Two<V>& v) WEFT_LAMBDA_INLINE { W[h] = v.first / 2, W[m + h] = v.second / 2; });
    simd::contract_parts<m, n, true, T>(
        t_.value, row_parts<n>(u[2]),
        [&](int i, V even, V odd) WEFT_LAMBDA_INLINE { W[2 * m + i] = even, W[3 * m - h + i] = odd; },
        [&](V v) WEFT_LAMBDA_INLINE { W[2 * m + h] = v / 2; });
  }

  // The velocity at the row's fine points: the even and odd halves of opposite points, and the middle point in even[h].
  struct Halves {
    Vec3 even[m - h], odd[h];
  };
  WEFT_ALWAYS_INLINE void velocity(const V* __restrict__ B, Halves& u) const {
    simd::contract_parts<m, n, true, T>(
        t_.value, row_parts<n>(B, B + component),
        [&](int i, const Two<V>& even, const Two<V>& odd) WEFT_LAMBDA_INLINE {
          u.even[i].x = even.first, u.even[i].y = even.second;
          u.odd[i].x = odd.first, u.odd[i].y = odd.second;
        },
        [&](const Two<V>& v) WEFT_LAMBDA_INLINE { u.even[h].x = v.first, u.even[h].y = v.second; });
    simd::contract_parts<m, n, true, T>(
        t_.value, row_parts<n>(B + 2 * component),
        [&](int i, V even, V odd) WEFT_LAMBDA_INLINE { u.even[i].z = even, u.odd[i].z = odd; },
        [&](V v) WEFT_LAMBDA_INLINE { u.even[h].z = v; });
  }

  // Along a row dx/dr is constant, dx/ds = s0 + s1 r and dx/dt = t0 + t1 r. r0, r1, and therefore xr, hold twice the
  // actual values.
  __attribute__((noinline)) void trilinear_row(int j, const V* __restrict__ B, V* __restrict__ W) const {
    Halves u;
    velocity(B, u);
    const T s = t_.fine_points[j];
    const Vec3 xr = r0_ + r1_ * s, t0 = a(3) + a(6) * s, t1 = a(5) + a(7) * s, x0 = twice(s0_), x1 = twice(s1_);
    using space::cross;
    const Vec3 cr0 = cross<T>(x0, t0), cr1 = cross<T>(x0, t1) + cross<T>(x1, t0), cr2 = cross<T>(x1, t1);
    const Vec3 cs0 = cross<T>(t0, xr), cs1 = cross<T>(t1, xr), ct0 = cross<T>(xr, s0_), ct1 = cross<T>(xr, s1_);
#pragma GCC unroll 1
    for (int i = 0; i < h; ++i) {
      const T r = t_.fine_points[i];
      const Vec3 even = u.even[i], odd = u.odd[i];
      const auto put = [&](V* to, const Vec3& e, const Vec3& o) WEFT_LAMBDA_INLINE {
        to[0] = dot(e, even) + dot(o, odd);
        to[m - h] = dot(o, even) + dot(e, odd);
      };
      put(W + i, cr0 + cr2 * (r * r), cr1 * r);
      put(W + m + i, cs0, cs1 * r);
      put(W + 2 * m + i, ct0, ct1 * r);
    }
    if constexpr (m % 2 == 1) {  // r = 0
      const V half = V{} + T(0.5);
      const Vec3 v = u.even[h];
      W[h] = half * dot(cr0, v), W[m + h] = half * dot(cs0, v), W[2 * m + h] = half * dot(ct0, v);
    }
  }

  // The coordinates are interpolated like a field.
  __attribute__((noinline)) void read(const V* from) {
    for (int c = 0; c < 3; ++c) {
      V* X = X_ + c * field_vectors<n, m>;
      V* Q = Q_ + c * field_vectors<n, m>;
#pragma GCC unroll 1
      for (int ij = 0; ij < n * n; ++ij, from += n, X += pitch<m>, Q += pitch<m>) {
        V u[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = from[k];
        const Parts<n, V> p = simd::parts(u);
        simd::contract<m, n, true, T>(t_.value, p, [=](int k, V v) WEFT_LAMBDA_INLINE { X[k] = v; });
        simd::contract<m, n, false, T>(t_.slope, p, [=](int k, V v) WEFT_LAMBDA_INLINE { Q[k] = v; });
      }
    }
  }
  __attribute__((noinline)) void curved_row(int j, const V* __restrict__ B, V* __restrict__ W) const {
    for (int c = 0; c < 3; ++c) {
      const int row = c * component + j * n;
      V* const to = rows_ + c * m;
      fine_row<n, T>(t_, r_ + row, s_ + row, t_layer_ + row, to, to + 3 * m, to + 6 * m);
    }
    Halves u;
    velocity(B, u);
    // W at a point with velocity v.
    const auto at = [this](int i, const Vec3& v, V(&w)[3]) WEFT_LAMBDA_INLINE {
      const auto derivative = [&](int d) WEFT_LAMBDA_INLINE {
        const V* const x = rows_ + 3 * d * m + i;
        return Vec3{x[0], x[m], x[2 * m]};
      };
      const Vec3 xr = derivative(0), xs = derivative(1), xt = derivative(2);
      w[0] = dot(space::cross<T>(xs, xt), v);
      w[1] = dot(space::cross<T>(xt, xr), v);
      w[2] = dot(space::cross<T>(xr, xs), v);
    };
#pragma GCC unroll 1
    for (int i = 0; i < h; ++i) {
      V left[3], right[3];
      at(i, u.even[i] + u.odd[i], left);
      at(m - 1 - i, u.even[i] - u.odd[i], right);
      WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c) {
        W[c * m + i] = left[c] + right[c];
        W[c * m + m - h + i] = left[c] - right[c];
      }
    }
    if constexpr (m % 2 == 1) {
      V middle[3];
      at(h, u.even[h], middle);
      WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c) W[c * m + h] = middle[c];
    }
  }

  const SimdTables<T>& t_;
  Shape shape_;
  const T* maps_ = nullptr;  // affine and trilinear
  Vec3 cofactors_[3];        // affine: twice C_r, C_s, C_t
  Vec3 r0_, r1_, s0_, s1_;   // trilinear, of the layer: dx/dr = (r0 + r1 s) / 2, dx/ds = s0 + s1 r
  // Curved: x on layers and its derivative along t. For the current layer: x, its slope along s and that along t on
  // lines by parts [3][m][n], not yet interpolated to the points of rows. For a row: the derivatives at its points, [r,
  // s, t][3][m].
  V *X_ = nullptr, *Q_ = nullptr, *r_ = nullptr, *s_ = nullptr, *t_layer_ = nullptr, *rows_ = nullptr;
};

}  // namespace weft::flow
