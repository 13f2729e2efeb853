#include "weft/fft/simd_lines.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "weft/fft/simd_passes.hpp"

namespace weft::fft {
namespace {

// Memory of the calling thread for `count` values.
template <class T>
Values<T>* memory_for(std::int64_t count) {
  static thread_local std::unique_ptr<Values<T>[]> memory;
  static thread_local std::int64_t size = 0;
  if (size < count) {
    memory.reset(new Values<T>[static_cast<std::size_t>(count)]);
    size = count;
  }
  return memory.get();
}

}  // namespace

std::vector<int> simd_radices(int n, int least) {
  constexpr int largest = 1 << 16;
  std::vector<int> found = n > largest ? std::vector<int>() : best_radices(n, least, 5);
  std::ranges::sort(found);
  return found;
}

template <class T>
struct SimdColumns<T>::State {
  std::int64_t n;
  bool backward;
  std::vector<Pass<T>> passes;
};

template <class T>
SimdColumns<T>::SimdColumns(int n, bool backward)
    : state_(new State{n, backward, passes_of<T>(simd_radices(n, 2), true)}) {
  if (state_->passes.empty()) throw std::invalid_argument("no SIMD transform of columns of " + std::to_string(n));
}
template <class T>
SimdColumns<T>::~SimdColumns() = default;

template <class T>
void SimdColumns<T>::operator()(const Complex* in, std::int64_t stride_in, Complex* out, std::int64_t stride_out,
                                std::int64_t columns) const {
  constexpr std::int64_t together = lanes<T>;
  const std::int64_t n = state_->n, whole = columns - columns % together;
  Values<T>* const work = memory_for<T>(3 * n);
  const auto transform_some = [&](const Complex* from, std::int64_t stride_from, Complex* to, std::int64_t stride_to) {
    Arguments<T> a{};
    a.from = reinterpret_cast<const T*>(from);
    a.stride_from = 2 * stride_from;
    a.to = reinterpret_cast<T*>(to);
    a.stride_to = 2 * stride_to;
    a.backward = state_->backward;
    a.out = work;
    run(state_->passes, a, work + n);
  };
  for (std::int64_t x = 0; x < whole; x += together) transform_some(in + x, stride_in, out + x, stride_out);
  if (whole == columns) return;
  // Columns that do not fill two vectors are transformed with others of zeros.
  auto* const few = reinterpret_cast<Complex*>(work + 2 * n);
  std::fill_n(few, n * together, Complex(0));
  for (std::int64_t j = 0; j < n; ++j) std::copy_n(in + whole + j * stride_in, columns - whole, few + together * j);
  transform_some(few, together, few, together);
  for (std::int64_t j = 0; j < n; ++j) std::copy_n(few + together * j, columns - whole, out + whole + j * stride_out);
}

// --- rows -----------------------------------------------------------------------------------------------------------

// n real numbers are transformed as n/2 complex ones, z_j = x_2j + i x_(2j + 1). With m = n/2, w = exp(-2 pi i/n) and
// the transform Z of z, 2 X_k = Z_k + Z*_(m - k) - i w^k (Z_k - Z*_(m - k)). Backward, 2 Z_k = X_k + X*_(m - k) +
// i w^-k (X_k - X*_(m - k)), whose factor 2 the transform leaves.
//
// An odd number n = r m of them, where r is the largest radix, starts with a pass of radix r, from which follow the
// X_(k + r t) of each k = 0, ..., r - 1 by a transform of m complex values. Only h = (r + 1)/2 of these transforms are
// made, since X_(n - j) = X*_j; together they leave X_(k + r t) at k + h t. Backward, the pass of radix r is the last.
template <class T>
struct SimdRows<T>::State {
  std::int64_t n, size;  // of a buffer, in values
  std::vector<Pass<T>> passes;
  std::vector<Root<T>> turns;      // n even: w^k, k = 0, ..., n/4
  std::vector<Pass<T>> backwards;  // n odd: the passes of the backward transform

  explicit State(int n_in) : n(n_in), size(n / 2 + 1) {
    std::vector<int> radices = simd_radices(n_in % 2 == 0 ? n_in / 2 : n_in, 1);
    if (radices.empty()) throw std::invalid_argument("no SIMD transform of rows of " + std::to_string(n));
    if (n % 2 != 0) std::rotate(radices.begin(), radices.end() - 1, radices.end());  // the largest first
    passes = passes_of<T>(radices, false);
    if (n % 2 == 0) {
      for (std::int64_t k = 0; k <= n / 4; ++k) turns.push_back(root_of_one<T>(k, n));
      return;
    }
    const int radix = radices.front(), half = radix / 2 + 1;
    for (std::size_t i = 1; i < passes.size(); ++i) passes[i].length = passes[i].length / radix * half;
    backwards = passes;
    std::rotate(backwards.begin(), backwards.begin() + 1, backwards.end());
    passes.front().function = function_of<T>(radix, Place::from_reals);
    backwards.back().function = function_of<T>(radix, Place::to_reals);
    size = half * passes.front().blocks;
  }

  // Calls use(row, some, first, second) for each group of `some` rows, with two buffers.
  template <class Use>
  void in_groups(std::int64_t rows, const Use& use) const {
    constexpr std::int64_t width = lanes<T>;
    Values<T>* const first = memory_for<T>(2 * size);
    for (std::int64_t row = 0; row < rows; row += width)
      use(row, static_cast<int>(std::min(width, rows - row)), first, first + size);
  }

  // Copies `count` real numbers of each row to vectors across rows, and back.
  static void gather(const T* from, std::int64_t distance, int rows, std::int64_t count, T* to) {
    constexpr int width = lanes<T>;
    std::int64_t x = 0;
    for (; x + width <= count; x += width) {
      Vec<T> a[width];
      WEFT_UNROLL_ALL
      for (int r = 0; r < width; ++r) a[r] = load<T>(from + std::min(r, rows - 1) * distance + x);
      transpose<T>(a);
      WEFT_UNROLL_ALL
      for (int i = 0; i < width; ++i) store<T>(to + (x + i) * width, a[i]);
    }
    for (; x < count; ++x)
      for (int r = 0; r < width; ++r) to[x * width + r] = from[std::min(r, rows - 1) * distance + x];
  }
  static void scatter(const T* from, T* to, std::int64_t distance, int rows, std::int64_t count) {
    constexpr int width = lanes<T>;
    std::int64_t x = 0;
    for (; x + width <= count; x += width) {
      Vec<T> a[width];
      WEFT_UNROLL_ALL
      for (int i = 0; i < width; ++i) a[i] = load<T>(from + (x + i) * width);
      transpose<T>(a);
      if (rows == width) {
        WEFT_UNROLL_ALL
        for (int r = 0; r < width; ++r) store<T>(to + r * distance + x, a[r]);
      } else {
        for (int r = 0; r < rows; ++r) store<T>(to + r * distance + x, a[r]);
      }
    }
    for (; x < count; ++x)
      for (int r = 0; r < rows; ++r) to[r * distance + x] = from[x * width + r];
  }

  // From n real numbers in `first` to coefficients, and back; they return where the result is.
  const Values<T>* forward_even(Values<T>* first, Values<T>* second) const {
    const std::int64_t m = n / 2;
    Arguments<T> a{};
    a.in = first;
    a.out = second;
    const Values<T>* const z = run(passes, a, first);
    Values<T>* const x = z == first ? second : first;
    const Values<T> z0 = z[0];
    x[0] = {z0.re + z0.im, Vec<T>{}};
    x[m] = {z0.re - z0.im, Vec<T>{}};
    for (std::int64_t k = 1; k <= m / 2; ++k) {
      const Values<T> p = T(0.5) * z[k], q = T(0.5) * z[m - k];
      const Values<T> sum{p.re + q.re, p.im - q.im}, turned = over_i(turns[k] * Values<T>{p.re - q.re, p.im + q.im});
      x[k] = sum + turned;
      x[m - k] = {sum.re - turned.re, turned.im - sum.im};
    }
    return x;
  }
  const Values<T>* backward_even(Values<T>* first, Values<T>* second) const {
    // The backward transform is the forward one of the values in opposite order, Z_(m - k) instead of Z_k.
    const std::int64_t m = n / 2;
    Values<T>* const z = first;
    const auto x0 = z[0].re, xm = z[m].re;
    z[0] = {x0 + xm, x0 - xm};
    for (std::int64_t k = 1; k <= m / 2; ++k) {
      const Values<T> p = z[k], q = z[m - k];
      const Root<T> back{turns[k].re, -turns[k].im};
      const Values<T> sum{p.re + q.re, p.im - q.im}, turned = over_i(back * Values<T>{p.re - q.re, p.im + q.im});
      z[m - k] = sum - turned;
      z[k] = {sum.re + turned.re, -sum.im - turned.im};
    }
    Arguments<T> a{};
    a.in = first;
    a.out = second;
    return run(passes, a, first);
  }

  const Values<T>* forward_odd(Values<T>* first, Values<T>* second) const {
    const std::int64_t m = passes.front().blocks, r = n / m, h = r / 2 + 1;
    Arguments<T> a{};
    a.in = first;
    a.out = second;
    const Values<T>* const z = run(passes, a, first);
    Values<T>* const x = z == first ? second : first;
    for (std::int64_t t = 0; r * t <= n / 2; ++t) {
      for (std::int64_t k = 0; k < h && k + r * t <= n / 2; ++k) x[k + r * t] = z[k + h * t];
      for (std::int64_t k = h; k < r && k + r * t <= n / 2; ++k) x[k + r * t] = conjugate(z[r - k + h * (m - 1 - t)]);
    }
    x[0].im = Vec<T>{};
    return x;
  }
  const Values<T>* backward_odd(Values<T>* first, Values<T>* second) const {
    // Backward by the opposite order of t.
    const std::int64_t m = backwards.back().blocks, r = n / m, h = r / 2 + 1;
    const Values<T>* const x = first;
    for (std::int64_t t = 0; t < m; ++t) {
      Values<T>* const to = second + h * (t == 0 ? 0 : m - t);
      for (std::int64_t k = 0, j = r * t; k < h; ++k, ++j) to[k] = j <= n / 2 ? x[j] : conjugate(x[n - j]);
    }
    second[0].im = Vec<T>{};
    Arguments<T> a{};
    a.in = second;
    a.out = first;
    return run(backwards, a, second);
  }
  static Values<T> conjugate(Values<T> a) { return {a.re, -a.im}; }
};

template <class T>
SimdRows<T>::SimdRows(int n) : state_(new State(n)) {}
template <class T>
SimdRows<T>::~SimdRows() = default;

template <class T>
void SimdRows<T>::forward(const T* in, std::int64_t distance_in, Complex* out, std::int64_t distance_out,
                          std::int64_t rows) const {
  const std::int64_t n = state_->n;
  state_->in_groups(rows, [&](std::int64_t row, int some, Values<T>* first, Values<T>* second) {
    State::gather(in + row * distance_in, distance_in, some, n, reinterpret_cast<T*>(first));
    const Values<T>* const x = n % 2 == 0 ? state_->forward_even(first, second) : state_->forward_odd(first, second);
    State::scatter(reinterpret_cast<const T*>(x), reinterpret_cast<T*>(out + row * distance_out), 2 * distance_out,
                   some, 2 * (n / 2 + 1));
  });
}

template <class T>
void SimdRows<T>::backward(const Complex* in, std::int64_t distance_in, T* out, std::int64_t distance_out,
                           std::int64_t rows) const {
  const std::int64_t n = state_->n;
  state_->in_groups(rows, [&](std::int64_t row, int some, Values<T>* first, Values<T>* second) {
    State::gather(reinterpret_cast<const T*>(in + row * distance_in), 2 * distance_in, some, 2 * (n / 2 + 1),
                  reinterpret_cast<T*>(first));
    const Values<T>* const x = n % 2 == 0 ? state_->backward_even(first, second) : state_->backward_odd(first, second);
    State::scatter(reinterpret_cast<const T*>(x), out + row * distance_out, distance_out, some, n);
  });
}

template class SimdColumns<float>;
template class SimdColumns<double>;
template class SimdRows<float>;
template class SimdRows<double>;

}  // namespace weft::fft
