// The vector kernels against the formulas in their comments, on any device.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/device/vector.hpp"

namespace weft::device {

template <class T>
std::vector<T> random_values(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<T> distribution(-1, 1);
  std::vector<T> values(n);
  for (T& value : values) value = distribution(generator);
  return values;
}

template <class T>
void check_vector_kernels(const std::shared_ptr<Device>& device, long n) {
  const auto x0 = random_values<T>(n, 1), y0 = random_values<T>(n, 2), w0 = random_values<T>(n, 3);
  const T a = T(0.75), b = T(-1.5);
  const std::int64_t blocks = vector_blocks(n);
  Stream stream(device);
  const auto launch = [&]<class... P>(const char* name, P... arguments) {
    Kernel<P...>(vector_kernel<T>(*device, name))(stream, blocks, vector_shape, arguments...);
  };
  const Kernel<long, const double*, double*> sum = vector_kernel<T>(*device, "sum");
  const auto expect = [&](Array<T>& y, auto formula, const char* what) {
    stream.synchronize();
    const std::vector<T> values = y.download();
    for (long i = 0; i < n; ++i) {
      const double expected = formula(i);
      ASSERT_NEAR(values[i], expected, 4 * std::numeric_limits<T>::epsilon()) << what << " entry " << i << " of " << n;
    }
  };
  const Array<T> x(device, x0), w(device, w0);
  Array<T> y(device, y0), z(device, n);
  launch("set", n, a, z.data());
  expect(z, [&](long) { return a; }, "set");
  launch("copy", n, x.data(), z.data());
  expect(z, [&](long i) { return x0[i]; }, "copy");
  launch("scale", n, a, z.data());
  expect(z, [&](long i) { return a * x0[i]; }, "scale");
  z.upload(x0);
  launch("shift", n, a, z.data());
  expect(z, [&](long i) { return a + x0[i]; }, "shift");
  launch("multiply", n, x.data(), y.data(), z.data());
  expect(z, [&](long i) { return x0[i] * y0[i]; }, "multiply");
  z.upload(y0);
  launch("axpy", n, a, x.data(), z.data());
  expect(z, [&](long i) { return a * x0[i] + y0[i]; }, "axpy");
  z.upload(y0);
  launch("axpby", n, a, x.data(), b, z.data());
  expect(z, [&](long i) { return a * x0[i] + b * y0[i]; }, "axpby");

  Array<double> partials(device, blocks), total(device, 1);
  const auto expect_sum = [&](auto formula, const char* what) {
    sum(stream, 1, vector_shape, blocks, partials.data(), total.data());
    double expected = 0;
    for (long i = 0; i < n; ++i) expected += formula(i);
    stream.synchronize();
    EXPECT_NEAR(total.download()[0], expected, 1e-12 * n) << what << " of " << n << " entries";
  };
  launch("dot", n, x.data(), y.data(), partials.data());
  expect_sum([&](long i) { return double(x0[i]) * y0[i]; }, "dot");
  launch("weighted_dot", n, w.data(), x.data(), y.data(), partials.data());
  expect_sum([&](long i) { return double(w0[i]) * x0[i] * y0[i]; }, "weighted_dot");
  launch("total", n, x.data(), partials.data());
  expect_sum([&](long i) { return double(x0[i]); }, "total");
  z.upload(y0);
  launch("update_residual", n, a, x.data(), z.data(), partials.data());
  expect(z, [&](long i) { return y0[i] - a * x0[i]; }, "update_residual");
  const std::vector<T> residual = z.download();
  expect_sum([&](long i) { return double(residual[i]) * residual[i]; }, "update_residual's norm");

  struct Pairs {
    std::array<const T*, 16> x, y;
  };
  struct Terms {
    std::array<double, 16> a;
    std::array<const T*, 16> x;
  };
  Array<double> several(device, 3 * blocks), totals(device, 3);
  for (const T* weights : {static_cast<const T*>(nullptr), w.data()}) {
    const Kernel<long, int, Pairs, const T*, double*> dots = vector_kernel<T>(*device, "dots");
    dots(stream, 3 * blocks, vector_shape, n, 3, Pairs{{x.data(), y.data(), x.data()}, {y.data(), y.data(), x.data()}},
         weights, several.data());
    sum(stream, 3, vector_shape, blocks, several.data(), totals.data());
    stream.synchronize();
    const std::vector<double> found = totals.download();
    std::array<double, 3> expected{};
    for (long i = 0; i < n; ++i) {
      const double weight = weights == nullptr ? 1 : w0[i];
      expected[0] += weight * x0[i] * y0[i];
      expected[1] += weight * y0[i] * y0[i];
      expected[2] += weight * x0[i] * x0[i];
    }
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(found[k], expected[k], 1e-12 * n) << k << " of " << n << " entries";
  }
  z.upload(y0);
  const Kernel<long, int, Terms, T*> add_terms = vector_kernel<T>(*device, "add_terms");
  add_terms(stream, blocks, vector_shape, n, 3, Terms{{0.5, -0.25, 2}, {x.data(), w.data(), y.data()}}, z.data());
  expect(z, [&](long i) { return 3 * y0[i] + 0.5 * x0[i] - 0.25 * w0[i]; }, "add_terms");
}

}  // namespace weft::device
