#include "weft/fft/simd_lines.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace weft::fft {
namespace {

#define WEFT_INLINE inline __attribute__((always_inline))

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
struct Simd {
  typedef T Vector __attribute__((vector_size(vector_bytes)));
  static constexpr int width = vector_bytes / static_cast<int>(sizeof(T));
};

// The same element of `width` columns.
template <class T>
struct Values {
  typename Simd<T>::Vector re, im;
};

template <class T>
WEFT_INLINE Values<T> operator+(Values<T> a, Values<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
WEFT_INLINE Values<T> operator-(Values<T> a, Values<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
WEFT_INLINE Values<T> operator*(T factor, Values<T> a) {
  return {factor * a.re, factor * a.im};
}
template <class T>
WEFT_INLINE Values<T> over_i(Values<T> a) {
  return {a.im, -a.re};
}
template <class T>
struct Root {
  T re, im;
};
template <class T>
WEFT_INLINE Values<T> operator*(Root<T> root, Values<T> a) {
  return {root.re * a.re - root.im * a.im, root.re * a.im + root.im * a.re};
}

// exp(-2 pi i k/n)
template <class T>
Root<T> root_of_one(std::int64_t k, std::int64_t n) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {static_cast<T>(std::cos(angle)), static_cast<T>(-std::sin(angle))};
}

// --- transforms of a few values in registers
// ---------------------------------------------------------------------------

// `roots`: of one, for this radix. Radices that are products are transformed in two steps.
constexpr int divisor(int radix) {
  return radix == 6 || radix == 8 || radix == 10    ? 2
         : radix == 9 || radix == 12 || radix == 15 ? 3
         : radix == 16                              ? 4
                                                    : 1;
}

template <int radix, class T>
WEFT_INLINE void transform(Values<T>* a, const Root<T>* roots) {
  if constexpr (radix == 2) {
    const Values<T> b = a[0] - a[1];
    a[0] = a[0] + a[1];
    a[1] = b;
  } else if constexpr (radix == 3) {
    const Values<T> sum = a[1] + a[2], middle = a[0] - T(0.5) * sum,
                    side = over_i(T(std::numbers::sqrt3 / 2) * (a[1] - a[2]));
    a[0] = a[0] + sum;
    a[1] = middle + side;
    a[2] = middle - side;
  } else if constexpr (radix == 4) {
    const Values<T> p = a[0] + a[2], q = a[0] - a[2], r = a[1] + a[3], s = over_i(a[1] - a[3]);
    a[0] = p + r;
    a[1] = q + s;
    a[2] = p - r;
    a[3] = q - s;
  } else if constexpr (radix == 5) {
    constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410), s1 = T(0.95105651629515357212),
                s2 = T(0.58778525229247312917);  // of 2 pi/5 and 4 pi/5
    const Values<T> p = a[1] + a[4], q = a[2] + a[3], r = over_i(a[1] - a[4]), s = over_i(a[2] - a[3]);
    const Values<T> m = a[0] + c1 * p + c2 * q, n = a[0] + c2 * p + c1 * q, u = s1 * r + s2 * s, v = s2 * r - s1 * s;
    a[0] = a[0] + p + q;
    a[1] = m + u;
    a[2] = n + v;
    a[3] = n - v;
    a[4] = m - u;
  } else {
    constexpr int first = divisor(radix), second = radix / first;
    Values<T> b[second][first];
#pragma GCC unroll 16
    for (int i = 0; i < second; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < first; ++j) b[i][j] = a[i + second * j];
      transform<first>(b[i], roots);
#pragma GCC unroll 16
      for (int j = 1; j < first; ++j) {
        if (i > 0) b[i][j] = 4 * i * j == radix ? over_i(b[i][j]) : roots[i * j] * b[i][j];
      }
    }
#pragma GCC unroll 16
    for (int j = 0; j < first; ++j) {
      Values<T> c[second];
#pragma GCC unroll 16
      for (int i = 0; i < second; ++i) c[i] = b[i][j];
      transform<second>(c, roots);
#pragma GCC unroll 16
      for (int i = 0; i < second; ++i) a[j + first * i] = c[i];
    }
  }
}

// --- from and to memory
// -------------------------------------------------------------------------------------------------

template <class T>
WEFT_INLINE typename Simd<T>::Vector vector_at(const T* from) {
  typename Simd<T>::Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
template <class T>
WEFT_INLINE void put(typename Simd<T>::Vector vector, T* to) {
  std::memcpy(to, &vector, sizeof vector);
}

// The elements of two vectors, one after the other, in an order that is given by their numbers.
template <class T, std::size_t... e, class Order>
WEFT_INLINE typename Simd<T>::Vector ordered(typename Simd<T>::Vector a, typename Simd<T>::Vector b,
                                             std::index_sequence<e...>, Order) {
  return __builtin_shufflevector(a, b, Order::of(e)...);
}
template <class T>
constexpr auto elements = std::make_index_sequence<static_cast<std::size_t>(Simd<T>::width)>();

// Two vectors of complex numbers, and their real and imaginary parts. These have the columns in an order that takes one
// instruction per vector, within units of 16 bytes; join() restores theirs.
constexpr int unit_bytes = 16;
template <class T, int part>
struct Parted {
  static constexpr int of(int e) {
    constexpr int unit = unit_bytes / static_cast<int>(sizeof(T)), half = unit / 2;
    const int in_unit = e % unit, vector = in_unit / half * Simd<T>::width;
    return vector + e / unit * unit + 2 * (in_unit % half) + part;
  }
};
template <class T, int vector>
struct Joined {
  static constexpr int of(int e) {
    constexpr int unit = unit_bytes / static_cast<int>(sizeof(T)), half = unit / 2;
    return e % 2 * Simd<T>::width + e / unit * unit + vector * half + e % unit / 2;
  }
};
template <class T>
WEFT_INLINE Values<T> split(const T* from) {
  const auto a = vector_at(from), b = vector_at(from + Simd<T>::width);
  return {ordered<T>(a, b, elements<T>, Parted<T, 0>()), ordered<T>(a, b, elements<T>, Parted<T, 1>())};
}
template <class T>
WEFT_INLINE void join(Values<T> values, T* to) {
  put<T>(ordered<T>(values.re, values.im, elements<T>, Joined<T, 0>()), to);
  put<T>(ordered<T>(values.re, values.im, elements<T>, Joined<T, 1>()), to + Simd<T>::width);
}

// Transposes as many vectors as they have elements: in steps, exchanges the parts of each pair of vectors `apart`.
template <class T, int apart, int second>
struct Exchanged {
  static constexpr int of(int e) {
    return (e & apart) != 0 ? Simd<T>::width + e - (second ? 0 : apart) : e + (second ? apart : 0);
  }
};
template <class T, int apart = 1>
WEFT_INLINE void transpose(typename Simd<T>::Vector* a) {
  if constexpr (apart < Simd<T>::width) {
#pragma GCC unroll 16
    for (int i = 0; i < Simd<T>::width; ++i) {
      if ((i & apart) != 0) continue;
      const auto first = ordered<T>(a[i], a[i + apart], elements<T>, Exchanged<T, apart, 0>());
      a[i + apart] = ordered<T>(a[i], a[i + apart], elements<T>, Exchanged<T, apart, 1>());
      a[i] = first;
    }
    transpose<T, 2 * apart>(a);
  }
}

// --- passes
// -------------------------------------------------------------------------------------------------------------

// first, last: of columns, from and to memory. end: the last pass within buffers.
enum class Place { first, between, end, last };

template <class T>
struct Arguments {
  const T* from;  // the columns, read by the first pass; strides are counted in real numbers
  std::int64_t stride_from;
  T* to;  // and written by the last one
  std::int64_t stride_to;
  bool backward;
  const Values<T>* in;  // what the previous pass has written
  Values<T>* out;
  const Root<T>*roots, *turns;  // turns: by p and k, see below
  std::int64_t blocks, length;
};

// With n = radix * blocks values of each of `length` interleaved transforms, transforms value q of block p + blocks k
// over k and multiplies by exp(-2 pi i p k/n): what is left are `blocks` values of radix * length transforms. Writing
// the result in the opposite order makes it that of the backward transform.
template <class T, int radix, Place place>
void pass(const Arguments<T>& a) {
  const std::int64_t blocks = a.blocks, length = a.length, n = radix * length;
  const Root<T>* turns = a.turns;
  for (std::int64_t p = 0; p < blocks; ++p, turns += radix - 1) {
    for (std::int64_t q = 0; q < length; ++q) {
      Values<T> values[radix];
#pragma GCC unroll 16
      for (int k = 0; k < radix; ++k) {
        const std::int64_t block = p + blocks * k;
        values[k] = place == Place::first ? split(a.from + block * a.stride_from) : a.in[q + length * block];
      }
      transform<radix>(values, a.roots);
#pragma GCC unroll 16
      for (int k = 0; k < radix; ++k) {
        if constexpr (place == Place::last) {
          const std::int64_t element = q + length * k;
          T* const to = a.to + (a.backward && element > 0 ? n - element : element) * a.stride_to;
          join(values[k], to);
          __builtin_prefetch(to + 2 * Simd<T>::width, 1);  // of the next columns
          __builtin_prefetch(to + 3 * Simd<T>::width, 1);
        } else {
          const bool turned = place != Place::end && k > 0;
          a.out[q + length * (radix * p + k)] = turned ? turns[k - 1] * values[k] : values[k];
        }
      }
    }
  }
}

template <class T>
using Function = void (*)(const Arguments<T>&);

constexpr std::array radices{2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16};

template <class T, int radix>
Function<T> function_at(Place place) {
  return place == Place::first     ? pass<T, radix, Place::first>
         : place == Place::between ? pass<T, radix, Place::between>
         : place == Place::end     ? pass<T, radix, Place::end>
                                   : pass<T, radix, Place::last>;
}
template <class T, std::size_t... i>
Function<T> function_of(int radix, Place place, std::index_sequence<i...>) {
  Function<T> found = nullptr;
  ((radices[i] == radix ? void(found = function_at<T, radices[i]>(place)) : void()), ...);
  return found;
}

// The fewest radices with the product n, and among these the smallest; at least `least` and at most `most`.
std::vector<int> best_radices(int n, int least, int most) {
  std::vector<int> best;
  const auto cost = [](const std::vector<int>& all) {
    return 100 * all.size() + static_cast<std::size_t>(std::accumulate(all.begin(), all.end(), 0));
  };
  for (const int radix : radices) {
    if (n % radix != 0 || (n == radix ? least > 1 : most < 2)) continue;
    std::vector<int> all;
    if (n > radix) all = best_radices(n / radix, least - 1, most - 1);
    if (n > radix && all.empty()) continue;
    all.push_back(radix);
    if (best.empty() || cost(all) < cost(best)) best = all;
  }
  return best;
}

template <class T>
struct Pass {
  Function<T> function;
  std::int64_t blocks, length;
  std::vector<Root<T>> roots, turns;
};

template <class T>
std::vector<Pass<T>> passes_of(const std::vector<int>& all, bool of_columns) {
  std::int64_t left = std::accumulate(all.begin(), all.end(), std::int64_t{1}, std::multiplies<>()), length = 1;
  std::vector<Pass<T>> passes;
  for (const int radix : all) {
    const Place place = left == radix               ? of_columns ? Place::last : Place::end
                        : of_columns && length == 1 ? Place::first
                                                    : Place::between;
    Pass<T> pass{
        function_of<T>(radix, place, std::make_index_sequence<radices.size()>()), left / radix, length, {}, {}};
    for (int k = 0; k < radix; ++k) pass.roots.push_back(root_of_one<T>(k, radix));
    for (std::int64_t p = 0; p < pass.blocks; ++p)
      for (int k = 1; k < radix; ++k) pass.turns.push_back(root_of_one<T>(p * k, left));
    left /= radix;
    length *= radix;
    passes.push_back(std::move(pass));
  }
  return passes;
}

// Runs the passes. The first reads a.in unless it reads columns, and writes a.out; then they alternate. Returns where
// the last one has written.
template <class T>
Values<T>* run(const std::vector<Pass<T>>& passes, Arguments<T> a, Values<T>* other) {
  for (const Pass<T>& pass : passes) {
    a.roots = pass.roots.data();
    a.turns = pass.turns.data();
    a.blocks = pass.blocks;
    a.length = pass.length;
    pass.function(a);
    a.in = std::exchange(a.out, std::exchange(other, a.out));
  }
  return other;
}

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
  constexpr std::int64_t together = Simd<T>::width;
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

// --- rows
// ---------------------------------------------------------------------------------------------------------------

// n real numbers are transformed as n/2 complex ones, z_j = x_2j + i x_(2j + 1). With m = n/2, w = exp(-2 pi i/n) and
// the transform Z of z, 2 X_k = Z_k + Z*_(m - k) - i w^k (Z_k - Z*_(m - k)); and Z_k, twice as large, is X_k + X*_(m -
// k)
// + i w^-k (X_k - X*_(m - k)).
template <class T>
struct SimdRows<T>::State {
  std::int64_t n;
  std::vector<Pass<T>> passes;
  std::vector<Root<T>> turns;  // w^k, k = 0, ..., n/4

  // Copies `count` real numbers of each row to vectors across rows, and back.
  static void gather(const T* from, std::int64_t distance, int rows, std::int64_t count, T* to) {
    constexpr int width = Simd<T>::width;
    std::int64_t x = 0;
    for (; x + width <= count; x += width) {
      typename Simd<T>::Vector a[width];
#pragma GCC unroll 16
      for (int r = 0; r < width; ++r) a[r] = vector_at(from + std::min(r, rows - 1) * distance + x);
      transpose<T>(a);
#pragma GCC unroll 16
      for (int i = 0; i < width; ++i) put<T>(a[i], to + (x + i) * width);
    }
    for (; x < count; ++x)
      for (int r = 0; r < width; ++r) to[x * width + r] = from[std::min(r, rows - 1) * distance + x];
  }
  static void scatter(const T* from, T* to, std::int64_t distance, int rows, std::int64_t count) {
    constexpr int width = Simd<T>::width;
    std::int64_t x = 0;
    for (; x + width <= count; x += width) {
      typename Simd<T>::Vector a[width];
#pragma GCC unroll 16
      for (int i = 0; i < width; ++i) a[i] = vector_at(from + (x + i) * width);
      transpose<T>(a);
      if (rows == width) {
#pragma GCC unroll 16
        for (int r = 0; r < width; ++r) put<T>(a[r], to + r * distance + x);
      } else {
        for (int r = 0; r < rows; ++r) put<T>(a[r], to + r * distance + x);
      }
    }
    for (; x < count; ++x)
      for (int r = 0; r < rows; ++r) to[r * distance + x] = from[x * width + r];
  }
};

template <class T>
SimdRows<T>::SimdRows(int n)
    : state_(new State{n, n % 2 == 0 ? passes_of<T>(simd_radices(n / 2, 1), false) : std::vector<Pass<T>>(), {}}) {
  if (state_->passes.empty()) throw std::invalid_argument("no SIMD transform of rows of " + std::to_string(n));
  for (std::int64_t k = 0; k <= n / 4; ++k) state_->turns.push_back(root_of_one<T>(k, n));
}
template <class T>
SimdRows<T>::~SimdRows() = default;

template <class T>
void SimdRows<T>::forward(const T* in, std::int64_t distance_in, Complex* out, std::int64_t distance_out,
                          std::int64_t rows) const {
  constexpr std::int64_t width = Simd<T>::width;
  const std::int64_t n = state_->n, m = n / 2;
  Values<T>* const first = memory_for<T>(2 * (m + 1));
  Values<T>* const second = first + m + 1;
  for (std::int64_t row = 0; row < rows; row += width) {
    const int some = static_cast<int>(std::min(width, rows - row));
    State::gather(in + row * distance_in, distance_in, some, n, reinterpret_cast<T*>(first));
    Arguments<T> a{};
    a.in = first;
    a.out = second;
    const Values<T>* const z = run(state_->passes, a, first);
    Values<T>* const x = z == first ? second : first;
    const Values<T> z0 = z[0];
    x[0] = {z0.re + z0.im, typename Simd<T>::Vector{}};
    x[m] = {z0.re - z0.im, typename Simd<T>::Vector{}};
    for (std::int64_t k = 1; k <= m / 2; ++k) {
      const Values<T> p = T(0.5) * z[k], q = T(0.5) * z[m - k];
      const Values<T> sum{p.re + q.re, p.im - q.im},
          turned = over_i(state_->turns[k] * Values<T>{p.re - q.re, p.im + q.im});
      x[k] = sum + turned;
      x[m - k] = {sum.re - turned.re, turned.im - sum.im};
    }
    State::scatter(reinterpret_cast<const T*>(x), reinterpret_cast<T*>(out + row * distance_out), 2 * distance_out,
                   some, n + 2);
  }
}

template <class T>
void SimdRows<T>::backward(const Complex* in, std::int64_t distance_in, T* out, std::int64_t distance_out,
                           std::int64_t rows) const {
  constexpr std::int64_t width = Simd<T>::width;
  const std::int64_t n = state_->n, m = n / 2;
  Values<T>* const first = memory_for<T>(2 * (m + 1));
  Values<T>* const second = first + m + 1;
  for (std::int64_t row = 0; row < rows; row += width) {
    const int some = static_cast<int>(std::min(width, rows - row));
    State::gather(reinterpret_cast<const T*>(in + row * distance_in), 2 * distance_in, some, n + 2,
                  reinterpret_cast<T*>(first));
    // The backward transform is the forward one of the values in opposite order, Z_(m - k) instead of Z_k.
    Values<T>* const z = first;
    const auto x0 = z[0].re, xm = z[m].re;
    z[0] = {x0 + xm, x0 - xm};
    for (std::int64_t k = 1; k <= m / 2; ++k) {
      const Values<T> p = z[k], q = z[m - k];
      const Root<T> back{state_->turns[k].re, -state_->turns[k].im};
      const Values<T> sum{p.re + q.re, p.im - q.im}, turned = over_i(back * Values<T>{p.re - q.re, p.im + q.im});
      z[m - k] = sum - turned;
      z[k] = {sum.re + turned.re, -sum.im - turned.im};
    }
    Arguments<T> a{};
    a.in = first;
    a.out = second;
    State::scatter(reinterpret_cast<const T*>(run(state_->passes, a, first)), out + row * distance_out, distance_out,
                   some, n);
  }
}

template class SimdColumns<float>;
template class SimdColumns<double>;
template class SimdRows<float>;
template class SimdRows<double>;

}  // namespace weft::fft
