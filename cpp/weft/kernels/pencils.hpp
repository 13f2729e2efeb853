// Transforms lines of an element's points in three directions, with one thread per column (i, j) of points.
#pragma once
#include "weft/kernels/even_odd.hpp"

namespace {

// A thread does the pointwise work of its column, and differentiates along t, in registers. Lines along r and s pass
// through two shared arrays, one per direction, and the same threads transform them there in place. A chunk is the
// layers that the arrays hold at a time: all of them, or half of them, which takes fewer registers but more barriers.
// Derivatives along both directions cost 8 accesses to shared memory per point at any N. Contracting straight from
// shared memory would cost 2 n.
//
// In the array for s, point (i, j, k) of a chunk is at k s_layer + j n + i. In the array for r, it is at
// i r_pitch + k n + j. Neighbouring threads therefore take neighbouring lines in both directions. The paddings of
// r_pitch, s_layer and an element were found by trying all: they give the fewest bank conflicts.
constexpr int chunks = n <= (sizeof(real) == 8 ? 9 : 13) ? 1 : 2;
constexpr int layers = chunks == 1 ? n : rows;
constexpr int lines = n * layers;
struct Padding {
  int r, s, element;
};
constexpr Padding paddings_double[] = {{2, 2, 4},  {1, 10, 2}, {4, 4, 0},  {4, 12, 15}, {2, 2, 12},
                                       {6, 6, 15}, {2, 8, 0},  {8, 8, 0},  {3, 6, 0},   {1, 2, 0},
                                       {2, 12, 0}, {10, 4, 0}, {0, 10, 0}, {7, 14, 0},  {1, 0, 0}};
constexpr Padding paddings_float[] = {{6, 6, 4},   {12, 26, 1}, {12, 4, 16}, {25, 12, 6}, {8, 2, 24},
                                      {3, 22, 20}, {4, 8, 0},   {8, 24, 0},  {0, 6, 0},   {10, 18, 0},
                                      {1, 28, 0},  {28, 4, 0},  {5, 10, 0},  {23, 14, 0}, {2, 16, 0}};
constexpr Padding padding = sizeof(real) == 8 ? paddings_double[WEFT_N - 1] : paddings_float[WEFT_N - 1];
constexpr int r_pitch = lines + padding.r;
constexpr int s_layer = face + padding.s;
constexpr int s_first = n * r_pitch;  // where the array for s begins
constexpr int element_values = s_first + layers * s_layer + padding.element;
constexpr int pencils = chunks == 1 ? face : 2 * lines;  // threads of an element: face, or n * (n + 1)
constexpr int lines_per_thread = chunks == 1 ? 2 : 1;

// Calls use(q, first, stride) for each line q of thread l, whose points are at first, first + stride, ... With one
// chunk, a thread has a line along r and one along s. With two chunks, it has a single line, along r or s.
template <class Use>
WEFT_FUNCTION void each_line(int l, const Use& use) {
  WEFT_UNROLL
  for (int q = 0; q < lines_per_thread; ++q) {
    const bool along_r = chunks == 1 ? q == 0 : l < lines;
    const int line = chunks == 1 || along_r ? l : l - lines;
    use(q, along_r ? line : s_first + line / n * s_layer + line % n, along_r ? r_pitch : n);
  }
}
template <class Transform>
WEFT_FUNCTION void transform_lines(real* base, int l, const Transform& transform) {
  each_line(l, [&](int, int first, int stride) {
    real* line = base + first;
    real in[n], out[n];
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) in[m] = line[m * stride];
    transform(in, out);
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) line[m * stride] = out[m];
  });
}

// Where the bottom of column l is in the arrays for r and s.
template <class T>
struct Layers {
  T *r, *s;
};
template <class T>
WEFT_FUNCTION Layers<T> layers_of(T* base, int l) {
  return {base + l % n * r_pitch + l / n, base + s_first + l};
}

// Layers [begin, end) of a column of Z x; 0 if the thread has no element.
WEFT_FUNCTION void gather_column(bool live, int element, int l, int begin, int end, const int* WEFT_RESTRICT index,
                                 const real* WEFT_RESTRICT x, real (&u)[n]) {
  WEFT_UNROLL
  for (int k = begin; k < end; ++k) {
    u[k] = 0;
    if (!live) continue;
    const long p = static_cast<long>(element) * points + k * face + l;
    u[k] = x[index == nullptr ? p : static_cast<long>(index[p])];
  }
}

}  // namespace
