#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <random>
#include <thread>
#include <vector>

#include "weft/fft/library.hpp"
#include "weft/fft/simd_lines.hpp"

using namespace weft::fft;

namespace {

template <class T>
using Complex = std::complex<T>;

// The transform computed from its definition in long double.
template <class T>
std::vector<Complex<T>> definition(const std::vector<Complex<T>>& x, int sign) {
  const std::size_t n = x.size();
  std::vector<Complex<long double>> roots;
  for (std::size_t k = 0; k < n; ++k)
    roots.push_back(std::polar(1.0L, sign * 2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / n));
  std::vector<Complex<T>> result(n);
  for (std::size_t k = 0; k < n; ++k) {
    Complex<long double> sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += Complex<long double>(x[j]) * roots[j * k % n];
    result[k] = Complex<T>(sum);
  }
  return result;
}

template <class T>
class FftLibrary : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(host_library().problem, ""); }

  T tolerance(int n) const { return 8 * std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<T>(n)) * 4; }

  // All elements are random, including those between the lines.
  template <class V>
  std::vector<V> random(std::int64_t size) {
    std::vector<V> values(size);
    std::uniform_real_distribution<T> value(-1, 1);
    for (V& v : values) {
      if constexpr (std::is_same_v<V, T>)
        v = value(engine);
      else
        v = {value(engine), value(engine)};
    }
    return values;
  }

  // Transforms random lines and compares every element of the output with its expected value, including those that
  // belong to no line.
  void check(const LinesShape& shape) {
    for (int library = 0; library < host_libraries(); ++library)
      if (!host_library(library).measured) check(shape, library);
  }
  void check(const LinesShape& shape, int library) {
    SCOPED_TRACE(host_library(library).name);
    const int n = shape.n, half = n / 2 + 1;
    const auto at_in = [&](std::int64_t line, int j) { return line * shape.distance_in + j * shape.stride_in; };
    const auto at_out = [&](std::int64_t line, int j) { return line * shape.distance_out + j * shape.stride_out; };
    const HostLines<T> lines(shape, library);
    std::vector<Complex<T>> line(n);
    if (shape.kind == Kind::r2c) {
      const auto in = random<T>(shape.extent_in());
      auto out = random<Complex<T>>(shape.extent_out()), expected = out;
      for (std::int64_t i = 0; i < shape.count; ++i) {
        for (int j = 0; j < n; ++j) line[j] = in[at_in(i, j)];
        const auto result = definition(line, -1);
        for (int j = 0; j < half; ++j) expected[at_out(i, j)] = result[j];
      }
      lines(in.data(), out.data());
      compare(out, expected, n);
    } else if (shape.kind == Kind::c2r) {
      auto in = random<Complex<T>>(shape.extent_in());
      auto out = random<T>(shape.extent_out()), expected = out;
      for (std::int64_t i = 0; i < shape.count; ++i) {
        in[at_in(i, 0)].imag(0);  // imaginary parts of the mean and of the Nyquist mode
        if (n % 2 == 0) in[at_in(i, n / 2)].imag(0);
        for (int j = 0; j < n; ++j) line[j] = j < half ? in[at_in(i, j)] : std::conj(in[at_in(i, n - j)]);
        const auto result = definition(line, 1);
        for (int j = 0; j < n; ++j) expected[at_out(i, j)] = result[j].real();
      }
      const auto kept = in;
      lines(in.data(), out.data());
      compare(out, expected, n);
      if (!shape.overwrites) {
        EXPECT_EQ(in, kept) << "the input of c2r was changed";
      }
    } else {
      auto in = random<Complex<T>>(shape.extent_in());
      auto out = shape.in_place ? in : random<Complex<T>>(shape.extent_out()), expected = out;
      for (std::int64_t i = 0; i < shape.count; ++i) {
        for (int j = 0; j < n; ++j) line[j] = in[at_in(i, j)];
        const auto result = definition(line, shape.kind == Kind::forward ? -1 : 1);
        for (int j = 0; j < n; ++j) expected[at_out(i, j)] = result[j];
      }
      lines(shape.in_place ? out.data() : in.data(), out.data());
      compare(out, expected, n);
    }
  }

  template <class V>
  void compare(const std::vector<V>& found, const std::vector<V>& expected, int n) {
    T worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(found[i] - expected[i]));
    EXPECT_LE(worst, tolerance(n)) << n << " points";
  }

  std::mt19937 engine{1};
};
using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(FftLibrary, Types);

}  // namespace

TYPED_TEST(FftLibrary, LinesThatFollowEachOtherAreTransformedAsDefined) {
  for (int n : {1, 2, 3, 4, 5, 8, 12, 15, 30, 64, 96, 100, 7, 11}) {
    for (Kind kind : {Kind::r2c, Kind::c2r, Kind::forward, Kind::backward}) {
      for (std::int64_t count : {1, 2, 5}) this->check(LinesShape::contiguous(kind, n, count));
    }
    this->check(LinesShape::contiguous(Kind::forward, n, 3, true));
    this->check(LinesShape::contiguous(Kind::backward, n, 3, true));
    LinesShape overwriting = LinesShape::contiguous(Kind::c2r, n, 3);
    overwriting.overwrites = true;
    this->check(overwriting);
  }
}

TYPED_TEST(FftLibrary, ColumnsAndLinesWithGapsAreTransformedAndNothingElseIsTouched) {
  for (int n : {1, 4, 9, 16, 20}) {
    for (Kind kind : {Kind::r2c, Kind::c2r, Kind::forward, Kind::backward}) {
      this->check(LinesShape::columns(kind, n, 4, 7, 5));
      this->check(
          {.kind = kind, .n = n, .count = 3, .stride_in = 2, .distance_in = 60, .stride_out = 3, .distance_out = 70});
      this->check(
          {.kind = kind, .n = n, .count = 5, .stride_in = 1, .distance_in = 23, .stride_out = 6, .distance_out = 1});
    }
    this->check(LinesShape::columns(Kind::forward, n, 4, 7, 7, true));
    this->check(LinesShape::columns(Kind::backward, n, 4, 7, 7, true));
  }
}

TYPED_TEST(FftLibrary, OwnTransformsAreThoseOfTheDefinitionForAllRadices) {
  int own = 0;
  while (own < host_libraries() && !host_library(own).own) ++own;
  if (own == host_libraries()) GTEST_SKIP() << "WEFT_FFT excludes them";
  for (const int n : {3,   4,   5,   6,   7,   8,   9,   10,  14,  15,  18,  20,  21,  24,  27,  28,  30,  32,  35,
                      42,  45,  48,  49,  56,  60,  63,  64,  70,  75,  81,  84,  90,  96,  98,  105, 112, 120, 125,
                      126, 128, 135, 140, 144, 147, 150, 168, 192, 196, 224, 225, 243, 256, 315, 343, 375, 405}) {
    for (const std::int64_t count : {3, 8, 21}) {
      this->check(LinesShape::columns(Kind::forward, n, count, 23, 23, true), own);
      this->check(LinesShape::columns(Kind::backward, n, count, 23, 22), own);
      this->check(LinesShape::contiguous(Kind::r2c, n, count), own);
      this->check(LinesShape::contiguous(Kind::c2r, n, count), own);
    }
  }
}

TYPED_TEST(FftLibrary, OwnTransformsRoundAllLinesAlike) {
  using T = TypeParam;
  for (const int n : {96, 105}) {
    const int count = 21, half = n / 2 + 1;
    const SimdColumns<T> columns(n, false);
    const auto values = this->template random<Complex<T>>(n * count);
    auto all = values;
    columns(all.data(), count, all.data(), count, count);
    const SimdRows<T> rows(n);
    const auto points = this->template random<T>(n * count);
    std::vector<Complex<T>> modes(half * count), of_one(half);
    rows.forward(points.data(), n, modes.data(), half, count);
    std::vector<T> back(n * count), back_of_one(n);
    rows.backward(modes.data(), half, back.data(), n, count);
    for (int i = 0; i < count; ++i) {
      std::vector<Complex<T>> one(n), expected(n);
      for (int j = 0; j < n; ++j) {
        one[j] = values[j * count + i];
        expected[j] = all[j * count + i];
      }
      columns(one.data(), 1, one.data(), 1, 1);
      EXPECT_EQ(one, expected) << i;
      rows.forward(points.data() + i * n, n, of_one.data(), half, 1);
      EXPECT_TRUE(std::equal(of_one.begin(), of_one.end(), modes.begin() + i * half)) << i;
      rows.backward(of_one.data(), half, back_of_one.data(), n, 1);
      EXPECT_TRUE(std::equal(back_of_one.begin(), back_of_one.end(), back.begin() + i * n)) << i;
    }
  }
}

TEST(OwnTransforms, LengthsTheyCannotTransformAreRefused) {
  for (const int n : {1, 2, 3, 5, 7, 22}) EXPECT_FALSE(SimdColumns<double>::can(n)) << n;
  for (const int n : {1, 2, 11, 22, 33}) EXPECT_FALSE(SimdRows<double>::can(n)) << n;
  EXPECT_THROW(SimdColumns<float>(7, false), std::invalid_argument);
  EXPECT_THROW(SimdRows<float>(11), std::invalid_argument);
}

TYPED_TEST(FftLibrary, MemoryOfAnyAlignmentIsTransformedByEveryLibrary) {
  using T = TypeParam;
  const int n = 32, half = n / 2 + 1;
  const auto values = this->template random<T>(2 * n + 8);
  for (int library = 0; library < host_libraries(); ++library) {
    const HostLines<T> forward(LinesShape::contiguous(Kind::r2c, n, 2), library),
        backward(LinesShape::contiguous(Kind::c2r, n, 2), library);
    for (int shift_in = 0; shift_in < 4; ++shift_in) {
      for (int shift_out = 0; shift_out < 4; ++shift_out) {
        std::vector<Complex<T>> spectrum(2 * half + 4);
        std::vector<T> back(2 * n + 8);
        forward(values.data() + shift_in, spectrum.data() + shift_out);
        backward(spectrum.data() + shift_out, back.data() + shift_in);
        for (int j = 0; j < 2 * n; ++j)
          EXPECT_NEAR(back[j + shift_in] / n, values[j + shift_in], this->tolerance(n)) << shift_in << " " << shift_out;
      }
    }
  }
}

TYPED_TEST(FftLibrary, ColumnsHaveTheSameBitsAtAllAlignedAddresses) {
  using T = TypeParam;
  constexpr std::size_t step = simd_alignment / sizeof(T);
  for (int library = 0; library < host_libraries(); ++library) {
    for (const int n : {16, 60, 64, 96}) {
      for (const std::int64_t count : {7, 8}) {
        const auto shape = LinesShape::columns(Kind::forward, n, count, count, count, true);
        const HostLines<T> columns(shape, library);
        const auto values = this->template random<T>(2 * shape.extent_in());
        std::vector<T> memory(values.size() + 8 * step), first;
        T* base = memory.data();
        while (reinterpret_cast<std::uintptr_t>(base) % (4 * simd_alignment) != 0) ++base;
        for (std::size_t shift = 0; shift < 4; ++shift) {
          T* const at = base + shift * step;
          std::copy(values.begin(), values.end(), at);
          columns(at, at);
          const std::vector<T> result(at, at + values.size());
          if (shift == 0) first = result;
          EXPECT_EQ(result, first) << host_library(library).name << " " << n << " points, " << count << " columns";
        }
        std::copy(values.begin(), values.end(), base + 1);  // not aligned for SIMD
        columns(base + 1, base + 1);
        this->compare(std::vector<T>(base + 1, base + 1 + values.size()), first, n);
      }
    }
  }
}

TYPED_TEST(FftLibrary, ThreadsPlanAndTransformAtATime) {
  using T = TypeParam;
  std::vector<std::thread> threads;
  std::vector<T> errors(4, 1);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      T worst = 0;
      for (int n = 32; n < 64; ++n) {
        const HostLines<T> forward(LinesShape::contiguous(Kind::r2c, n, 3));
        const HostLines<T> backward(LinesShape::contiguous(Kind::c2r, n, 3));
        std::vector<T> values(3 * n), back(3 * n);
        for (int j = 0; j < 3 * n; ++j) values[j] = std::sin(T(j + t));
        std::vector<Complex<T>> spectrum(3 * (n / 2 + 1));
        forward(values.data(), spectrum.data());
        backward(spectrum.data(), back.data());
        for (int j = 0; j < 3 * n; ++j) worst = std::max(worst, std::abs(back[j] / n - values[j]));
      }
      errors[t] = worst;
    });
  }
  for (auto& thread : threads) thread.join();
  for (T error : errors) EXPECT_LE(error, this->tolerance(64));
}

TEST(FftLibraryShape, ShapesThatCannotBeAreRefused) {
  EXPECT_THROW(HostLines<double>(LinesShape::contiguous(Kind::forward, 0, 1)), std::invalid_argument);
  EXPECT_THROW(HostLines<double>(LinesShape::contiguous(Kind::forward, 8, 0)), std::invalid_argument);
  EXPECT_THROW(HostLines<double>(LinesShape::contiguous(Kind::r2c, 8, 1, true)), std::invalid_argument);
  EXPECT_THROW(HostLines<double>(LinesShape::columns(Kind::forward, 8, 2, 2, 3, true)), std::invalid_argument);
}
