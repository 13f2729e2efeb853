// Passes of Stockham's algorithm on vectors that hold the same element of several lines: what simd_lines.hpp is made
// of.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "weft/simd/vector.hpp"

namespace weft::fft::inline WEFT_VECTORS {

using simd::lanes;
using simd::load;
using simd::store;
using simd::Vec;

// The same element of as many lines as a vector has lanes.
template <class T>
struct Values {
  Vec<T> re, im;
};

template <class T>
WEFT_ALWAYS_INLINE Values<T> operator+(Values<T> a, Values<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
WEFT_ALWAYS_INLINE Values<T> operator-(Values<T> a, Values<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
WEFT_ALWAYS_INLINE Values<T> operator*(T factor, Values<T> a) {
  return {factor * a.re, factor * a.im};
}
template <class T>
WEFT_ALWAYS_INLINE Values<T> over_i(Values<T> a) {
  return {a.im, -a.re};
}
template <class T>
struct Root {
  T re, im;
};
template <class T>
WEFT_ALWAYS_INLINE Values<T> operator*(Root<T> root, Values<T> a) {
  return {root.re * a.re - root.im * a.im, root.re * a.im + root.im * a.re};
}

// exp(-2 pi i k/n)
template <class T>
Root<T> root_of_one(std::int64_t k, std::int64_t n) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {static_cast<T>(std::cos(angle)), static_cast<T>(-std::sin(angle))};
}

// --- transforms of a few values in registers ------------------------------------------------------------------------

// `roots`: of one, for this radix. Radices that are products are transformed in two steps.
constexpr int divisor(int radix) {
  return radix == 6 || radix == 8 || radix == 10 || radix == 14 ? 2
         : radix == 9 || radix == 12 || radix == 15             ? 3
         : radix == 16                                          ? 4
                                                                : 1;
}

template <int radix, class T>
WEFT_ALWAYS_INLINE void transform(Values<T>* a, const Root<T>* roots) {
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
  } else if constexpr (radix == 7) {
    constexpr T c1 = T(0.62348980185873353053), c2 = T(-0.22252093395631440429), c3 = T(-0.90096886790241912624),
                s1 = T(0.78183148246802980871), s2 = T(0.97492791218182360702),
                s3 = T(0.43388373911755812048);  // of 2 pi/7, 4 pi/7 and 6 pi/7
    const Values<T> p = a[1] + a[6], q = a[2] + a[5], r = a[3] + a[4];
    const Values<T> u = over_i(a[1] - a[6]), v = over_i(a[2] - a[5]), w = over_i(a[3] - a[4]);
    const Values<T> m1 = a[0] + c1 * p + c2 * q + c3 * r, n1 = s1 * u + s2 * v + s3 * w;
    const Values<T> m2 = a[0] + c2 * p + c3 * q + c1 * r, n2 = s2 * u - s3 * v - s1 * w;
    const Values<T> m3 = a[0] + c3 * p + c1 * q + c2 * r, n3 = s3 * u - s1 * v + s2 * w;
    a[0] = a[0] + p + q + r;
    a[1] = m1 + n1;
    a[2] = m2 + n2;
    a[3] = m3 + n3;
    a[4] = m3 - n3;
    a[5] = m2 - n2;
    a[6] = m1 - n1;
  } else {
    constexpr int first = divisor(radix), second = radix / first;
    Values<T> b[second][first];
    WEFT_UNROLL_ALL
    for (int i = 0; i < second; ++i) {
      WEFT_UNROLL_ALL
      for (int j = 0; j < first; ++j) b[i][j] = a[i + second * j];
      transform<first>(b[i], roots);
      WEFT_UNROLL_ALL
      for (int j = 1; j < first; ++j) {
        if (i > 0) b[i][j] = 4 * i * j == radix ? over_i(b[i][j]) : roots[i * j] * b[i][j];
      }
    }
    WEFT_UNROLL_ALL
    for (int j = 0; j < first; ++j) {
      Values<T> c[second];
      WEFT_UNROLL_ALL
      for (int i = 0; i < second; ++i) c[i] = b[i][j];
      transform<second>(c, roots);
      WEFT_UNROLL_ALL
      for (int i = 0; i < second; ++i) a[j + first * i] = c[i];
    }
  }
}

// --- from and to memory ---------------------------------------------------------------------------------------------

// The elements of two vectors, one after the other, in an order that is given by their numbers.
template <class T, std::size_t... e, class Order>
WEFT_ALWAYS_INLINE Vec<T> ordered(Vec<T> a, Vec<T> b, std::index_sequence<e...>, Order) {
  return __builtin_shufflevector(a, b, Order::of(e)...);
}
template <class T>
inline constexpr auto elements = std::make_index_sequence<static_cast<std::size_t>(lanes<T>)>();

// Two vectors of complex numbers, and their real and imaginary parts. These have the columns in an order that takes one
// instruction per vector, within units of 16 bytes; join() restores theirs.
inline constexpr int unit_bytes = 16;
template <class T, int part>
struct Parted {
  static constexpr int of(int e) {
    constexpr int unit = unit_bytes / static_cast<int>(sizeof(T)), half = unit / 2;
    const int in_unit = e % unit, vector = in_unit / half * lanes<T>;
    return vector + e / unit * unit + 2 * (in_unit % half) + part;
  }
};
template <class T, int vector>
struct Joined {
  static constexpr int of(int e) {
    constexpr int unit = unit_bytes / static_cast<int>(sizeof(T)), half = unit / 2;
    return e % 2 * lanes<T> + e / unit * unit + vector * half + e % unit / 2;
  }
};
template <class T>
WEFT_ALWAYS_INLINE Values<T> split(const T* from) {
  const auto a = load<T>(from), b = load<T>(from + lanes<T>);
  return {ordered<T>(a, b, elements<T>, Parted<T, 0>()), ordered<T>(a, b, elements<T>, Parted<T, 1>())};
}
template <class T>
WEFT_ALWAYS_INLINE void join(Values<T> values, T* to) {
  store<T>(to, ordered<T>(values.re, values.im, elements<T>, Joined<T, 0>()));
  store<T>(to + lanes<T>, ordered<T>(values.re, values.im, elements<T>, Joined<T, 1>()));
}

// Transposes as many vectors as they have elements: in steps, exchanges the parts of each pair of vectors `apart`.
template <class T, int apart, int second>
struct Exchanged {
  static constexpr int of(int e) {
    return (e & apart) != 0 ? lanes<T> + e - (second ? 0 : apart) : e + (second ? apart : 0);
  }
};
template <class T, int apart = 1>
WEFT_ALWAYS_INLINE void transpose(Vec<T>* a) {
  if constexpr (apart < lanes<T>) {
    WEFT_UNROLL_ALL
    for (int i = 0; i < lanes<T>; ++i) {
      if ((i & apart) != 0) continue;
      const auto first = ordered<T>(a[i], a[i + apart], elements<T>, Exchanged<T, apart, 0>());
      a[i + apart] = ordered<T>(a[i], a[i + apart], elements<T>, Exchanged<T, apart, 1>());
      a[i] = first;
    }
    transpose<T, 2 * apart>(a);
  }
}

// --- passes ---------------------------------------------------------------------------------------------------------

// first, last: of columns, from and to memory. end: the last pass within buffers. from_reals, to_reals: of an odd
// number of real numbers, within buffers.
enum class Place { first, between, end, last, from_reals, to_reals };

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
      WEFT_UNROLL_ALL
      for (int k = 0; k < radix; ++k) {
        const std::int64_t block = p + blocks * k;
        values[k] = place == Place::first ? split(a.from + block * a.stride_from) : a.in[q + length * block];
      }
      transform<radix>(values, a.roots);
      WEFT_UNROLL_ALL
      for (int k = 0; k < radix; ++k) {
        if constexpr (place == Place::last) {
          const std::int64_t element = q + length * k;
          T* const to = a.to + (a.backward && element > 0 ? n - element : element) * a.stride_to;
          join(values[k], to);
          __builtin_prefetch(to + 2 * lanes<T>, 1);  // of the next columns
          __builtin_prefetch(to + 3 * lanes<T>, 1);
        } else {
          const bool turned = place != Place::end && k > 0;
          a.out[q + length * (radix * p + k)] = turned ? turns[k - 1] * values[k] : values[k];
        }
      }
    }
  }
}

// n = radix * blocks real numbers in a.in, where n is odd, are transformed in the same way. Of each block's results,
// only the first half and the one between are written: the others are their conjugates in the opposite order.
template <class T, int radix>
void pass_from_reals(const Arguments<T>& a) {
  constexpr int half = radix / 2 + 1;
  const T* const from = reinterpret_cast<const T*>(a.in);
  const Root<T>* turns = a.turns;
  for (std::int64_t p = 0; p < a.blocks; ++p, turns += radix - 1) {
    Values<T> values[radix];
    WEFT_UNROLL_ALL
    for (int k = 0; k < radix; ++k) values[k] = {load<T>(from + (p + a.blocks * k) * lanes<T>), Vec<T>{}};
    transform<radix>(values, a.roots);
    a.out[half * p] = values[0];
    WEFT_UNROLL_ALL
    for (int k = 1; k < half; ++k) a.out[half * p + k] = turns[k - 1] * values[k];
  }
}

// Its inverse, times radix: to real numbers in a.out.
template <class T, int radix>
void pass_to_reals(const Arguments<T>& a) {
  constexpr int half = radix / 2 + 1;
  T* const to = reinterpret_cast<T*>(a.out);
  const Root<T>* turns = a.turns;
  for (std::int64_t p = 0; p < a.blocks; ++p, turns += radix - 1) {
    Values<T> values[radix];
    values[0] = a.in[half * p];
    WEFT_UNROLL_ALL
    for (int k = 1; k < half; ++k) {
      values[k] = Root<T>{turns[k - 1].re, -turns[k - 1].im} * a.in[half * p + k];
      values[radix - k] = {values[k].re, -values[k].im};
    }
    transform<radix>(values, a.roots);
    WEFT_UNROLL_ALL
    for (int k = 0; k < radix; ++k) store<T>(to + (p + a.blocks * k) * lanes<T>, values[(radix - k) % radix].re);
  }
}

template <class T>
using Function = void (*)(const Arguments<T>&);

inline constexpr std::array radices{2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16};

template <class T, int radix>
Function<T> function_at(Place place) {
  if constexpr (radix % 2 != 0) {
    if (place == Place::from_reals) return pass_from_reals<T, radix>;
    if (place == Place::to_reals) return pass_to_reals<T, radix>;
  }
  return place == Place::first     ? pass<T, radix, Place::first>
         : place == Place::between ? pass<T, radix, Place::between>
         : place == Place::end     ? pass<T, radix, Place::end>
                                   : pass<T, radix, Place::last>;
}
template <class T>
Function<T> function_of(int radix, Place place) {
  Function<T> found = nullptr;
  const auto look = [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((radices[i] == radix ? void(found = function_at<T, radices[i]>(place)) : void()), ...);
  };
  look(std::make_index_sequence<radices.size()>());
  return found;
}

// The fewest radices with the product n, and among these the smallest; at least `least` and at most `most`.
inline std::vector<int> best_radices(int n, int least, int most) {
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
    Pass<T> pass{function_of<T>(radix, place), left / radix, length, {}, {}};
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

}  // namespace weft::fft::inline WEFT_VECTORS
