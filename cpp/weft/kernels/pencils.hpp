// Lines of an element's points in three directions, with one thread per column (i, j) of points.
#pragma once
#include "weft/kernels/even_odd.hpp"

namespace {

// One thread per column (i, j) for what is pointwise and along t; the same threads take lines along r and s, in place,
// of all layers at once or of half of them at a time: n * layers lines of each, held in two shared arrays. Half of them
// take fewer registers, all of them fewer barriers. A derivative along both costs 8 shared accesses per point at any N,
// where contracting straight from shared memory costs 2 n.
//
// For s, point (i, j, k) of a chunk is at k s_layer + j n + i, and for r at i r_pitch + k n + j, so that neighbouring
// threads take neighbouring lines of either. The paddings of r_pitch, s_layer and an element are those for which the
// fewest accesses meet in a bank, found by trying all.
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
constexpr int s_first = n * r_pitch;  // where the layers for s begin
constexpr int element_values = s_first + layers * s_layer + padding.element;
constexpr int pencils = chunks == 1 ? face : 2 * lines;  // threads of an element: face, or n * (n + 1)

// Each thread takes a line along r and one along s, or, of two chunks, one of either.
template <class Transform>
WEFT_FUNCTION void transform_lines(real* base, int l, const Transform& transform) {
  WEFT_UNROLL
  for (int taken = 0; taken < 3 - chunks; ++taken) {
    const bool along_r = chunks == 1 ? taken == 0 : l < lines;
    const int q = chunks == 1 || along_r ? l : l - lines;
    real* line = base + (along_r ? q : s_first + q / n * s_layer + q % n);
    const int stride = along_r ? r_pitch : n;
    real in[n], out[n];
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) in[m] = line[m * stride];
    transform(in, out);
    WEFT_UNROLL
    for (int m = 0; m < n; ++m) line[m * stride] = out[m];
  }
}

// Where a thread's column passes through the layers for r, and those for s.
template <class T>
struct Layers {
  T *r, *s;
};
template <class T>
WEFT_FUNCTION Layers<T> layers_of(T* base, int l) {
  return {base + l % n * r_pitch + l / n, base + s_first + l};
}

// Layers [begin, end) of a column of Z x, 0 where there is no element.
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
