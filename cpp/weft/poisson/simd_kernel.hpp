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

// Trilinear maps x = a0 + a1 r + a2 s + a3 t + a4 rs + a5 rt + a6 st + a7 rst. Along a row (s, t fixed) dx/dr does not
// change; x_s and x_t are linear in r, and so are the cofactors cs = x_t x x_r and ct = x_r x x_s. With their
// components along x_r removed (alpha = x_r.x_s / x_r.x_r, beta = x_r.x_t / x_r.x_r), the metric is
//   (f_s, f_t) = w / det [cs.cs cs.ct; cs.ct ct.ct] (u_s - alpha u_r, u_t - beta u_r)
//   f_r        = w det / x_r.x_r u_r - alpha f_s - beta f_t
// where alpha and beta are linear in r, and cs.cs, cs.ct, ct.ct and det quadratic. The coefficients of a plane's rows
// are made before its rows are visited, so that neither loop needs more registers than there are; the rows then take
// points r and -r together, with one division for both.
template <int n, class T>
class TrilinearRows {
  using V = Vec<T>;

 public:
  TrilinearRows(const SimdElements<T>& d, std::int64_t block)
      : d_(d), a_(d.maps + block * 24 * simd::lanes<T>), block_(block) {
    for (int j = 0; j < n; ++j) {
      t0_[j] = a(3) + a(6) * d.points[j];
      t1_[j] = a(5) + a(7) * d.points[j];
    }
  }
  WEFT_ALWAYS_INLINE void plane(int k) {
    const T t = d_.points[k];
    const Vec3<T> r0 = a(1) + a(5) * t, s0 = a(2) + a(6) * t, s1 = a(4) + a(7) * t;
    const Vec3<T> ct0 = space::cross<T>(r0, s0), ct0_s = space::cross<T>(s1, s0), ct1 = space::cross<T>(r0, s1);
#pragma GCC unroll 1
    for (int j = 0; j < n; ++j) {
      const T s = d_.points[j], w = d_.weights[j] * d_.weights[k];
      const Vec3<T> xr = r0 + s1 * s, t0 = t0_[j], t1 = t1_[j];
      const V inverse = T(1) / space::dot<T>(xr, xr), by_weight = inverse * w;
      Row& row = rows_[j];
      row.alpha = {space::dot<T>(xr, s0) * inverse, space::dot<T>(xr, s1) * inverse};
      row.beta = {space::dot<T>(xr, t0) * inverse, space::dot<T>(xr, t1) * inverse};
      row.scale = by_weight * w;
      const Vec3<T> cs0 = space::cross<T>(t0, xr), cs1 = space::cross<T>(t1, xr), c = ct0 + ct0_s * s;
      row.det = {space::dot<T>(s0, cs0) * by_weight, (space::dot<T>(s0, cs1) + space::dot<T>(s1, cs0)) * by_weight,
                 space::dot<T>(s1, cs1) * by_weight};
      row.ss = {space::dot<T>(cs0, cs0), 2 * space::dot<T>(cs0, cs1), space::dot<T>(cs1, cs1)};
      row.st = {space::dot<T>(cs0, c), space::dot<T>(cs0, ct1) + space::dot<T>(cs1, c), space::dot<T>(cs1, ct1)};
      row.tt = {space::dot<T>(c, c), 2 * space::dot<T>(c, ct1), space::dot<T>(ct1, ct1)};
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
      const T r = d_.points[m], w = d_.weights[i];
      const Pair alpha = row.alpha.at(r), beta = row.beta.at(r), det = row.det.at(r), ss = row.ss.at(r),
                 st = row.st.at(r), tt = row.tt.at(r);
      const V inverse = row.scale * w / (det.minus * det.plus);
      flux(alpha.minus, beta.minus, det.minus * w, ss.minus, st.minus, tt.minus, inverse * det.plus, ur[i], us[i],
           ut[i]);
      flux(alpha.plus, beta.plus, det.plus * w, ss.plus, st.plus, tt.plus, inverse * det.minus, ur[m], us[m], ut[m]);
    }
    if constexpr (n % 2 == 1) {
      constexpr int m = n / 2;
      const T w = d_.weights[m];
      flux(row.alpha.c0, row.beta.c0, row.det.c0 * w, row.ss.c0, row.st.c0, row.tt.c0, row.scale * w / row.det.c0,
           ur[m], us[m], ut[m]);
    }
  }

 private:
  struct Pair {  // at -r and r
    V minus, plus;
  };
  struct Linear {
    V c0, c1;
    WEFT_ALWAYS_INLINE Pair at(T r) const { return {c0 - c1 * r, c0 + c1 * r}; }
  };
  struct Quadratic {
    V c0, c1, c2;
    WEFT_ALWAYS_INLINE Pair at(T r) const { return Linear{c0 + c2 * (r * r), c1}.at(r); }
  };
  struct Row {
    Linear alpha, beta;
    Quadratic det, ss, st, tt;  // det: times w / x_r.x_r, which is a length: products of two do not underflow
    V scale;                    // w^2 / x_r.x_r; w without the weight along the row
  };

  static WEFT_ALWAYS_INLINE void flux(V alpha, V beta, V det, V ss, V st, V tt, V scale, V& ur, V& us, V& ut) {
    const V s = (us - alpha * ur) * scale, t = (ut - beta * ur) * scale;
    us = ss * s + st * t;
    ut = st * s + tt * t;
    ur = det * ur - alpha * us - beta * ut;
  }
  WEFT_ALWAYS_INLINE Vec3<T> a(int m) const { return map_coefficient(a_, m); }

  const SimdElements<T>& d_;
  const T* a_;
  std::int64_t block_;
  Vec3<T> t0_[n], t1_[n];  // dx/dt = t0 + t1 r, by row
  Row rows_[n];            // of the plane
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
