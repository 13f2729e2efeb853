// Vectors of the widest registers that the compiler may use, and indirect reads and writes of assembled vectors.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define WEFT_ALWAYS_INLINE inline __attribute__((always_inline))
#define WEFT_LAMBDA_INLINE __attribute__((always_inline))
#define WEFT_UNROLL_ALL _Pragma("GCC unroll 16")

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define WEFT_AVX512
#define WEFT_VECTOR_BYTES 64
#define WEFT_VECTORS bytes_64
#elif defined(__AVX__)
#define WEFT_VECTOR_BYTES 32
#define WEFT_VECTORS bytes_32
#else
#define WEFT_VECTOR_BYTES 16
#define WEFT_VECTORS bytes_16
#endif

// An inline namespace, so that functions in files compiled for different vector sizes have different names for the
// linker.
namespace weft::simd::inline WEFT_VECTORS {

inline constexpr int bytes = WEFT_VECTOR_BYTES;

// The number of values in the widest register. In files that are not compiled for the processor
// (cmake/architecture.cmake) the number would be wrong, so using it there is a compile error.
template <class T>
inline constexpr int lanes = [] {
#if !defined(WEFT_FOR_PROCESSOR)
  static_assert(sizeof(T) == 0, "this file uses simd::lanes: list it in cmake/architecture.cmake");
#endif
  return bytes / static_cast<int>(sizeof(T));
}();

template <class T, int count>
struct VecOf {
  typedef T type __attribute__((vector_size(count * sizeof(T)), may_alias));
};
template <class T, int count = bytes / static_cast<int>(sizeof(T))>
using Vec = typename VecOf<T, count>::type;

template <class T, int n = lanes<T>>
WEFT_ALWAYS_INLINE Vec<T, n> load(const T* from) {
  Vec<T, n> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <class T, int n = lanes<T>>
WEFT_ALWAYS_INLINE void store(T* to, Vec<T, n> v) {
  std::memcpy(to, &v, sizeof(v));
}

template <class T>
inline double sum(Vec<T> v) {
  double total = 0;
  for (int l = 0; l < lanes<T>; ++l) total += static_cast<double>(v[l]);
  return total;
}

// Calls use(lane) for the first `count` lanes of `size` from `at`: by halves, since compilers make calls of memcpy, and
// values in memory, of a loop over a number of lanes that they do not know.
template <int at, int size, class Use>
WEFT_ALWAYS_INLINE void for_first_lanes(int count, Use&& use) {
  if constexpr (size > 1) {
    constexpr int half = size / 2;
    if ((count & half) != 0) {
      [&]<int... l>(std::integer_sequence<int, l...>)
          WEFT_LAMBDA_INLINE { (use(at + l), ...); }(std::make_integer_sequence<int, half>{});
      for_first_lanes<at + half, half>(count, use);
    } else {
      for_first_lanes<at, half>(count, use);
    }
  }
}

// A vector of which only `count` lanes (1..n) are in memory; the others are 0 and are not written. If the compiler
// knows `count`, it also knows the mask.
template <class T, int n = lanes<T>>
WEFT_ALWAYS_INLINE Vec<T, n> load_first(const T* from, int count) {
  if (__builtin_constant_p(count) && count == n) return load<T, n>(from);
#if defined(WEFT_AVX512)
  const unsigned mask = (1u << count) - 1;
  using V = Vec<T, n>;
  if constexpr (sizeof(V) == 64 && sizeof(T) == 8)
    return reinterpret_cast<V>(_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from));
  else if constexpr (sizeof(V) == 64)
    return reinterpret_cast<V>(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from));
  else if constexpr (sizeof(V) == 32 && sizeof(T) == 8)
    return reinterpret_cast<V>(_mm256_maskz_loadu_pd(static_cast<__mmask8>(mask), from));
  else if constexpr (sizeof(V) == 32)
    return reinterpret_cast<V>(_mm256_maskz_loadu_ps(static_cast<__mmask8>(mask), from));
  else if constexpr (sizeof(T) == 8)
    return reinterpret_cast<V>(_mm_maskz_loadu_pd(static_cast<__mmask8>(mask), from));
  else
    return reinterpret_cast<V>(_mm_maskz_loadu_ps(static_cast<__mmask8>(mask), from));
#else
  if (count == n) return load<T, n>(from);
#if defined(__AVX2__)
  if constexpr (n * sizeof(T) == 32 && sizeof(T) == 8) {
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
    return reinterpret_cast<Vec<T, n>>(_mm256_maskload_pd(from, mask));
  } else if constexpr (n * sizeof(T) == 32) {
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return reinterpret_cast<Vec<T, n>>(_mm256_maskload_ps(from, mask));
  }
#endif
  Vec<T, n> v{};
  for_first_lanes<0, n>(count, [&](int lane) WEFT_LAMBDA_INLINE { v[lane] = from[lane]; });
  return v;
#endif
}
template <class T, int n = lanes<T>>
WEFT_ALWAYS_INLINE void store_first(T* to, Vec<T, n> v, int count) {
  if (__builtin_constant_p(count) && count == n) return store<T, n>(to, v);
#if defined(WEFT_AVX512)
  const unsigned mask = (1u << count) - 1;
  if constexpr (sizeof(v) == 64 && sizeof(T) == 8)
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask), reinterpret_cast<__m512d>(v));
  else if constexpr (sizeof(v) == 64)
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), reinterpret_cast<__m512>(v));
  else if constexpr (sizeof(v) == 32 && sizeof(T) == 8)
    _mm256_mask_storeu_pd(to, static_cast<__mmask8>(mask), reinterpret_cast<__m256d>(v));
  else if constexpr (sizeof(v) == 32)
    _mm256_mask_storeu_ps(to, static_cast<__mmask8>(mask), reinterpret_cast<__m256>(v));
  else if constexpr (sizeof(T) == 8)
    _mm_mask_storeu_pd(to, static_cast<__mmask8>(mask), reinterpret_cast<__m128d>(v));
  else
    _mm_mask_storeu_ps(to, static_cast<__mmask8>(mask), reinterpret_cast<__m128>(v));
#else  // AVX2 has masked stores, but they take some 20 operations on AMD's processors
  if (count == n) return store<T, n>(to, v);
  for_first_lanes<0, n>(count, [&](int lane) WEFT_LAMBDA_INLINE { to[lane] = v[lane]; });
#endif
}

// Calls work(first, count) for runs of count <= n values that together make up `size`; count is a
// std::integral_constant.
template <int n, int size, class Work>
WEFT_ALWAYS_INLINE void runs(Work&& work) {
  for (int first = 0; first + n <= size; first += n) work(first, std::integral_constant<int, n>{});
  if constexpr (size % n != 0) work(size / n * n, std::integral_constant<int, size % n>{});
}

#if defined(WEFT_AVX512)
// Uses the masked intrinsics, because with the others g++ 12 warns about its own header.
inline Vec<double> gather(const double* from, __m256i index) {
  return reinterpret_cast<Vec<double>>(_mm512_mask_i32gather_pd(_mm512_setzero_pd(), 0xFF, index, from, 8));
}
inline Vec<float> gather(const float* from, __m512i index) {
  return reinterpret_cast<Vec<float>>(_mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xFFFF, index, from, 4));
}
inline Vec<std::int32_t> gather(const std::int32_t* from, __m512i index) {
  return reinterpret_cast<Vec<std::int32_t>>(
      _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xFFFF, index, from, 4));
}
inline void scatter(double* to, __m256i index, Vec<double> v) {
  _mm512_i32scatter_pd(to, index, reinterpret_cast<__m512d>(v), 8);
}
inline void scatter(float* to, __m512i index, Vec<float> v) {
  _mm512_i32scatter_ps(to, index, reinterpret_cast<__m512>(v), 4);
}
inline Vec<double> gather(const double* from, __m256i index, unsigned lanes) {
  return reinterpret_cast<Vec<double>>(
      _mm512_mask_i32gather_pd(_mm512_setzero_pd(), static_cast<__mmask8>(lanes), index, from, 8));
}
inline Vec<float> gather(const float* from, __m512i index, unsigned lanes) {
  return reinterpret_cast<Vec<float>>(
      _mm512_mask_i32gather_ps(_mm512_setzero_ps(), static_cast<__mmask16>(lanes), index, from, 4));
}
inline void scatter(double* to, __m256i index, Vec<double> v, unsigned lanes) {
  _mm512_mask_i32scatter_pd(to, static_cast<__mmask8>(lanes), index, reinterpret_cast<__m512d>(v), 8);
}
inline void scatter(float* to, __m512i index, Vec<float> v, unsigned lanes) {
  _mm512_mask_i32scatter_ps(to, static_cast<__mmask16>(lanes), index, reinterpret_cast<__m512>(v), 4);
}
template <class T>
inline auto load_index(const std::int32_t* index) {
  if constexpr (sizeof(T) == 8)
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
  else
    return _mm512_loadu_si512(index);
}
#endif

// from[index[l]], lane by lane.
template <class T, int n = lanes<T>>
WEFT_ALWAYS_INLINE Vec<T, n> gather(const T* from, const std::int32_t* index) {
#if defined(WEFT_AVX512)
  using V = Vec<T, n>;
  if constexpr (sizeof(V) == 64) {
    return gather(from, load_index<T>(index));
  } else if constexpr (sizeof(V) == 32 && sizeof(T) == 8) {
    const __m128i i = _mm_loadu_si128(reinterpret_cast<const __m128i*>(index));
    return reinterpret_cast<V>(_mm256_mmask_i32gather_pd(_mm256_setzero_pd(), 0xF, i, from, 8));
  } else if constexpr (sizeof(V) == 32) {
    const __m256i i = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
    return reinterpret_cast<V>(_mm256_mmask_i32gather_ps(_mm256_setzero_ps(), 0xFF, i, from, 4));
  } else
#endif
  {
    Vec<T, n> v;
    for (int l = 0; l < n; ++l) v[l] = from[index[l]];
    return v;
  }
}

// gather() with the processor's gather instruction, if there is one for vectors of this length.
#if defined(WEFT_AVX512) || defined(__AVX2__)
inline constexpr bool has_gather = true;
#else
inline constexpr bool has_gather = false;
#endif
template <class T>
WEFT_ALWAYS_INLINE Vec<T> gather_at_once(const T* from, const std::int32_t* index) {
#if defined(__AVX2__) && !defined(WEFT_AVX512)
  if constexpr (sizeof(T) == 8) {
    const __m128i i = _mm_loadu_si128(reinterpret_cast<const __m128i*>(index));
    const __m256d all = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
    return reinterpret_cast<Vec<T>>(_mm256_mask_i32gather_pd(_mm256_setzero_pd(), from, i, all, 8));
  } else {
    const __m256i i = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
    const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi64x(-1));
    return reinterpret_cast<Vec<T>>(_mm256_mask_i32gather_ps(_mm256_setzero_ps(), from, i, all, 4));
  }
#else
  return gather<T>(from, index);
#endif
}
// gather() by single loads, which is faster on some processors.
template <class T>
WEFT_ALWAYS_INLINE Vec<T> gather_by_loads(const T* from, const std::int32_t* index) {
  Vec<T> v;
  for (int l = 0; l < lanes<T>; ++l) v[l] = from[index[l]];
  return v;
}

// For the lanes whose bits are set in the mask: from[index[l]], else 0; to[index[l]] = v[l], else nothing is written.
template <class T>
inline Vec<T> gather_lanes(const T* from, const std::int32_t* index, unsigned mask) {
#if defined(WEFT_AVX512)
  return gather(from, load_index<T>(index), mask);
#else
  Vec<T> v{};
  for (int l = 0; l < lanes<T>; ++l)
    if ((mask >> l & 1) != 0) v[l] = from[index[l]];
  return v;
#endif
}
template <class T>
inline void scatter_lanes(T* to, const std::int32_t* index, Vec<T> v, unsigned mask) {
#if defined(WEFT_AVX512)
  scatter(to, load_index<T>(index), v, mask);
#else
  for (int l = 0; l < lanes<T>; ++l)
    if ((mask >> l & 1) != 0) to[index[l]] = v[l];
#endif
}

// to[index[l]] += v[l], lane by lane, except for entry `none`: correct for any indices, including repeated ones, and
// for several threads that share no other entry.
template <class T>
__attribute__((noinline)) void scatter_add_serial(T* to, const std::int32_t* index, Vec<T> v, std::int32_t none) {
  for (int l = 0; l < lanes<T>; ++l)
    if (index[l] != none) to[index[l]] += v[l];
}
// The same for all entries, inlined, for processors with slow gather and scatter instructions.
template <class T>
WEFT_ALWAYS_INLINE void scatter_add_by_stores(T* to, const std::int32_t* index, Vec<T> v) {
  for (int l = 0; l < lanes<T>; ++l) to[index[l]] += v[l];
}
// The same if no two lanes have the same index (except entries that are never read).
template <class T>
inline void scatter_add(T* to, const std::int32_t* index, Vec<T> v) {
#if defined(WEFT_AVX512)
  const auto i = load_index<T>(index);
  scatter(to, i, gather(to, i) + v);
#else
  for (int l = 0; l < lanes<T>; ++l) to[index[l]] += v[l];
#endif
}

}  // namespace weft::simd::inline WEFT_VECTORS
