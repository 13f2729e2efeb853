// Local solves of an overlapping Schwarz method by fast diagonalisation (Lottes and Fischer, J. Sci. Comput. 24, 2005).
//
// A subdomain is an element with n = WEFT_N + 1 points per direction, plus one layer of points of its neighbours beyond
// each face; there is nothing beyond its edges. It has m = n + 2 points per direction. A thread processes
// WEFT_TILE_LINES of the m^2 lines of a direction, so that each entry of the one-dimensional eigenvectors is loaded
// once for all of them. WEFT_TILE_ELEMENTS elements share a block.
#include "weft/kernels/element.hpp"

#ifndef WEFT_TILE_LINES
#define WEFT_TILE_LINES 1
#endif

namespace {

constexpr int m = n + 2;
constexpr int lines = WEFT_TILE_LINES;
constexpr int element_threads = (m * m + lines - 1) / lines;
constexpr int threads = tile * element_threads;
constexpr int tables = 3 * m * m + 3 * m;  // vectors and values per element

// On GPUs, rows of odd length, which have few bank conflicts, and the tables in shared memory, if both fit.
#if defined(WEFT_TARGET_GPU) || defined(WEFT_TARGET_FIBER)
constexpr int room = 48 * 1024 / sizeof(real);
constexpr int pitch = tile * m * m * (m | 1) <= room ? m | 1 : m;
constexpr bool staged = tile * (m * m * pitch + tables) <= room;
#else
constexpr int pitch = m;
constexpr bool staged = false;
#endif

// Lines in direction d of (r, s, t) start at start[d] and have steps of step[d].
template <int d>
WEFT_FUNCTION int line_start(int a, int b) {
  return d == 0 ? (b * m + a) * pitch : d == 1 ? b * (m * pitch) + a : b * pitch + a;
}
template <int d>
constexpr int line_step = d == 0   ? 1
                          : d == 1 ? pitch
                                   : m * pitch;

// The lines of a thread, out of A by B lines: at coordinates a and b in the other two directions, without the layer if
// A or B is n. They begin at `start`; -1 for none.
template <int A, int B>
struct Lines {
  static constexpr int count = (A * B + element_threads - 1) / element_threads;
  int start[count], a[count], b[count];
};
template <int d, int A, int B>
WEFT_FUNCTION Lines<A, B> lines_of(int t) {
  Lines<A, B> mine;
  WEFT_UNROLL
  for (int l = 0; l < mine.count; ++l) {
    const int q = l * element_threads + t;
    mine.a[l] = q % A + (A == n ? 1 : 0);
    mine.b[l] = q / A + (B == n ? 1 : 0);
    mine.start[l] = q < A * B ? line_start<d>(mine.a[l], mine.b[l]) : -1;
  }
  return mine;
}

// For lines in direction d: V^T u (to modes), or V u at the element's own points only, 1 … n of a line (from modes).
template <int d, bool to_modes, int A, int B>
struct Change {
  static constexpr int count = Lines<A, B>::count, begin = to_modes ? 0 : 1, end = to_modes ? m : n + 1;
  Lines<A, B> mine;
  real sums[count][m];
};
template <int d, bool to_modes, int A, int B>
WEFT_FUNCTION void change(int t, const real* v, const real* u, Change<d, to_modes, A, B>& to) {
  constexpr int count = Lines<A, B>::count;
  to.mine = lines_of<d, A, B>(t);
  WEFT_UNROLL
  for (int l = 0; l < count; ++l) {
    WEFT_UNROLL
    for (int a = to.begin; a < to.end; ++a) to.sums[l][a] = 0;
  }
  WEFT_NO_UNROLL
  for (int k = 0; k < m; ++k) {
    real x[count];
    WEFT_UNROLL
    for (int l = 0; l < count; ++l) x[l] = to.mine.start[l] >= 0 ? u[to.mine.start[l] + k * line_step<d>] : real(0);
    WEFT_UNROLL
    for (int a = to.begin; a < to.end; ++a) {
      const real entry = v[to_modes ? k * m + a : a * m + k];
      WEFT_UNROLL
      for (int l = 0; l < count; ++l) to.sums[l][a] += entry * x[l];
    }
  }
}
template <int d, bool to_modes, int A, int B>
WEFT_FUNCTION void change_in_place(int t, const real* v, real* u) {
  Change<d, to_modes, A, B> to;
  change(t, v, u, to);
  WEFT_UNROLL
  for (int l = 0; l < to.count; ++l) {
    if (to.mine.start[l] < 0) continue;
    WEFT_UNROLL
    for (int a = to.begin; a < to.end; ++a) u[to.mine.start[l] + a * line_step<d>] = to.sums[l][a];
  }
}

// Calls to(q, from(q)) for q < size, using all threads of the block with several loads in flight; to(q, 0) from there
// to `total`.
template <int total, class From, class To>
WEFT_FUNCTION void fetch(int thread, int size, const From& from, const To& to) {
  constexpr int together = 8;
  WEFT_NO_UNROLL
  for (int first = thread; first < total; first += together * threads) {
    real values[together];
    WEFT_UNROLL
    for (int c = 0; c < together; ++c) values[c] = first + c * threads < size ? from(first + c * threads) : real(0);
    WEFT_UNROLL
    for (int c = 0; c < together; ++c) {
      if (first + c * threads < total) to(first + c * threads, values[c]);
    }
  }
}

}  // namespace

// own [element][n^3] = the result of each subdomain's solve, with r as right-hand side, at its element's own points.
// index [element][m^3]: entries of r, with a zero beyond edges. vectors [element][3][m][m], values [element][3][m]:
// those of the one-dimensional operators.
WEFT_KERNEL(schwarz_points, threads,
            (int count, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT vectors,
             const real* WEFT_RESTRICT values, const real* WEFT_RESTRICT r, real* WEFT_RESTRICT own)) {
  WEFT_SHARED(real, shared_u[tile * m * m * pitch]);
  WEFT_SHARED(real, shared_v[staged ? tile * 3 * m * m : 1]);
  WEFT_SHARED(real, shared_lambda[staged ? tile * 3 * m : 1]);
  const long first = static_cast<long>(WEFT_BLOCK) * tile;
  const int here = count - first < tile ? static_cast<int>(count - first) : tile;  // elements of this block
  const auto v_of = [&](int e) {
    if constexpr (staged) return shared_v + e * 3 * m * m;
    if constexpr (!staged) return vectors + (first + e) * 3 * m * m;
  };
  WEFT_THREADS(thread, threads) {
    const int* const at = index + first * m * m * m;
    fetch<tile * m * m * m>(
        thread, here * m * m * m, [&](int p) { return r[at[p]]; },
        [&](int p, real value) { shared_u[p / m * pitch + p % m] = value; });
    if constexpr (staged) {
      fetch<tile * 3 * m * m>(
          thread, here * 3 * m * m, [&](int p) { return vectors[first * 3 * m * m + p]; },
          [&](int p, real value) { shared_v[p] = value; });
      fetch<tile * 3 * m>(
          thread, here * 3 * m, [&](int p) { return values[first * 3 * m + p]; },
          [&](int p, real value) { shared_lambda[p] = value; });
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, threads) {  // along t
    const int e = thread / element_threads, t = thread % element_threads;
    if (e < here) change_in_place<2, true, m, m>(t, v_of(e) + 2 * m * m, shared_u + e * m * m * pitch);
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, threads) {  // along s
    const int e = thread / element_threads, t = thread % element_threads;
    if (e < here) change_in_place<1, true, m, m>(t, v_of(e) + m * m, shared_u + e * m * m * pitch);
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, threads) {  // along r and back
    const int e = thread / element_threads, t = thread % element_threads;
    if (e < here) {
      const real* const v = v_of(e);
      const real* const lambda = staged ? shared_lambda + e * 3 * m : values + (first + e) * 3 * m;
      real* const u = shared_u + e * m * m * pitch;
      Change<0, true, m, m> to;
      constexpr int count = to.count;  // at most WEFT_TILE_LINES
      change(t, v, u, to);
      WEFT_UNROLL
      for (int l = 0; l < count; ++l) {
        if (to.mine.start[l] < 0) continue;
        const real two = lambda[m + to.mine.a[l]] + lambda[2 * m + to.mine.b[l]];
        WEFT_UNROLL
        for (int a = 0; a < m; ++a) {
          const real sum = lambda[a] + two;
          to.sums[l][a] = sum > 0 ? to.sums[l][a] * weft_reciprocal(sum) : real(0);
        }
      }
      WEFT_NO_UNROLL
      for (int a = 1; a <= n; ++a) {
        real back[count] = {};
        WEFT_UNROLL
        for (int k = 0; k < m; ++k) {
          const real entry = v[a * m + k];
          WEFT_UNROLL
          for (int l = 0; l < count; ++l) back[l] += entry * to.sums[l][k];
        }
        WEFT_UNROLL
        for (int l = 0; l < count; ++l) {
          if (to.mine.start[l] >= 0) u[to.mine.start[l] + a] = back[l];
        }
      }
    }
  }
  WEFT_BARRIER();
  WEFT_THREADS(thread, threads) {  // along s
    const int e = thread / element_threads, t = thread % element_threads;
    if (e < here) change_in_place<1, false, n, m>(t, v_of(e) + m * m, shared_u + e * m * m * pitch);
  }
  // If a thread has lines of one coordinate a, it has them in both directions.
  if constexpr (element_threads != n) WEFT_BARRIER();
  WEFT_THREADS(thread, threads) {  // along t
    const int e = thread / element_threads, t = thread % element_threads;
    if (e < here) {
      Change<2, false, n, n> to;
      change(t, v_of(e) + 2 * m * m, shared_u + e * m * m * pitch, to);
      WEFT_UNROLL
      for (int l = 0; l < to.count; ++l) {
        if (to.mine.start[l] < 0) continue;
        real* const out = own + ((first + e) * n * n + to.mine.b[l] - 1) * n + to.mine.a[l] - 1;
        WEFT_UNROLL
        for (int a = 1; a <= n; ++a) out[(a - 1) * n * n] = to.sums[l][a];
      }
    }
  }
}
