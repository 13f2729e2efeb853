// The flow's terms on a block of elements, one a vector lane, straight between assembled vectors. A term is
//   columns in t: its fields read from the vectors, and their derivatives along t (or values and slopes on fine layers)
//   planes k:     lines along r and s, the metric row by row, the fluxes and their transposes
//   columns in t: what is left along t, and adding to the vectors
// The functions below are these steps, each compiled once for an order; terms (simd_terms.hpp) put them together. No
// step is inlined into another: a line's arithmetic is long enough, and compilers are spared 15 x 6 large loops.
#pragma once

#include <cstdint>

#include "weft/element/gauss.hpp"
#include "weft/flow/simd_blocks.hpp"
#include "weft/poisson/simd_blocks.hpp"
#include "weft/poisson/simd_kernel.hpp"
#include "weft/simd/between_points.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"

namespace weft::flow {

using poisson::cross;
using poisson::cube;
using poisson::SimdBlocks;
using poisson::Vec3;
using simd::contract;
using simd::load;
using simd::Vec;

// Fields of a block are kept column by column, [j n + i][k] of k < l, so that what is done along t stores in a row: a
// column has `pitch` vectors, odd, so that a plane does not fall into few sets of the first cache.
template <int l>
inline constexpr int pitch = l | 1;
template <int n, int l>
inline constexpr int field_vectors = n * n * pitch<l> + 5;

// Consecutive arrays of vectors; gaps keep one point's out of one set of the first cache.
template <class T>
class Scratch {
 public:
  explicit Scratch(T* begin) : at_(reinterpret_cast<Vec<T>*>(begin)) {}
  Vec<T>* take(int count) {
    Vec<T>* const taken = at_;
    at_ += count + 3;
    return taken;
  }
  std::int64_t taken(const T* begin) const { return at_ - reinterpret_cast<const Vec<T>*>(begin); }

 private:
  Vec<T>* at_;
};

// The lines to ask for while a block computes: entries the next one touches first, of every vector read or added to.
template <class T>
struct Prefetch {
  const T* streams[12];
  int count;
  std::int64_t at = 0, end = 0, per_step = 0;

  void start(std::int64_t begin, std::int64_t stop, int steps) {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
    at = begin;
    end = stop;
    per_step = ((end - begin + steps - 1) / steps + line - 1) / line * line;
  }
  WEFT_ALWAYS_INLINE void step() {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
    const std::int64_t stop = at + per_step < end ? at + per_step : end;
    for (; at < stop; at += line)
      for (int s = 0; s < count; ++s) __builtin_prefetch(streams[s] + at, 0, 2);
  }
};

// use(field, column, values[n]) for all columns of a block.
template <int n, class T, class Use>
__attribute__((noinline)) void read_columns(const SimdBlocks<T>& d, std::int64_t block, const T* x,
                                            std::int64_t entries, int fields, Use use) {
  constexpr int lanes = simd::lanes<T>;
  const std::int32_t* at = d.index + block * poisson::surface_points<n> * lanes;
  const bool in_a_row = d.interior[block] >= 0;
  const std::int64_t first = d.interior[block];
  const std::int32_t* const inside = in_a_row ? nullptr : d.interior_index + (-1 - first);
  poisson::for_columns<n>(
      [&](int ij) {
        for (int f = 0; f < fields; ++f) {
          Vec<T> u[n];
          WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = simd::gather(x + f * entries, at + k * lanes);
          use(f, ij, u);
        }
        at += n * lanes;
      },
      [&](int ij, int point) {
        for (int f = 0; f < fields; ++f) {
          const T* from = x + f * entries;
          Vec<T> u[n];
          u[0] = simd::gather(from, at);
          u[n - 1] = simd::gather(from, at + lanes);
          if (in_a_row) {
            WEFT_UNROLL_ALL for (int k = 1; k < n - 1; ++k) u[k] = load(from + first + (point + k - 1) * lanes);
          } else {
            for (int k = 1; k < n - 1; ++k) u[k] = simd::gather(from, inside + (point + k - 1) * lanes);
          }
          use(f, ij, u);
        }
        at += 2 * lanes;
      });
}

// make(field, column, values[n]) gives what is added to the vectors; insides that a block alone has are written.
template <int n, class T, class Make>
__attribute__((noinline)) void add_columns(const SimdBlocks<T>& d, std::int64_t block, T* y, std::int64_t entries,
                                           int fields, Make make) {
  constexpr int lanes = simd::lanes<T>;
  const std::int32_t* at = d.index + block * poisson::surface_points<n> * lanes;
  const bool in_a_row = d.interior[block] >= 0, conflict = d.conflict[block] != 0;
  const std::int64_t first = d.interior[block];
  const std::int32_t* const inside = in_a_row ? nullptr : d.interior_index + (-1 - first);
  const auto add = [&](T* to, const std::int32_t* index, Vec<T> v) WEFT_LAMBDA_INLINE {
    if (conflict)
      simd::scatter_add_serial<T>(to, index, v);
    else
      simd::scatter_add<T>(to, index, v);
  };
  poisson::for_columns<n>(
      [&](int ij) {
        for (int f = 0; f < fields; ++f) {
          Vec<T> u[n];
          make(f, ij, u);
          WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) add(y + f * entries, at + k * lanes, u[k]);
        }
        at += n * lanes;
      },
      [&](int ij, int point) {
        for (int f = 0; f < fields; ++f) {
          T* to = y + f * entries;
          Vec<T> u[n];
          make(f, ij, u);
          add(to, at, u[0]);
          add(to, at + lanes, u[n - 1]);
          if (in_a_row) {
            WEFT_UNROLL_ALL for (int k = 1; k < n - 1; ++k) simd::store(to + first + (point + k - 1) * lanes, u[k]);
          } else {
            for (int k = 1; k < n - 1; ++k) add(to, inside + (point + k - 1) * lanes, u[k]);
          }
        }
        at += 2 * lanes;
      });
}

// Columns of a term into planes: U, and where Q is asked for its derivative along t.
template <int n, class T>
void read_values(const SimdBlocks<T>& d, std::int64_t block, const T* x, std::int64_t entries, int fields, Vec<T>* U) {
  read_columns<n, T>(d, block, x, entries, fields, [=](int f, int ij, const Vec<T>(&u)[n]) WEFT_LAMBDA_INLINE {
    Vec<T>* const to = U + f * field_vectors<n, n> + ij * pitch<n>;
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) to[k] = u[k];
  });
}
template <int n, class T>
void read_derivatives(const SimdBlocks<T>& d, const T* derivative, std::int64_t block, const T* x, std::int64_t entries,
                      int fields, Vec<T>* U, Vec<T>* Q) {
  read_columns<n, T>(d, block, x, entries, fields, [=](int f, int ij, const Vec<T>(&u)[n]) WEFT_LAMBDA_INLINE {
    Vec<T>* const to = U + f * field_vectors<n, n> + ij * pitch<n>;
    Vec<T>* const slope = Q + f * field_vectors<n, n> + ij * pitch<n>;
    WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) to[k] = u[k];
    contract<n, T>(derivative, u, [=](int k, Vec<T> v) WEFT_LAMBDA_INLINE { slope[k] = v; });
  });
}
// The same onto fine layers: values, and slopes where asked for.
template <int n, class T>
void read_fine(const SimdBlocks<T>& d, const SimdTables<T>& t, std::int64_t block, const T* x, std::int64_t entries,
               int fields, bool slopes, Vec<T>* A, Vec<T>* S) {
  constexpr int m = element::dealiasing_points(n - 1);
  const T *value = t.value, *slope = t.slope;
  read_columns<n, T>(d, block, x, entries, fields, [=](int f, int ij, const Vec<T>(&u)[n]) WEFT_LAMBDA_INLINE {
    Vec<T>* const a = A + f * field_vectors<n, m> + ij * pitch<m>;
    contract<m, n, true, T>(value, u, [=](int k, Vec<T> v) WEFT_LAMBDA_INLINE { a[k] = v; });
    if (!slopes) return;
    Vec<T>* const s = S + f * field_vectors<n, m> + ij * pitch<m>;
    contract<m, n, false, T>(slope, u, [=](int k, Vec<T> v) WEFT_LAMBDA_INLINE { s[k] = v; });
  });
}

// R = du/dr, S = du/ds [n][n] of plane U, which points at layer k of the first column.
template <int n, class T>
__attribute__((noinline)) void plane_derivatives(const T* __restrict__ derivative, const Vec<T>* __restrict__ U,
                                                 Vec<T>* __restrict__ R, Vec<T>* __restrict__ S) {
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = U[(j * n + i) * pitch<n>];
    contract<n, T>(derivative, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { S[j * n + i] = v; });
  }
#pragma GCC unroll 1
  for (int j = 0; j < n; ++j) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = U[(j * n + i) * pitch<n>];
    contract<n, T>(derivative, u, [=](int i, Vec<T> v) WEFT_LAMBDA_INLINE { R[j * n + i] = v; });
  }
}

// The plane U += M R along r and M S along s.
template <int n, class T>
__attribute__((noinline)) void add_plane(const T* __restrict__ matrix, const Vec<T>* __restrict__ R,
                                         const Vec<T>* __restrict__ S, Vec<T>* __restrict__ U) {
#pragma GCC unroll 1
  for (int j = 0; j < n; ++j) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = R[j * n + i];
    contract<n, T>(matrix, u, [=](int i, Vec<T> v) WEFT_LAMBDA_INLINE { U[(j * n + i) * pitch<n>] += v; });
  }
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = S[j * n + i];
    contract<n, T>(matrix, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { U[(j * n + i) * pitch<n>] += v; });
  }
}

// Lines along s of layer A of fine points, as above: [m][n] values, slopes.
template <int n, class T>
__attribute__((noinline)) void fine_values(const SimdTables<T>& t, const Vec<T>* __restrict__ A,
                                           Vec<T>* __restrict__ B) {
  constexpr int m = element::dealiasing_points(n - 1);
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = A[(j * n + i) * pitch<m>];
    contract<m, n, true, T>(t.value, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { B[j * n + i] = v; });
  }
}
template <int n, class T>
__attribute__((noinline)) void fine_slopes(const SimdTables<T>& t, const Vec<T>* __restrict__ A,
                                           Vec<T>* __restrict__ Bs) {
  constexpr int m = element::dealiasing_points(n - 1);
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[n];
    WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = A[(j * n + i) * pitch<m>];
    contract<m, n, false, T>(t.slope, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { Bs[j * n + i] = v; });
  }
}
// Of a row [n]: values or slopes on its fine points.
template <int n, class T>
__attribute__((noinline)) void fine_row(const T* __restrict__ value, const Vec<T>* __restrict__ B,
                                        Vec<T>* __restrict__ v) {
  constexpr int m = element::dealiasing_points(n - 1);
  Vec<T> u[n];
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = B[i];
  contract<m, n, true, T>(value, u, [=](int i, Vec<T> w) WEFT_LAMBDA_INLINE { v[i] = w; });
}
template <int n, class T>
__attribute__((noinline)) void fine_row_slopes(const T* __restrict__ slope, const Vec<T>* __restrict__ B,
                                               Vec<T>* __restrict__ v) {
  constexpr int m = element::dealiasing_points(n - 1);
  Vec<T> u[n];
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = B[i];
  contract<m, n, false, T>(slope, u, [=](int i, Vec<T> w) WEFT_LAMBDA_INLINE { v[i] = w; });
}

// The projection onto [n] of U_r df/dr + U_s df/ds + U_t df/dt on a row of fine points; U [3][m].
template <int n, class T>
__attribute__((noinline)) void convect_row(const SimdTables<T>& t, const Vec<T>* __restrict__ B,
                                           const Vec<T>* __restrict__ Bs, const Vec<T>* __restrict__ Bt,
                                           const Vec<T>* __restrict__ U, Vec<T>* __restrict__ out) {
  constexpr int m = element::dealiasing_points(n - 1);
  Vec<T> u[n], g[m];
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = B[i];
  contract<m, n, false, T>(t.slope, u, [&](int i, Vec<T> v) WEFT_LAMBDA_INLINE { g[i] = U[i] * v; });
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = Bs[i];
  contract<m, n, true, T>(t.value, u, [&](int i, Vec<T> v) WEFT_LAMBDA_INLINE { g[i] += U[m + i] * v; });
  WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = Bt[i];
  contract<m, n, true, T>(t.value, u, [&](int i, Vec<T> v) WEFT_LAMBDA_INLINE { g[i] += U[2 * m + i] * v; });
  contract<n, m, true, T>(t.project, g, [=](int i, Vec<T> v) WEFT_LAMBDA_INLINE { out[i] = v; });
}
// A layer's rows [m][n] projected along s onto layer A.
template <int n, class T>
__attribute__((noinline)) void project_plane(const SimdTables<T>& t, const Vec<T>* __restrict__ H,
                                             Vec<T>* __restrict__ A) {
  constexpr int m = element::dealiasing_points(n - 1);
#pragma GCC unroll 1
  for (int i = 0; i < n; ++i) {
    Vec<T> u[m];
    WEFT_UNROLL_ALL for (int j = 0; j < m; ++j) u[j] = H[j * n + i];
    contract<n, m, true, T>(t.project, u, [=](int j, Vec<T> v) WEFT_LAMBDA_INLINE { A[(j * n + i) * pitch<m>] = v; });
  }
}

// The cofactors C_r, C_s, C_t of a block, J grad r_a, row after row of its points (l = n) or fine points (l = m).
template <int n, int l, class T>
class Cofactors {
  using V = Vec<T>;
  static constexpr bool fine = l != n;

 public:
  Cofactors(const SimdTables<T>& t, const SimdGeometry<T>& g, std::int64_t block, Scratch<T>& scratch)
      : t_(t), shape_(g.shape[block]), points_(fine ? t.fine_points : t.points), row_(scratch.take(9 * l)) {
    constexpr int lanes = simd::lanes<T>;
    if (shape_ != Shape::curved) {
      maps_ = g.maps + block * 24 * lanes;
      if (shape_ == Shape::affine) {
        put(row_, cross<T>(a(2), a(3)), cross<T>(a(3), a(1)), cross<T>(a(1), a(2)));
        step = 0;
      }
      return;
    }
    X_ = scratch.take(3 * field_vectors<n, l>);
    Q_ = scratch.take(3 * field_vectors<n, l>);
    for (V** to : {&r_, &s_, &t_layer_}) *to = scratch.take(3 * l * n);
    rows_ = scratch.take(9 * l);
    read(reinterpret_cast<const V*>(g.coordinates) + block * 3 * cube(n));
  }

  void plane(int k) {
    if (shape_ == Shape::trilinear) {
      const T t = points_[k];
      r0_ = a(1) + a(5) * t;
      r1_ = a(4) + a(7) * t;
      s0_ = a(2) + a(6) * t;
    } else if (shape_ == Shape::curved) {
      curved_plane(k);
    }
  }
  // 9 vectors a point: of C_r, C_s, C_t the x, y, z components; points are `step` vectors apart.
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
  // Along a row dx/dr does not change, dx/ds = s0 + r1 r and dx/dt = t0 + t1 r.
  __attribute__((noinline)) void trilinear_row(int j) {
    const T s = points_[j];
    const Vec3<T> xr = r0_ + r1_ * s, t0 = a(3) + a(6) * s, t1 = a(5) + a(7) * s;
    const Vec3<T> cr0 = cross<T>(s0_, t0), cr1 = cross<T>(s0_, t1) + cross<T>(r1_, t0), cr2 = cross<T>(r1_, t1);
    const Vec3<T> cs0 = cross<T>(t0, xr), cs1 = cross<T>(t1, xr), ct0 = cross<T>(xr, s0_), ct1 = cross<T>(xr, r1_);
#pragma GCC unroll 1
    for (int i = 0; i < l; ++i) {
      const T r = points_[i];
      put(row_ + 9 * i, cr0 + (cr1 + cr2 * r) * r, cs0 + cs1 * r, ct0 + ct1 * r);
    }
  }

  // The coordinates are a field like others.
  __attribute__((noinline)) void read(const V* from) {
    for (int c = 0; c < 3; ++c) {
      V* X = X_ + c * field_vectors<n, l>;
      V* Q = Q_ + c * field_vectors<n, l>;
#pragma GCC unroll 1
      for (int ij = 0; ij < n * n; ++ij, from += n, X += pitch<l>, Q += pitch<l>) {
        V u[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = from[k];
        const auto value = [=](int k, V v) WEFT_LAMBDA_INLINE { X[k] = v; };
        const auto slope = [=](int k, V v) WEFT_LAMBDA_INLINE { Q[k] = v; };
        if constexpr (fine) {
          contract<l, n, true, T>(t_.value, u, value);
          contract<l, n, false, T>(t_.slope, u, slope);
        } else {
          WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) value(k, u[k]);
          contract<n, T>(t_.derivative, u, slope);
        }
      }
    }
  }
  void curved_plane(int k) {
    for (int c = 0; c < 3; ++c) {
      const V* const X = X_ + c * field_vectors<n, l> + k;
      const V* const Q = Q_ + c * field_vectors<n, l> + k;
      if constexpr (fine) {
        fine_values<n, T>(t_, X, r_ + c * l * n);
        fine_slopes<n, T>(t_, X, s_ + c * l * n);
        fine_values<n, T>(t_, Q, t_layer_ + c * l * n);
      } else {
        plane_derivatives<n, T>(t_.derivative, X, r_ + c * l * n, s_ + c * l * n);
      }
    }
    k_ = k;
  }
  void curved_row(int j) {
    const V* at[9];  // of dx/dr, dx/ds, dx/dt the components' rows
    for (int c = 0; c < 3; ++c) {
      if constexpr (fine) {
        fine_row_slopes<n, T>(t_.slope, r_ + (c * l + j) * n, rows_ + c * l);
        fine_row<n, T>(t_.value, s_ + (c * l + j) * n, rows_ + (3 + c) * l);
        fine_row<n, T>(t_.value, t_layer_ + (c * l + j) * n, rows_ + (6 + c) * l);
        for (int a = 0; a < 3; ++a) at[3 * a + c] = rows_ + (3 * a + c) * l;
      } else {
        at[c] = r_ + (c * l + j) * n;
        at[3 + c] = s_ + (c * l + j) * n;
        const V* const from = Q_ + c * field_vectors<n, l> + j * n * pitch<l> + k_;
        for (int i = 0; i < n; ++i) rows_[c * l + i] = from[i * pitch<l>];
        at[6 + c] = rows_ + c * l;
      }
    }
#pragma GCC unroll 1
    for (int i = 0; i < l; ++i) {
      const Vec3<T> xr{at[0][i], at[1][i], at[2][i]}, xs{at[3][i], at[4][i], at[5][i]},
          xt{at[6][i], at[7][i], at[8][i]};
      put(row_ + 9 * i, cross<T>(xs, xt), cross<T>(xt, xr), cross<T>(xr, xs));
    }
  }

  const SimdTables<T>& t_;
  Shape shape_;
  const T* points_;
  V* row_;
  const T* maps_ = nullptr;  // affine and trilinear
  Vec3<T> r0_, r1_, s0_;     // trilinear, of the plane: dx/dr = r0 + r1 s, dx/ds = s0 + r1 r
  // Curved: x on planes and its derivative along t; of the plane [3][l][n] dx/dr and dx/ds, on fine points x, its slope
  // along s and that along t still to be taken to the points of rows; a row's derivatives there.
  V *X_ = nullptr, *Q_ = nullptr, *r_ = nullptr, *s_ = nullptr, *t_layer_ = nullptr, *rows_ = nullptr;
  int k_ = 0;
};

}  // namespace weft::flow
