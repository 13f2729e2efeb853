// A Runge-Kutta stage of Maxwell's equations on one element, in one pass over memory (docs/cpu-kernels.md):
//   D_t columns, D_s columns and the lift of the faces' jumps gather in a scratch array in cache,
//   D_r by rows, the rates, residual <- a residual + dt rate, fields += b residual,
//   and the traces of the new fields.
// The scheme is that of kernels/maxwell.hpp: covariant components, 12 derivatives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "weft/maxwell/simd_elements.hpp"
#include "weft/poisson/simd_vector.hpp"

namespace weft::maxwell {

#define WEFT_ALWAYS_INLINE inline __attribute__((always_inline))
#define WEFT_UNROLL_ALL _Pragma("GCC unroll 16")
#define WEFT_LAMBDA_INLINE __attribute__((always_inline))

// Vectors of `lanes` values, at most a register.
template <class T, int lanes>
struct Lanes {
  typedef T type __attribute__((vector_size(lanes * sizeof(T)), may_alias));
};

template <class T, int lanes>
class Simd {
 public:
  using V = typename Lanes<T, lanes>::type;

  static WEFT_ALWAYS_INLINE V load(const T* from) {
    V v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  }
  static WEFT_ALWAYS_INLINE void store(T* to, V v) { std::memcpy(to, &v, sizeof(v)); }
  // The first `count` lanes; the others are 0, and not written.
  template <int count>
  static WEFT_ALWAYS_INLINE V load_first(const T* from) {
    if constexpr (count == lanes) {
      return load(from);
    } else {
#if defined(WEFT_AVX512)
      constexpr unsigned mask = (1u << count) - 1;
      if constexpr (sizeof(V) == 64 && sizeof(T) == 8)
        return reinterpret_cast<V>(_mm512_maskz_loadu_pd(mask, from));
      else if constexpr (sizeof(V) == 64)
        return reinterpret_cast<V>(_mm512_maskz_loadu_ps(mask, from));
      else if constexpr (sizeof(V) == 32 && sizeof(T) == 8)
        return reinterpret_cast<V>(_mm256_maskz_loadu_pd(mask, from));
      else if constexpr (sizeof(V) == 32)
        return reinterpret_cast<V>(_mm256_maskz_loadu_ps(mask, from));
      else if constexpr (sizeof(T) == 8)
        return reinterpret_cast<V>(_mm_maskz_loadu_pd(mask, from));
      else
        return reinterpret_cast<V>(_mm_maskz_loadu_ps(mask, from));
#else
      V v{};
      for (int l = 0; l < count; ++l) v[l] = from[l];
      return v;
#endif
    }
  }
  template <int count>
  static WEFT_ALWAYS_INLINE void store_first(T* to, V v) {
    if constexpr (count == lanes) {
      store(to, v);
    } else {
#if defined(WEFT_AVX512)
      constexpr unsigned mask = (1u << count) - 1;
      if constexpr (sizeof(V) == 64 && sizeof(T) == 8)
        _mm512_mask_storeu_pd(to, mask, reinterpret_cast<__m512d>(v));
      else if constexpr (sizeof(V) == 64)
        _mm512_mask_storeu_ps(to, mask, reinterpret_cast<__m512>(v));
      else if constexpr (sizeof(V) == 32 && sizeof(T) == 8)
        _mm256_mask_storeu_pd(to, mask, reinterpret_cast<__m256d>(v));
      else if constexpr (sizeof(V) == 32)
        _mm256_mask_storeu_ps(to, mask, reinterpret_cast<__m256>(v));
      else if constexpr (sizeof(T) == 8)
        _mm_mask_storeu_pd(to, mask, reinterpret_cast<__m128d>(v));
      else
        _mm_mask_storeu_ps(to, mask, reinterpret_cast<__m128>(v));
#else
      for (int l = 0; l < count; ++l) to[l] = v[l];
#endif
    }
  }

  // Calls work(first, Count<c>) for runs of c <= lanes values that make up `size`.
  template <int c>
  struct Count {
    static constexpr int value = c;
  };
  template <int size, class Work>
  static WEFT_ALWAYS_INLINE void runs(Work&& work) {
    for (int first = 0; first + lanes <= size; first += lanes) work(first, Count<lanes>{});
    if constexpr (size % lanes != 0) work(size / lanes * lanes, Count<size % lanes>{});
  }
};

// The lanes worth having for runs of `size`: the register, or what just holds them.
template <class T>
constexpr int lanes_for(int size) {
  int lanes = 16 / static_cast<int>(sizeof(T));
  while (lanes < size && lanes < poisson::simd_lanes<T>) lanes *= 2;
  return lanes;
}

// out(i, (D u)_i) for i = 0..n-1, by even and odd parts: contract() of poisson/simd_kernel.hpp.
template <int n, class T, class V, class Out>
WEFT_ALWAYS_INLINE void contract(const T* __restrict__ c, const V (&u)[n], Out&& out) {
  constexpr int h = n / 2, row = 2 * h + n % 2;
  V e[h], o[h];
  WEFT_UNROLL_ALL for (int m = 0; m < h; ++m) {
    e[m] = u[m] + u[n - 1 - m];
    o[m] = u[m] - u[n - 1 - m];
  }
  WEFT_UNROLL_ALL for (int i = 0; i < h; ++i) {
    const T* ci = c + i * row;
    V a = ci[0] * e[0], b = ci[h] * o[0];
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) {
      a += ci[m] * e[m];
      b += ci[h + m] * o[m];
    }
    if constexpr (n % 2 == 1) a += ci[2 * h] * u[h];
    out(i, b + a);
    out(n - 1 - i, b - a);
  }
  if constexpr (n % 2 == 1) {
    const T* ci = c + h * row;
    V b = ci[0] * o[0];
    WEFT_UNROLL_ALL for (int m = 1; m < h; ++m) b += ci[m] * o[m];
    out(h, b);
  }
}

template <int N, class T>
class Kernel {
 public:
  static constexpr int n = N + 1, face = n * n, points = n * n * n;
  static constexpr int stride = static_cast<int>(face_stride<T>(N));  // of a trace's components
  static constexpr int line = 64 / static_cast<int>(sizeof(T));
  // Of the scratch's components: they do not fall into one set of the first cache.
  static constexpr int scratch_stride = (points + line - 1) / line * line + line;
  static constexpr int row_lanes = lanes_for<T>(n), row_vectors = (n + row_lanes - 1) / row_lanes;
  static constexpr int row_stride = row_lanes * row_vectors;
  using Row = Simd<T, row_lanes>;
  using Wide = Simd<T, lanes_for<T>(face)>;
  using Full = Simd<T, poisson::simd_lanes<T>>;  // divides stride

  // Curl, covariant fields, and of faces: lifts in r [2][4], one jump [4], one neighbour's trace [4].
  static constexpr std::int64_t scratch_values = 12 * scratch_stride + 16 * stride;

  static void stage(const SimdElements<T>& d, const StageArguments<T>& s, const std::int64_t* order, std::int64_t begin,
                    std::int64_t end, T* scratch) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t e = order[i];
      Ahead ahead;
      if (i + 1 < end) ahead.start(d, s, order[i + 1]);
      switch (d.shapes[e]) {
        case Shape::box:
          element<Shape::box>(d, s, e, scratch, ahead);
          break;
        case Shape::affine:
          element<Shape::affine>(d, s, e, scratch, ahead);
          break;
        case Shape::curved:
          element<Shape::curved>(d, s, e, scratch, ahead);
          break;
      }
    }
  }

  static void traces(const SimdElements<T>& d, const StageArguments<T>& s, const std::int64_t* order,
                     std::int64_t begin, std::int64_t end, T* scratch) {
    T* covariant = scratch + 6 * scratch_stride;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t e = order[i];
      const T* u = s.fields + e * (6 * points);
      if (d.shapes[e] == Shape::box) {
        write_traces<true>(d, e, u, points, s.next_traces);
      } else {
        if (d.shapes[e] == Shape::affine)
          to_covariant<Shape::affine>(d, e, u, covariant);
        else
          to_covariant<Shape::curved>(d, e, u, covariant);
        write_traces<false>(d, e, covariant, scratch_stride, s.next_traces);
      }
    }
  }

 private:
  // Asks for the fields, the residual and the neighbours' traces of the next element, a few lines at a time while this
  // one computes, so that memory and arithmetic overlap.
  struct Ahead {
    const T *u = nullptr, *r = nullptr;
    int at = 0;
    static constexpr int lines = (6 * points + line - 1) / line;
    static constexpr int steps = 3 * n;  // step() is called so often an element, at least
    static constexpr int per_step = (lines + steps - 1) / steps;
    const T* faces[6];
    int face_at = 0;
    static constexpr int face_lines = 4 * stride / line;
    static constexpr int face_per_step = (6 * face_lines + steps - 1) / steps;

    void start(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e) {
      u = s.fields + e * (6 * points);
      r = s.residual + e * (6 * points);
      for (int side = 0; side < 6; ++side) faces[side] = s.traces + d.neighbors[6 * e + side];
    }
    WEFT_ALWAYS_INLINE void step() {
      if (u == nullptr) return;
      const int stop = at + per_step < lines ? at + per_step : lines;
      for (; at < stop; ++at) {
        __builtin_prefetch(u + at * line, 0, 2);
        __builtin_prefetch(r + at * line, 0, 2);
      }
      const int face_stop = face_at + face_per_step < 6 * face_lines ? face_at + face_per_step : 6 * face_lines;
      for (; face_at < face_stop; ++face_at)
        __builtin_prefetch(faces[face_at / face_lines] + face_at % face_lines * line, 0, 2);
    }
  };

  template <class V>
  struct Frame {
    V x[9];  // x_r, x_s, x_t
  };
  template <class S, Shape shape, int count>
  static WEFT_ALWAYS_INLINE auto frame_at(const SimdElements<T>& d, std::int64_t e, int p) {
    using V = typename S::V;
    if constexpr (shape == Shape::curved) {
      Frame<V> f;
      const T* g = d.jacobians + d.metric[e] * (9 * points) + p;
      WEFT_UNROLL_ALL for (int c = 0; c < 9; ++c) f.x[c] = S::template load_first<count>(g + c * points);
      return f;
    } else {
      Frame<V> f;
      WEFT_UNROLL_ALL for (int c = 0; c < 9; ++c) f.x[c] = d.values[e].frame[c] + V{};
      return f;
    }
  }
  template <class V>
  static WEFT_ALWAYS_INLINE V determinant(const Frame<V>& f) {
    const V(&x)[9] = f.x;
    return x[0] * (x[4] * x[8] - x[5] * x[7]) + x[1] * (x[5] * x[6] - x[3] * x[8]) + x[2] * (x[3] * x[7] - x[4] * x[6]);
  }

  template <Shape shape>
  static __attribute__((noinline)) void to_covariant(const SimdElements<T>& d, std::int64_t e, const T* __restrict__ u,
                                                     T* __restrict__ f) {
    Wide::template runs<points>([&](int p, auto count) WEFT_LAMBDA_INLINE {
      constexpr int c = decltype(count)::value;
      const auto x = frame_at<Wide, shape, c>(d, e, p);
      WEFT_UNROLL_ALL for (int half = 0; half < 6; half += 3) {
        const auto u0 = Wide::template load_first<c>(u + half * points + p);
        const auto u1 = Wide::template load_first<c>(u + (half + 1) * points + p);
        const auto u2 = Wide::template load_first<c>(u + (half + 2) * points + p);
        WEFT_UNROLL_ALL for (int k = 0; k < 3; ++k) Wide::template store_first<c>(
            f + (half + k) * scratch_stride + p, x.x[3 * k] * u0 + x.x[3 * k + 1] * u1 + x.x[3 * k + 2] * u2);
      }
    });
  }

  // What side s of an element is: its first point, and the components (0..2) along its axes.
  static constexpr int side_point(int side) {
    constexpr int strides[3] = {1, n, n * n};
    return side % 2 * (n - 1) * strides[side / 2];
  }
  static constexpr int axis_a(int side) { return side < 2 ? 1 : 0; }
  static constexpr int axis_b(int side) { return side < 4 ? 2 : 1; }

  // Calls work(q, p, Count) for runs of a face's values: q in the face, p in the element. Sides in s and t only.
  template <int side, class Work>
  static WEFT_ALWAYS_INLINE void face_runs(Work&& work) {
    if constexpr (side >= 4) {
      Wide::template runs<face>([&](int q, auto count)
                                    WEFT_LAMBDA_INLINE { work(q, side_point(side) + q, count, Wide{}); });
    } else {
      for (int k = 0; k < n; ++k)
        Row::template runs<n>([&](int i, auto count) WEFT_LAMBDA_INLINE {
          work(k * n + i, side_point(side) + k * face + i, count, Row{});
        });
    }
  }

  // The neighbour's trace in this face's frame.
  static WEFT_ALWAYS_INLINE const T* meeting_trace(const SimdElements<T>& d, std::int64_t at,
                                                   const T* __restrict__ traces, T* __restrict__ turned) {
    const T* from = traces + d.neighbors[at];
    const int which = d.matches[at];
    if (which < 0) return from;
    turn(d.match[which], from, turned);
    return turned;
  }
  static __attribute__((noinline)) void turn(const FaceMatch<T>& m, const T* __restrict__ from, T* __restrict__ to) {
    const int a = m.swap, b = 1 - m.swap;
    for (int half = 0; half < 4; half += 2) {
      for (int q = 0; q < face; ++q) {
        to[half * stride + q] = m.sign_a * from[(half + a) * stride + m.index[q]];
        to[(half + 1) * stride + q] = m.sign_b * from[(half + b) * stride + m.index[q]];
      }
    }
  }

  // What the jumps (own - neighbour's) of E and H along a and b add to the curls along a and b (kernels/maxwell.hpp's
  // lift, in covariant components), for E and for H.
  template <Shape shape, class V>
  static WEFT_ALWAYS_INLINE void lift(const typename ElementValues<T>::Face& f, const V (&jump)[4], const V (&g)[3],
                                      V (&out)[4]) {
    const V &ea = jump[0], &eb = jump[1], &ha = jump[2], &hb = jump[3];
    if constexpr (shape == Shape::box) {
      out[0] = f.hb_ea * hb + f.ea_ea * ea;
      out[1] = f.ha_eb * ha + f.eb_eb * eb;
      out[2] = f.eb_ha * eb + f.ha_ha * ha;
      out[3] = f.ea_hb * ea + f.hb_hb * hb;
    } else {
      out[0] = f.hb_ea * hb + f.ea_ea * (g[2] * ea - g[1] * eb);
      out[1] = f.ha_eb * ha + f.eb_eb * (g[0] * eb - g[1] * ea);
      out[2] = f.eb_ha * eb + f.ha_ha * (g[2] * ha - g[1] * hb);
      out[3] = f.ea_hb * ea + f.hb_hb * (g[0] * hb - g[1] * ha);
    }
  }
  template <Shape shape, class S>
  static WEFT_ALWAYS_INLINE void surface_metric(const SimdElements<T>& d, std::int64_t e, int side, int q,
                                                typename S::V (&g)[3]) {
    using V = typename S::V;
    if constexpr (shape == Shape::affine) {
      const auto& f = d.values[e].faces[side];
      g[0] = f.g_aa + V{};
      g[1] = f.g_ab + V{};
      g[2] = f.g_bb + V{};
    }
    if constexpr (shape == Shape::curved) {
      const T* from = d.face_metrics + (d.metric[e] * 6 + side) * (3 * stride) + q;
      WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c) g[c] = S::load(from + c * stride);
    }
  }

  // Faces in s and t: added to the curl.
  template <Shape shape, int side>
  static WEFT_ALWAYS_INLINE void add_face(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e,
                                          const T* __restrict__ f, int f_stride, T* __restrict__ curl, T* turned) {
    const T* __restrict__ other = meeting_trace(d, 6 * e + side, s.traces, turned);
    const ElementValues<T>& values = d.values[e];
    constexpr int a = axis_a(side), b = axis_b(side);
    face_runs<side>([&](int q, int p, auto count, auto simd) WEFT_LAMBDA_INLINE {
      using S = decltype(simd);
      using V = typename S::V;
      constexpr int c = decltype(count)::value;
      V jump[4], g[3] = {}, out[4];
      const auto own = [&](int component, int axis) WEFT_LAMBDA_INLINE {
        const V v = S::template load_first<c>(f + component * f_stride + p);
        if constexpr (shape == Shape::box)
          return values.frame[axis] * v;
        else
          return v;
      };
      jump[0] = own(a, a) - S::template load_first<c>(other + q);
      jump[1] = own(b, b) - S::template load_first<c>(other + stride + q);
      jump[2] = own(3 + a, a) - S::template load_first<c>(other + 2 * stride + q);
      jump[3] = own(3 + b, b) - S::template load_first<c>(other + 3 * stride + q);
      surface_metric<shape, S>(d, e, side, q, g);
      lift<shape>(values.faces[side], jump, g, out);
      const auto add = [&](int component, V v) WEFT_LAMBDA_INLINE {
        T* to = curl + component * scratch_stride + p;
        S::template store_first<c>(to, S::template load_first<c>(to) + v);
      };
      add(a, out[0]);
      add(b, out[1]);
      add(3 + a, out[2]);
      add(3 + b, out[3]);
    });
  }

  // Faces in r: [4][stride], for the pass by rows to add. The face's points are the ends of rows.
  template <Shape shape>
  static WEFT_ALWAYS_INLINE void row_face(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e,
                                          int side, const T* __restrict__ f, int f_stride, T* __restrict__ lifts,
                                          T* turned) {
    const T* __restrict__ other = meeting_trace(d, 6 * e + side, s.traces, turned);
    const ElementValues<T>& values = d.values[e];
    for (int q = 0; q < stride; q += poisson::simd_lanes<T>) {
      using V = typename Full::V;
      V jump[4], g[3] = {}, out[4];
      WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) {
        const int axis = 1 + c % 2;
        V own = poisson::gather(f + (c / 2 * 3 + axis) * f_stride + side_point(side), d.row_starts + q);
        if constexpr (shape == Shape::box) own = values.frame[axis] * own;
        jump[c] = own - Full::load(other + c * stride + q);
      }
      surface_metric<shape, Full>(d, e, side, q, g);
      lift<shape>(values.faces[side], jump, g, out);
      WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) Full::store(lifts + c * stride + q, out[c]);
    }
  }

  template <bool box>
  static __attribute__((noinline)) void write_traces(const SimdElements<T>& d, std::int64_t e, const T* __restrict__ f,
                                                     int f_stride, T* __restrict__ traces) {
    T* __restrict__ to = traces + e * (24 * stride);
    const T* frame = d.values[e].frame;
    for (int side = 0; side < 2; ++side)
      for (int c = 0; c < 4; ++c) {
        const int axis = 1 + c % 2;
        const T* from = f + (c / 2 * 3 + axis) * f_stride + side_point(side);
        for (int q = 0; q < stride; q += poisson::simd_lanes<T>) {
          auto v = poisson::gather(from, d.row_starts + q);
          if constexpr (box) v = frame[axis] * v;
          Full::store(to + (side * 4 + c) * stride + q, v);
        }
      }
    const auto copy = [&](auto which) WEFT_LAMBDA_INLINE {
      constexpr int side = decltype(which)::value, a = axis_a(side), b = axis_b(side);
      T* face_trace = to + side * 4 * stride;
      face_runs<side>([&](int q, int p, auto count, auto simd) WEFT_LAMBDA_INLINE {
        using S = decltype(simd);
        constexpr int c = decltype(count)::value;
        const auto put = [&](int place, int component, int axis) WEFT_LAMBDA_INLINE {
          auto v = S::template load_first<c>(f + component * f_stride + p);
          if constexpr (box) v = frame[axis] * v;
          S::template store_first<c>(face_trace + place * stride + q, v);
        };
        put(0, a, a);
        put(1, b, b);
        put(2, 3 + a, a);
        put(3, 3 + b, b);
      });
    };
    copy(typename Row::template Count<2>{});
    copy(typename Row::template Count<3>{});
    copy(typename Row::template Count<4>{});
    copy(typename Row::template Count<5>{});
  }

  // D_t: columns, begins the sums of curl components 0, 1, 3, 4.
  static __attribute__((noinline)) void columns_t(const SimdElements<T>& d, const ElementValues<T>& values,
                                                  const T* __restrict__ f, int f_stride, T* __restrict__ curl,
                                                  Ahead& ahead) {
    static constexpr int from[4] = {4, 3, 1, 0}, to[4] = {0, 1, 3, 4};
    for (int c = 0; c < 4; ++c) {
      const T* __restrict__ in = f + from[c] * f_stride;
      T* __restrict__ out = curl + to[c] * scratch_stride;
      const T factor = values.d_t[c];
      Wide::template runs<face>([&](int q, auto count) WEFT_LAMBDA_INLINE {
        constexpr int size = decltype(count)::value;
        typename Wide::V u[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = Wide::template load_first<size>(in + k * face + q);
        contract<n, T>(d.even_odd, u, [&](int k, typename Wide::V v) WEFT_LAMBDA_INLINE {
          Wide::template store_first<size>(out + k * face + q, factor * v);
        });
      });
      for (int k = 0; k < (n + 3) / 4; ++k) ahead.step();
    }
  }

  // D_s: added to components 0 and 3, begins 2 and 5.
  static __attribute__((noinline)) void columns_s(const SimdElements<T>& d, const ElementValues<T>& values,
                                                  const T* __restrict__ f, int f_stride, T* __restrict__ curl,
                                                  Ahead& ahead) {
    static constexpr int from[4] = {5, 3, 2, 0}, to[4] = {0, 2, 3, 5};
    for (int k = 0; k < n; ++k) {
      ahead.step();
      WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) {
        const T* __restrict__ in = f + from[c] * f_stride + k * face;
        T* __restrict__ out = curl + to[c] * scratch_stride + k * face;
        const T factor = values.d_s[c];
        Row::template runs<n>([&](int i, auto count) WEFT_LAMBDA_INLINE {
          constexpr int size = decltype(count)::value;
          typename Row::V u[n];
          WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = Row::template load_first<size>(in + j * n + i);
          contract<n, T>(d.even_odd, u, [&](int j, typename Row::V v) WEFT_LAMBDA_INLINE {
            T* at = out + j * n + i;
            if (c % 2 == 0)
              Row::template store_first<size>(at, Row::template load_first<size>(at) + factor * v);
            else
              Row::template store_first<size>(at, factor * v);
          });
        });
      }
    }
  }

  // D_r by rows, and all that is left to do with the row's points.
  template <Shape shape, bool first>
  static __attribute__((noinline)) void rows(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e, T* f,
                                             const T* __restrict__ curl, const T* __restrict__ lifts, Ahead& ahead) {
    using V = typename Row::V;
    static constexpr int from[4] = {5, 4, 2, 1};
    constexpr int f_stride = shape == Shape::box ? points : scratch_stride;
    const ElementValues<T>& values = d.values[e];
    T* u = s.fields + e * (6 * points);
    T* residual = s.residual + e * (6 * points);
    const T a = s.a, b = s.b, dt = s.dt;
    const bool update = s.update;
    for (int q = 0; q < face; ++q) {
      if (q % n == 0) ahead.step();
      const int row = q * n;
      V sum[4][row_vectors];  // D_r of (h_t, h_s, e_t, e_s)
      WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) {
        const T* in = f + from[c] * f_stride + row;
        WEFT_UNROLL_ALL for (int v = 0; v < row_vectors; ++v) sum[c][v] = Row::load(d.rows + v * row_lanes) * in[0];
        WEFT_UNROLL_ALL for (int m = 1; m < n; ++m) {
          WEFT_UNROLL_ALL for (int v = 0; v < row_vectors; ++v) sum[c][v] +=
              Row::load(d.rows + m * row_stride + v * row_lanes) * in[m];
        }
      }
      const auto ends = [&](int component, int v) WEFT_LAMBDA_INLINE {
        return Row::load(d.rows + n * row_stride + v * row_lanes) * lifts[component * stride + q] +
               Row::load(d.rows + (n + 1) * row_stride + v * row_lanes) * lifts[(4 + component) * stride + q];
      };
      WEFT_UNROLL_ALL for (int v = 0; v < row_vectors; ++v) {
        const auto finish = [&](auto count) WEFT_LAMBDA_INLINE {
          constexpr int size = decltype(count)::value;
          const int at = row + v * row_lanes;
          V rate[6];
          WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) rate[c] =
              Row::template load_first<size>(curl + c * scratch_stride + at);
          rate[1] += values.d_r[0] * sum[0][v] + ends(0, v);
          rate[2] += values.d_r[1] * sum[1][v] + ends(1, v);
          rate[4] += values.d_r[2] * sum[2][v] + ends(2, v);
          rate[5] += values.d_r[3] * sum[3][v] + ends(3, v);
          Frame<V> x;
          if constexpr (shape != Shape::box) {
            x = frame_at<Row, shape, size>(d, e, at);
            V inverse;
            if constexpr (shape == Shape::curved) {
              inverse = 1 / determinant(x);
            } else {
              inverse = values.inverse_jacobian + V{};
            }
            WEFT_UNROLL_ALL for (int half = 0; half < 6; half += 3) {
              const V scale = inverse * (half == 0 ? values.inverse_eps : values.minus_inverse_mu);
              const V c0 = scale * rate[half], c1 = scale * rate[half + 1], c2 = scale * rate[half + 2];
              WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c) rate[half + c] =
                  x.x[c] * c0 + x.x[3 + c] * c1 + x.x[6 + c] * c2;
            }
          }
          V now[6];
          WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) {
            now[c] = Row::template load_first<size>(u + c * points + at);
            if (c < 3) rate[c] -= values.loss * now[c];
            T* r = residual + c * points + at;
            V value = dt * rate[c];
            if constexpr (!first) value += a * Row::template load_first<size>(r);
            Row::template store_first<size>(r, value);
            now[c] += b * value;
          }
          if (update) {
            WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) Row::template store_first<size>(u + c * points + at, now[c]);
            if constexpr (shape != Shape::box) {
              WEFT_UNROLL_ALL for (int half = 0; half < 6; half += 3) WEFT_UNROLL_ALL for (int k = 0; k < 3; ++k)
                  Row::template store_first<size>(
                      f + (half + k) * scratch_stride + at,
                      x.x[3 * k] * now[half] + x.x[3 * k + 1] * now[half + 1] + x.x[3 * k + 2] * now[half + 2]);
            }
          }
        };
        if (v + 1 < row_vectors || n % row_lanes == 0)
          finish(typename Row::template Count<row_lanes>{});
        else
          finish(typename Row::template Count<n % row_lanes == 0 ? row_lanes : n % row_lanes>{});
      }
    }
  }

  template <Shape shape>
  static WEFT_ALWAYS_INLINE void element(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e,
                                         T* __restrict__ scratch, Ahead& ahead) {
    T* curl = scratch;
    T* covariant = scratch + 6 * scratch_stride;
    T* lifts = scratch + 12 * scratch_stride;  // [2][4][stride]
    T* turned = lifts + 8 * stride;
    T* u = s.fields + e * (6 * points);
    if constexpr (shape != Shape::box) to_covariant<shape>(d, e, u, covariant);
    T* f = shape == Shape::box ? u : covariant;
    constexpr int f_stride = shape == Shape::box ? points : scratch_stride;
    const ElementValues<T>& values = d.values[e];
    columns_t(d, values, f, f_stride, curl, ahead);
    columns_s(d, values, f, f_stride, curl, ahead);
    faces<shape>(d, s, e, f, curl, lifts, turned);
    if (s.a == 0)
      rows<shape, true>(d, s, e, f, curl, lifts, ahead);
    else
      rows<shape, false>(d, s, e, f, curl, lifts, ahead);
    if (s.next_traces != nullptr) write_traces<shape == Shape::box>(d, e, f, f_stride, s.next_traces);
  }
  template <Shape shape>
  static __attribute__((noinline)) void faces(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e,
                                              const T* f, T* curl, T* lifts, T* turned) {
    constexpr int f_stride = shape == Shape::box ? points : scratch_stride;
    row_face<shape>(d, s, e, 0, f, f_stride, lifts, turned);
    row_face<shape>(d, s, e, 1, f, f_stride, lifts + 4 * stride, turned);
    add_face<shape, 2>(d, s, e, f, f_stride, curl, turned);
    add_face<shape, 3>(d, s, e, f, f_stride, curl, turned);
    add_face<shape, 4>(d, s, e, f, f_stride, curl, turned);
    add_face<shape, 5>(d, s, e, f, f_stride, curl, turned);
  }
};

}  // namespace weft::maxwell
