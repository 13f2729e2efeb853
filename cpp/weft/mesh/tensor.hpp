// Applies a one-dimensional matrix along one direction of an element's values.
#pragma once

namespace weft::mesh {

// out[o][p][i] = sum_m matrix[p][m] in[o][m][i]: matrix is rows x columns, with `outer` slices and `inner` contiguous
// values.
inline void apply_along(const double* matrix, int rows, int columns, int outer, int inner, const double* in,
                        double* out) {
  for (int o = 0; o < outer; ++o, in += columns * inner, out += rows * inner) {
    for (int p = 0; p < rows; ++p) {
      double* row = out + p * inner;
      for (int i = 0; i < inner; ++i) row[i] = 0;
      for (int m = 0; m < columns; ++m) {
        const double factor = matrix[p * columns + m];
        for (int i = 0; i < inner; ++i) row[i] += factor * in[m * inner + i];
      }
    }
  }
}

}  // namespace weft::mesh
