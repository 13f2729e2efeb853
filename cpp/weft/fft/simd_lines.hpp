// weft's own transforms of many lines, in SIMD vectors across the lines: of columns, whose elements lie a stride apart
// and which are next to each other, and of rows of real numbers, whose elements are next to each other.
//
// Stockham's algorithm in decimation of frequency, with radices up to 16. As many lines as a vector has elements are
// transformed at a time, in a buffer that the first-level cache holds up to 256 points; columns are read by the first
// pass and written by the last, rows are transposed on the way in and out. All lines round alike, whatever their number
// and addresses.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::fft {

// The radices for transforms of n complex values in the order of the passes, whose number is at least `least`. Empty if
// n has other factors than 2, 3, 5 and 7, is too small or above 2^16.
std::vector<int> simd_radices(int n, int least);

// Forward transforms use exp(-2 pi i jk/n), backward ones the inverse; no transform divides by n.
template <class T>
class SimdColumns {
 public:
  using Complex = std::complex<T>;
  static bool can(int n) { return !simd_radices(n, 2).empty(); }
  // std::invalid_argument unless can(n).
  SimdColumns(int n, bool backward);
  ~SimdColumns();
  SimdColumns(const SimdColumns&) = delete;
  SimdColumns& operator=(const SimdColumns&) = delete;

  // Element j of column i is at i + j * stride. `in` and `out` may be the same, with the same strides.
  void operator()(const Complex* in, std::int64_t stride_in, Complex* out, std::int64_t stride_out,
                  std::int64_t columns) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Rows of n real numbers to their n/2 + 1 coefficients, or back.
template <class T>
class SimdRows {
 public:
  using Complex = std::complex<T>;
  static bool can(int n) { return !simd_radices(n % 2 == 0 ? n / 2 : n, 1).empty(); }
  // std::invalid_argument unless can(n).
  explicit SimdRows(int n);
  ~SimdRows();
  SimdRows(const SimdRows&) = delete;
  SimdRows& operator=(const SimdRows&) = delete;

  // Element j of row i is at i * distance + j; the input is preserved. backward() ignores the imaginary parts of the
  // first coefficient and, if n is even, the last.
  void forward(const T* in, std::int64_t distance_in, Complex* out, std::int64_t distance_out, std::int64_t rows) const;
  void backward(const Complex* in, std::int64_t distance_in, T* out, std::int64_t distance_out,
                std::int64_t rows) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::fft
