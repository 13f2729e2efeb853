// What multigrid needs on host processors in addition to the operators of its levels: interpolation between orders, and
// solves on overlapping subdomains. They work block by block, with one element per vector lane, and are compiled once
// per order and scalar type (simd_order.hpp).
#pragma once

#include <cstdint>

#include "weft/poisson/simd_kernel.hpp"

namespace weft::poisson {

using simd::gather;
using simd::gather_lanes;
using simd::scatter_add;
using simd::scatter_add_serial;
using simd::scatter_lanes;
using simd::store;
using space::Range;

// Interpolation from a coarse order, as in kernels/transfer.hpp: every fine entry takes its value from one of its
// points.
template <class T>
struct SimdInterpolation {
  int coarse;                    // points per direction
  const T* transposed;           // [coarse][n]: J^T
  const std::int32_t* index;     // [blocks][coarse^3][lanes]: entry of the coarse vector
  const std::uint8_t* conflict;  // [blocks], as in space::BlockIndex
  std::int32_t zero;             // the coarse vector's entry of masked points
  // [blocks][surface points]: bit l is set if the entry takes its value from lane l. Entries of interior points always
  // do.
  const std::uint16_t* speaks;
};

// x_f += P x_c, or x_f = P x_c.
template <int N, class T>
void prolong_blocks(const space::BlockIndex& d, const SimdInterpolation<T>& p, Range chunk, const T* x_c, T* x_f,
                    bool add, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, lanes = simd::lanes<T>;
  const int c = p.coarse;
  V* __restrict__ const A = reinterpret_cast<V*>(scratch);
  V* __restrict__ const B = A + n * plane_stride<n> + scratch_gap;
  const auto line = [&](const V* from, int stride, V(&out)[n]) {
    WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) out[i] = p.transposed[i] * from[0];
    for (int m = 1; m < c; ++m) {
      const V u = from[m * stride];
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) out[i] += p.transposed[m * n + i] * u;
    }
  };
  for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
    const std::int32_t* at = p.index + b * cube(c) * lanes;
    V out[n];
    for (int kj = 0; kj < c * c; ++kj) {  // along r
      V u[n]{};
      for (int m = 0; m < c; ++m) u[m] = gather(x_c, at + (kj * c + m) * lanes);
      line(u, 1, out);
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) B[kj * n + i] = out[i];
    }
    for (int k = 0; k < c; ++k) {  // along s
      for (int i = 0; i < n; ++i) {
        line(B + k * c * n + i, n, out);
        WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) A[(k * n + j) * n + i] = out[j];
      }
    }
    const std::uint16_t* const speaks = p.speaks + b * space::surface_points<n>;
    const auto put = [&](const std::int32_t* index, V v, unsigned mask) {
      if (mask != 0) scatter_lanes(x_f, index, add ? v + gather_lanes(x_f, index, mask) : v, mask);
    };
    const space::BlockColumns<n, T> columns(d, b);
    space::for_columns<n>([&](int ij, auto column) {  // along t
      line(A + ij, n * n, out);
      columns.visit(
          column,
          [&](int k, int point, const std::int32_t* index) WEFT_LAMBDA_INLINE { put(index, out[k], speaks[point]); },
          [&](int k, std::int64_t entry) WEFT_LAMBDA_INLINE {
            T* const to = x_f + entry;
            store(to, add ? load(to) + out[k] : out[k]);
          },
          // Lanes beyond the last element write to a dummy slot.
          [&](int k, const std::int32_t* index) WEFT_LAMBDA_INLINE { put(index, out[k], ~0u); });
    });
  }
}

// r_c += P^T r_f
template <int N, class T>
void restrict_blocks(const space::BlockIndex& d, const SimdInterpolation<T>& p, Range chunk, const T* r_f, T* r_c,
                     T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, lanes = simd::lanes<T>;
  const int c = p.coarse;
  V* __restrict__ const A = reinterpret_cast<V*>(scratch);
  V* __restrict__ const B = A + n * plane_stride<n> + scratch_gap;
  const auto dot = [&](const V(&u)[n], int m) {
    const T* const row = p.transposed + m * n;
    V sum = row[0] * u[0];
    WEFT_UNROLL_ALL for (int i = 1; i < n; ++i) sum += row[i] * u[i];
    return sum;
  };
  for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
    const std::uint16_t* const speaks = p.speaks + b * space::surface_points<n>;
    const space::BlockColumns<n, T> columns(d, b);
    V u[n];
    space::for_columns<n>([&](int ij, auto column) {  // along t
      columns.visit(
          column,
          [&](int k, int point, const std::int32_t* index)
              WEFT_LAMBDA_INLINE { u[k] = gather_lanes(r_f, index, speaks[point]); },
          [&](int k, std::int64_t entry) WEFT_LAMBDA_INLINE { u[k] = load(r_f + entry); },
          [&](int k, const std::int32_t* index) WEFT_LAMBDA_INLINE { u[k] = gather(r_f, index); });
      for (int m = 0; m < c; ++m) A[m * n * n + ij] = dot(u, m);
    });
    for (int k = 0; k < c; ++k) {  // along s
      for (int i = 0; i < n; ++i) {
        WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = A[(k * n + j) * n + i];
        for (int m = 0; m < c; ++m) B[(k * c + m) * n + i] = dot(u, m);
      }
    }
    const std::int32_t* at = p.index + b * cube(c) * lanes;
    for (int kj = 0; kj < c * c; ++kj) {  // along r
      WEFT_UNROLL_ALL for (int i = 0; i < n; ++i) u[i] = B[kj * n + i];
      for (int m = 0; m < c; ++m, at += lanes) {
        if (p.conflict[b] != 0)
          scatter_add_serial<T>(r_c, at, dot(u, m), p.zero);
        else
          scatter_add<T>(r_c, at, dot(u, m));
      }
    }
  }
}

// Subdomains of an overlapping Schwarz method, as in kernels/schwarz.hpp; n = order + 1, m = n + 2.
template <class T>
struct SimdSubdomains {
  const std::int32_t* beyond;  // [blocks][6][n^2][lanes]: entry of r
  const T* vectors;            // [blocks][3][m][m][lanes]
  const T* values;             // [blocks][3][m][lanes]
};

constexpr int subdomain_vectors(int order) { return cube(order + 3); }

// Transforms a line of m values, `stride` apart, to the modes of its operator, v [m][m].
template <int m, class T>
WEFT_ALWAYS_INLINE void to_modes(const Vec<T>* __restrict__ v, Vec<T>* u, int stride) {
  Vec<T> sum[m];
  WEFT_UNROLL_ALL for (int a = 0; a < m; ++a) sum[a] = v[a] * u[0];
  for (int k = 1; k < m; ++k) {
    const Vec<T> x = u[k * stride];
    WEFT_UNROLL_ALL for (int a = 0; a < m; ++a) sum[a] += v[k * m + a] * x;
  }
  WEFT_UNROLL_ALL for (int a = 0; a < m; ++a) u[a * stride] = sum[a];
}
// Transforms modes back to the values at points 1..m - 2.
template <int m, class T>
WEFT_ALWAYS_INLINE void from_modes(const Vec<T>* __restrict__ v, Vec<T>* u, int stride) {
  Vec<T> sum[m];
  WEFT_UNROLL_ALL for (int k = 1; k < m - 1; ++k) sum[k] = v[k * m] * u[0];
  for (int a = 1; a < m; ++a) {
    const Vec<T> x = u[a * stride];
    WEFT_UNROLL_ALL for (int k = 1; k < m - 1; ++k) sum[k] += v[k * m + a] * x;
  }
  WEFT_UNROLL_ALL for (int k = 1; k < m - 1; ++k) u[k * stride] = sum[k];
}

// Solves on every subdomain, and adds the solution at the element's own points to y. scratch: subdomain_vectors(N)
// vectors.
template <int N, class T>
void schwarz_blocks(const space::BlockIndex& d, const SimdSubdomains<T>& s, Range chunk, const T* r, T* y, T* scratch) {
  using V = Vec<T>;
  constexpr int n = N + 1, m = n + 2, lanes = simd::lanes<T>;
  V* const u = reinterpret_cast<V*>(scratch);
  const auto point = [&](int i, int j, int k) -> V& { return u[(k * m + j) * m + i]; };
  for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
    const V* const v = reinterpret_cast<const V*>(s.vectors) + b * 3 * m * m;
    const V* const lambda = reinterpret_cast<const V*>(s.values) + b * 3 * m;
    const std::int32_t* const beyond = s.beyond + b * 6 * n * n * lanes;
    const auto layer = [&](int face, int row, int column) {
      return gather(r, beyond + ((face * n + row) * n + column) * lanes);
    };
    const space::BlockColumns<n, T> columns(d, b);
    space::for_columns<n>([&](int ij, auto place) {
      V* const column = &point(ij % n + 1, ij / n + 1, 1);
      V values[n];
      columns.read(r, place, values);
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) column[k * m * m] = values[k];
    });
    for (int k = 0; k < n; ++k) {
      for (int i = 0; i < n; ++i) {
        point(0, i + 1, k + 1) = layer(0, k, i);
        point(n + 1, i + 1, k + 1) = layer(1, k, i);
        point(i + 1, 0, k + 1) = layer(2, k, i);
        point(i + 1, n + 1, k + 1) = layer(3, k, i);
        point(i + 1, k + 1, 0) = layer(4, k, i);
        point(i + 1, k + 1, n + 1) = layer(5, k, i);
      }
    }
    for (int i = 0; i < m; ++i) {  // nothing beyond edges
      for (const int x : {0, n + 1}) {
        for (const int z : {0, n + 1}) point(i, x, z) = point(x, i, z) = point(x, z, i) = V{};
      }
    }

    for (int ij = 0; ij < m * m; ++ij) to_modes<m, T>(v + 2 * m * m, u + ij, m * m);
    for (int k = 0; k < m; ++k)
      for (int i = 0; i < m; ++i) to_modes<m, T>(v + m * m, u + k * m * m + i, m);
    for (int k = 0; k < m; ++k) {
      for (int j = 0; j < m; ++j) {
        V* const row = u + (k * m + j) * m;
        to_modes<m, T>(v, row, 1);
        const V two = lambda[m + j] + lambda[2 * m + k];
        WEFT_UNROLL_ALL for (int i = 0; i < m; ++i) {
          const V sum = lambda[i] + two;
          row[i] = sum > T{0} ? row[i] / sum : V{};
        }
        from_modes<m, T>(v, row, 1);
      }
    }
    for (int k = 0; k < m; ++k)
      for (int i = 1; i <= n; ++i) from_modes<m, T>(v + m * m, u + k * m * m + i, m);

    space::for_columns<n>([&](int ij, auto place) {
      V* const column = &point(ij % n + 1, ij / n + 1, 0);
      from_modes<m, T>(v + 2 * m * m, column, m * m);
      V values[n];
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) values[k] = column[(k + 1) * m * m];
      columns.add(y, place, values);
    });
  }
}

// The functions compiled for one order.
template <class T>
struct LevelPasses {
  void (*prolong)(const space::BlockIndex&, const SimdInterpolation<T>&, Range, const T* x_c, T* x_f, bool add, T*);
  void (*restrict_to)(const space::BlockIndex&, const SimdInterpolation<T>&, Range, const T* r_f, T* r_c, T*);
  void (*schwarz)(const space::BlockIndex&, const SimdSubdomains<T>&, Range, const T* r, T* y, T*);
};
// Orders 1..15.
template <class T>
const LevelPasses<T>& level_passes(int order);

}  // namespace weft::poisson
