// A Runge-Kutta stage of Maxwell's equations on one element, in one pass over memory (docs/cpu-kernels.md):
//   columns: D_t of four components, and the contributions of the faces in t, into an array in cache;
//   plane by plane: D_s, the contributions of the faces in r and s, D_r by rows, the rates,
//   residual <- a residual + dt rate, fields += b residual, and the traces of the new fields.
// The scheme is that of kernels/maxwell.hpp: covariant components, 12 derivatives.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/maxwell/simd_elements.hpp"
#include "weft/simd/contract.hpp"
#include "weft/simd/vector.hpp"

namespace weft::maxwell {

using simd::contract;
using simd::load_first;
using simd::store_first;
using simd::Vec;

// The number of lanes to use for runs of `size` values: the whole register, or the smallest that holds the run.
template <class T>
constexpr int lanes_for(int size) {
  int lanes = 16 / static_cast<int>(sizeof(T));
  while (lanes < size && lanes < simd::lanes<T>) lanes *= 2;
  return lanes;
}

template <int N, class T>
class Kernel {
 public:
  static constexpr int n = N + 1, face = n * n, points = n * n * n;
  static constexpr int stride = static_cast<int>(face_stride<T>(N));  // between components of a trace
  static constexpr int line = 64 / static_cast<int>(sizeof(T));
  // Between components in scratch memory; chosen so that they do not map to the same set of the first-level cache.
  static constexpr int scratch_stride = (points + line - 1) / line * line + line;
  static constexpr int face_lanes = lanes_for<T>(face);
  static constexpr int row_lanes = lanes_for<T>(n), row_vectors = (n + row_lanes - 1) / row_lanes;
  static constexpr int row_stride = row_lanes * row_vectors;
  using V = Vec<T, row_lanes>;
  // The residual of a small element is prefetched with its fields, during the previous element. That of a large element
  // would evict other data from the second-level cache, so it is prefetched a few planes before its use.
  static constexpr bool small = face < 64;
  static constexpr int lead = 2;                             // number of planes, for large elements
  static constexpr int together = row_vectors == 1 ? 2 : 1;  // rows at once, for enough independent sums

  // Curl (components 0, 1, 3, 4), covariant fields, a plane's curl (0, 2, 3, 5), the contribution of faces in r to a
  // plane [2][4], neighbours' traces [4][4].
  static constexpr int plane_stride = n * row_stride;
  static constexpr std::int64_t scratch_values =
      10 * scratch_stride + 4 * plane_stride + 8 * row_stride + 16 * stride + 8 * line;

  static void stage(const SimdElements<T>& d, const StageArguments<T>& s, const std::int64_t* order, std::int64_t begin,
                    std::int64_t end, T* scratch) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t e = order[i];
      Ahead ahead(d, s, order[std::min(i + 1, end - 1)]);
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
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t e = order[i];
      const T* u = s.fields + e * (6 * points);
      if (d.shapes[e] == Shape::affine) to_covariant<Shape::affine>(d, e, u, scratch);
      if (d.shapes[e] == Shape::curved) to_covariant<Shape::curved>(d, e, u, scratch);
      for (int k = 0; k < n; ++k)
        if (d.shapes[e] == Shape::box)
          write_traces<true>(d, e, k, u, s.next_traces);
        else
          write_traces<false>(d, e, k, scratch, s.next_traces);
    }
  }

 private:
  // Prefetches what the next element reads and writes, a few lines at a time while this one is processed, so that
  // memory access and arithmetic overlap. In larger portions they fill the queue of outstanding misses, and the
  // element's own accesses wait behind them. A curved element assumes that the next one has frames, too.
  struct Ahead {
    const T *u, *residual, *own, *jacobians, *surface;
    const T* faces[6];
    int at = 0, face_at = 0;
    // Up to n = 4, a plane has too few lines for smaller portions.
    static constexpr bool by_planes = n <= 4;
    // Calls of step() per element; without rows of the last plane, so that the last lines arrive in time.
    static constexpr int steps = by_planes ? 2 * n : n + (n - 1) * ((n + together - 1) / together);
    static constexpr int lines = (6 * points + line - 1) / line, per_step = (lines + steps - 1) / steps;
    static constexpr int face_lines = 4 * stride / line, faces_per_step = (6 * face_lines + steps - 1) / steps;

    Ahead(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e)
        : u(s.fields + e * (6 * points)),
          residual(s.residual + e * (6 * points)),
          own((s.next_traces != nullptr ? s.next_traces : s.traces) + e * (24 * stride)) {
      for (int side = 0; side < 6; ++side) faces[side] = s.traces + d.neighbors[6 * e + side];
      const std::int64_t metric = std::max<std::int64_t>(0, d.metric[e]);
      jacobians = d.jacobians + metric * (9 * points);
      surface = d.face_metrics + metric * (18 * stride);
    }
    WEFT_ALWAYS_INLINE void step() {
      for (const int stop = std::min(at + per_step, lines); at < stop; ++at) {
        __builtin_prefetch(u + at * line, 0, 2);
        if constexpr (small) __builtin_prefetch(residual + at * line, 0, 2);
      }
      for (const int stop = std::min(face_at + faces_per_step, 6 * face_lines); face_at < stop; ++face_at) {
        __builtin_prefetch(faces[face_at / face_lines] + face_at % face_lines * line, 0, 2);
        __builtin_prefetch(own + face_at * line, 1, 2);
      }
    }
    // Prefetches frames: part m of n of the share of `rows` rows, of which `row` came before.
    template <int rows>
    WEFT_ALWAYS_INLINE void frames(int row, int m) const {
      constexpr int inside = share(9 * points), outside = share(18 * stride);
      part<rows * inside>(jacobians + std::int64_t{row} * (inside * line), m);
      part<rows * outside>(surface + std::int64_t{row} * (outside * line), m);
    }

   private:
    static constexpr int share(int values) { return (values + face * line - 1) / (face * line); }  // lines per row
    template <int count>
    static WEFT_ALWAYS_INLINE void part(const T* from, int m) {
      WEFT_UNROLL_ALL for (int i = 0; i < (count + n - 1) / n; ++i) {
        if (i * n + m >= count) return;
        __builtin_prefetch(from + (i * n + m) * line, 0, 2);
        asm volatile("");  // else the compiler moves the prefetches together
      }
    }
  };

  template <class V>
  struct Frame {
    V x[9];  // x_r, x_s, x_t
  };
  template <int lanes, Shape shape, int count>
  static WEFT_ALWAYS_INLINE auto frame_at(const SimdElements<T>& d, std::int64_t e, int p) {
    using V = Vec<T, lanes>;
    if constexpr (shape == Shape::curved) {
      Frame<V> f;
      const T* g = d.jacobians + d.metric[e] * (9 * points) + p;
      WEFT_UNROLL_ALL for (int c = 0; c < 9; ++c) f.x[c] = load_first<T, lanes>(g + c * points, count);
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
    simd::runs<face_lanes, points>([&](int p, auto count) WEFT_LAMBDA_INLINE {
      constexpr int c = decltype(count)::value;
      const auto x = frame_at<face_lanes, shape, c>(d, e, p);
      WEFT_UNROLL_ALL for (int half = 0; half < 6; half += 3) {
        const auto u0 = load_first<T, face_lanes>(u + half * points + p, c);
        const auto u1 = load_first<T, face_lanes>(u + (half + 1) * points + p, c);
        const auto u2 = load_first<T, face_lanes>(u + (half + 2) * points + p, c);
        WEFT_UNROLL_ALL for (int k = 0; k < 3; ++k) store_first<T, face_lanes>(
            f + (half + k) * scratch_stride + p, x.x[3 * k] * u0 + x.x[3 * k + 1] * u1 + x.x[3 * k + 2] * u2, c);
      }
    });
  }

  // The stride of covariant fields, or of the fields of a box.
  template <bool box>
  static constexpr int f_stride = box ? points : scratch_stride;

  // The components (0..2) along the axes of a side.
  static constexpr int axis_a(int side) { return side < 2 ? 1 : 0; }
  static constexpr int axis_b(int side) { return side < 4 ? 2 : 1; }

  // The neighbour's trace, in the frame of this face.
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

  // What a face adds to the curls of H and of E along a and b, at its values [q, q + c) (`lift` of kernels/maxwell.hpp
  // in covariant components). own(component, axis): this side's values of a component of 0..5 along an axis.
  template <Shape shape, int lanes, int c, class Own>
  static WEFT_ALWAYS_INLINE void lift(const SimdElements<T>& d, std::int64_t e, int side, int a, int b,
                                      const T* __restrict__ other, int q, Own&& own, Vec<T, lanes> (&out)[4]) {
    using W = Vec<T, lanes>;
    const typename ElementValues<T>::Face& f = d.values[e].faces[side];
    const auto jump = [&](int place, int component, int axis) WEFT_LAMBDA_INLINE -> W {
      const W theirs = load_first<T, lanes>(other + place * stride + q, c);
      if constexpr (shape == Shape::box)
        return d.values[e].frame[axis] * own(component) - theirs;
      else
        return own(component) - theirs;
    };
    const W ea = jump(0, a, a), eb = jump(1, b, b), ha = jump(2, 3 + a, a), hb = jump(3, 3 + b, b);
    if constexpr (shape == Shape::box) {
      out[0] = f.hb_ea * hb + f.ea_ea * ea;
      out[1] = f.ha_eb * ha + f.eb_eb * eb;
      out[2] = f.eb_ha * eb + f.ha_ha * ha;
      out[3] = f.ea_hb * ea + f.hb_hb * hb;
    } else {
      W g[3];
      if constexpr (shape == Shape::affine) {
        g[0] = f.g_aa + W{};
        g[1] = f.g_ab + W{};
        g[2] = f.g_bb + W{};
      } else {
        const T* from = d.face_metrics + (d.metric[e] * 6 + side) * (3 * stride) + q;
        WEFT_UNROLL_ALL for (int i = 0; i < 3; ++i) g[i] = load_first<T, lanes>(from + i * stride, c);
      }
      out[0] = f.hb_ea * hb + f.ea_ea * (g[2] * ea - g[1] * eb);
      out[1] = f.ha_eb * ha + f.eb_eb * (g[0] * eb - g[1] * ea);
      out[2] = f.eb_ha * eb + f.ha_ha * (g[2] * ha - g[1] * hb);
      out[3] = f.ea_hb * ea + f.hb_hb * (g[0] * hb - g[1] * ha);
    }
  }

  // D_t of h_s, h_r, e_s, e_r: places 0..3 of the curl are its components 0, 1, 3, 4.
  static __attribute__((noinline)) void columns(const SimdElements<T>& d, const ElementValues<T>& values,
                                                const T* __restrict__ f, int f_stride, T* __restrict__ curl,
                                                Ahead& ahead) {
    static constexpr int from[4] = {4, 3, 1, 0};
    for (int c = 0; c < 4; ++c) {
      const T* __restrict__ in = f + from[c] * f_stride;
      T* __restrict__ out = curl + c * scratch_stride;
      const T factor = values.d_t[c];
      simd::runs<face_lanes, face>([&](int q, auto count) WEFT_LAMBDA_INLINE {
        constexpr int size = decltype(count)::value;
        Vec<T, face_lanes> u[n];
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) u[k] = load_first<T, face_lanes>(in + k * face + q, size);
        contract<n, T>(d.even_odd, u, [&](int k, Vec<T, face_lanes> v) WEFT_LAMBDA_INLINE {
          store_first<T, face_lanes>(out + k * face + q, factor * v, size);
        });
      });
      for (int k = 0; k < (n + 3) / 4; ++k) ahead.step();
    }
  }

  // Adds the contributions of the faces in t to the curl's first and last plane.
  template <Shape shape>
  static __attribute__((noinline)) void t_faces(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e,
                                                const T* __restrict__ f, T* __restrict__ curl, T* turned) {
    for (int end = 0; end < 2; ++end) {
      const int side = 4 + end, first = end * (n - 1) * face;
      const T* __restrict__ other = meeting_trace(d, 6 * e + side, s.traces, turned);
      simd::runs<face_lanes, face>([&](int q, auto count) WEFT_LAMBDA_INLINE {
        constexpr int c = decltype(count)::value;
        Vec<T, face_lanes> out[4];
        lift<shape, face_lanes, c>(
            d, e, side, 0, 1, other, q,
            [&](int component) WEFT_LAMBDA_INLINE {
              return load_first<T, face_lanes>(f + component * f_stride<shape == Shape::box> + first + q, c);
            },
            out);
        WEFT_UNROLL_ALL for (int i = 0; i < 4; ++i) {
          T* to = curl + i * scratch_stride + first + q;
          store_first<T, face_lanes>(to, load_first<T, face_lanes>(to, c) + out[i], c);
        }
      });
    }
  }

  // D_s of h_t, h_r, e_t, e_r in plane k: places 0..3 of `plane` are the curl's components 0, 2, 3, 5, by rows.
  static WEFT_ALWAYS_INLINE void columns_of_plane(const SimdElements<T>& d, const ElementValues<T>& values,
                                                  const T* __restrict__ f, int f_stride, T* __restrict__ plane) {
    constexpr int from[4] = {5, 3, 2, 0};
    WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) {
      const T* __restrict__ in = f + from[c] * f_stride;
      T* __restrict__ out = plane + c * plane_stride;
      const T factor = values.d_s[c];
      simd::runs<row_lanes, n>([&](int i, auto count) WEFT_LAMBDA_INLINE {
        constexpr int size = decltype(count)::value;
        V u[n];
        WEFT_UNROLL_ALL for (int j = 0; j < n; ++j) u[j] = load_first<T, row_lanes>(in + j * n + i, size);
        contract<n, T>(d.even_odd, u, [&](int j, V v) WEFT_LAMBDA_INLINE {
          simd::store<T, row_lanes>(out + j * row_stride + i, factor * v);
        });
      });
    }
  }

  // Writes the new traces of plane k. f: fields in all planes.
  template <bool box>
  static WEFT_ALWAYS_INLINE void write_traces(const SimdElements<T>& d, std::int64_t e, int k, const T* __restrict__ f,
                                              T* __restrict__ traces) {
    T* __restrict__ to = traces + e * (24 * stride);
    const T* frame = d.values[e].frame;
    const T* plane = f + k * face;
    const auto scaled = [&](auto v, int axis) WEFT_LAMBDA_INLINE {
      if constexpr (box)
        return frame[axis] * v;
      else
        return v;
    };
    WEFT_UNROLL_ALL for (int side = 0; side < 4; ++side) {
      WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) {
        const int axis = c % 2 == 0 ? axis_a(side) : axis_b(side);
        const T* from = plane + (c / 2 * 3 + axis) * f_stride<box> + side % 2 * (n - 1) * (side < 2 ? 1 : n);
        T* at = to + (side * 4 + c) * stride + k * n;
        simd::runs<row_lanes, n>([&](int i, auto count) WEFT_LAMBDA_INLINE {
          constexpr int size = decltype(count)::value;
          const V v =
              side < 2 ? simd::gather<T, row_lanes>(from, d.row_starts + i) : load_first<T, row_lanes>(from + i, size);
          store_first<T, row_lanes>(at + i, scaled(v, axis), size);
        });
      }
    }
    if (k != 0 && k != n - 1) return;
    for (int c = 0; c < 4; ++c) {
      const int axis = c % 2;
      const T* from = plane + (c / 2 * 3 + axis) * f_stride<box>;
      T* at = to + ((k == 0 ? 16 : 20) + c) * stride;
      simd::runs<face_lanes, face>([&](int q, auto count) WEFT_LAMBDA_INLINE {
        constexpr int size = decltype(count)::value;
        store_first<T, face_lanes>(at + q, scaled(load_first<T, face_lanes>(from + q, size), axis), size);
      });
    }
  }

  // Everything else, plane by plane.
  template <Shape shape, bool first>
  static __attribute__((noinline)) void planes(const SimdElements<T> d, const StageArguments<T> s, std::int64_t e, T* f,
                                               const T* __restrict__ curl, T* __restrict__ scratch, Ahead& ahead) {
    constexpr bool box = shape == Shape::box;
    T* __restrict__ plane = scratch;
    T* __restrict__ lifts = plane + 4 * plane_stride;  // [2][4][row_stride]
    T* turned = lifts + 8 * row_stride;
    const T* others[4];
    for (int side = 0; side < 4; ++side)
      others[side] = meeting_trace(d, 6 * e + side, s.traces, turned + side * 4 * stride);
    const ElementValues<T>& values = d.values[e];
    const T* residual = s.residual + e * (6 * points);
    for (int k = 0; k < n; ++k) {
      if constexpr (Ahead::by_planes) ahead.step();
      const T* soon = k + lead < n ? residual + (k + lead) * face : ahead.residual + (k + lead - n) * face;
      const T* fk = f + k * face;
      columns_of_plane(d, values, fk, f_stride<box>, plane);
      WEFT_UNROLL_ALL for (int side = 0; side < 4; ++side) {
        constexpr int far = n - 1;
        const int a = axis_a(side), b = axis_b(side);
        const T* ends = fk + side % 2 * far * (side < 2 ? 1 : n);
        simd::runs<row_lanes, n>([&](int i, auto count) WEFT_LAMBDA_INLINE {
          constexpr int c = decltype(count)::value;
          V out[4];
          lift<shape, row_lanes, c>(
              d, e, side, a, b, others[side], k * n + i,
              [&](int component) WEFT_LAMBDA_INLINE {
                const T* from = ends + component * f_stride<box>;
                return side < 2 ? simd::gather<T, row_lanes>(from, d.row_starts + i)
                                : load_first<T, row_lanes>(from + i, c);
              },
              out);
          WEFT_UNROLL_ALL for (int place = 0; place < 4; ++place) {
            if (side < 2) {
              simd::store<T, row_lanes>(lifts + (side * 4 + place) * row_stride + i, out[place]);
            } else {
              T* to = plane + place * plane_stride + side % 2 * far * row_stride + i;
              simd::store<T, row_lanes>(to, simd::load<T, row_lanes>(to) + out[place]);
            }
          }
        });
      }
      rows<shape, first>(d, s, e, k, f, curl, plane, lifts, soon, ahead);
      // Traces are written one plane later: gathers right away would wait for stores that are not in cache yet.
      if (s.next_traces != nullptr && k > 0) write_traces<box>(d, e, k - 1, f, s.next_traces);
    }
    if (s.next_traces != nullptr) write_traces<box>(d, e, n - 1, f, s.next_traces);
  }

  // D_r by rows of plane k, and the update.
  template <Shape shape, bool first>
  static WEFT_ALWAYS_INLINE void rows(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e, int k, T* f,
                                      const T* __restrict__ curl, const T* __restrict__ plane,
                                      const T* __restrict__ lifts, const T* soon, Ahead& ahead) {
    for (int j = 0; j + together <= n; j += together)
      some_rows<shape, first, together>(d, s, e, k, j, f, curl, plane, lifts, soon, ahead);
    if constexpr (n % together != 0) some_rows<shape, first, 1>(d, s, e, k, n - 1, f, curl, plane, lifts, soon, ahead);
  }

  template <Shape shape, bool first, int count>
  static WEFT_ALWAYS_INLINE void some_rows(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e, int k,
                                           int j, T* f, const T* __restrict__ curl, const T* __restrict__ plane,
                                           const T* __restrict__ lifts, const T* soon, Ahead& ahead) {
    constexpr int from[4] = {5, 4, 2, 1};  // D_r of h_t, h_s, e_t, e_s
    constexpr int f_step = f_stride<shape == Shape::box>;
    const T* __restrict__ table = d.rows;
    const int row = (k * n + j) * n;
    V sum[count][4][row_vectors];
    if constexpr (!Ahead::by_planes) ahead.step();
    WEFT_UNROLL_ALL for (int m = 0; m < n; ++m) {
      if constexpr (shape == Shape::curved) ahead.template frames<count>(k * n + j, m);
      WEFT_UNROLL_ALL for (int v = 0; v < row_vectors; ++v) {
        const V weights = simd::load<T, row_lanes>(table + m * row_stride + v * row_lanes);
        WEFT_UNROLL_ALL for (int q = 0; q < count; ++q) {
          WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) {
            const T value = f[from[c] * f_step + row + q * n + m];
            if (m == 0)
              sum[q][c][v] = weights * value;
            else
              sum[q][c][v] += weights * value;
          }
        }
      }
    }
    WEFT_UNROLL_ALL for (int q = 0; q < count; ++q) {
      WEFT_UNROLL_ALL for (int v = 0; v < row_vectors; ++v) {
        V along_r[4];
        const V left = simd::load<T, row_lanes>(table + n * row_stride + v * row_lanes);
        const V right = simd::load<T, row_lanes>(table + (n + 1) * row_stride + v * row_lanes);
        WEFT_UNROLL_ALL for (int c = 0; c < 4; ++c) {
          along_r[c] = d.values[e].d_r[c] * sum[q][c][v];
          along_r[c] += left * lifts[c * row_stride + j + q];
          along_r[c] += right * lifts[(4 + c) * row_stride + j + q];
        }
        constexpr int last = n % row_lanes == 0 ? row_lanes : n % row_lanes;
        if (v + 1 < row_vectors)
          update<shape, first, row_lanes>(d, s, e, k, j + q, v, along_r, f, curl, plane, soon);
        else
          update<shape, first, last>(d, s, e, k, j + q, v, along_r, f, curl, plane, soon);
      }
    }
  }

  // Updates the first `size` points of vector v of row j in plane k.
  template <Shape shape, bool first, int size>
  static WEFT_ALWAYS_INLINE void update(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e, int k,
                                        int j, int v, const V (&along_r)[4], T* f, const T* __restrict__ curl,
                                        const T* __restrict__ plane, const T* soon) {
    constexpr int f_step = f_stride<shape == Shape::box>;
    const ElementValues<T>& values = d.values[e];
    const int at = (k * n + j) * n + v * row_lanes;
    T* u = s.fields + e * (6 * points) + at;
    T* residual = s.residual + e * (6 * points) + at;
    const T* by_t = curl + at;
    const T* by_s = plane + j * row_stride + v * row_lanes;
    // Everything is read before anything is written: lines of the arrays may have the same offset within a page, and a
    // load waits for a store with the same offset.
    V rate[6], now[6], left[6];
    if constexpr (!first && !small) {
      WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) __builtin_prefetch(soon + c * points + j * n + v * row_lanes, 0, 2);
    }
    WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) {
      now[c] = load_first<T, row_lanes>(u + c * points, size);
      if constexpr (!first) left[c] = load_first<T, row_lanes>(residual + c * points, size);
    }
    rate[0] = load_first<T, row_lanes>(by_t, size) + simd::load<T, row_lanes>(by_s);
    rate[1] = load_first<T, row_lanes>(by_t + scratch_stride, size) + along_r[0];
    rate[2] = simd::load<T, row_lanes>(by_s + plane_stride) + along_r[1];
    rate[3] =
        load_first<T, row_lanes>(by_t + 2 * scratch_stride, size) + simd::load<T, row_lanes>(by_s + 2 * plane_stride);
    rate[4] = load_first<T, row_lanes>(by_t + 3 * scratch_stride, size) + along_r[2];
    rate[5] = simd::load<T, row_lanes>(by_s + 3 * plane_stride) + along_r[3];
    Frame<V> x;
    if constexpr (shape != Shape::box) {
      x = frame_at<row_lanes, shape, size>(d, e, at);
      V inverse;
      if constexpr (shape == Shape::curved)
        inverse = 1 / determinant(x);
      else
        inverse = values.inverse_jacobian + V{};
      WEFT_UNROLL_ALL for (int half = 0; half < 6; half += 3) {
        const V scale = inverse * (half == 0 ? values.inverse_eps : values.minus_inverse_mu);
        const V c0 = scale * rate[half], c1 = scale * rate[half + 1], c2 = scale * rate[half + 2];
        WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c) rate[half + c] = x.x[c] * c0 + x.x[3 + c] * c1 + x.x[6 + c] * c2;
      }
    }
    WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c) rate[c] -= values.loss * now[c];
    WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) rate[c] *= s.dt;
    if constexpr (!first) {
      WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) rate[c] += s.a * left[c];
    }
    WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) now[c] += s.b * rate[c];
    WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) store_first<T, row_lanes>(residual + c * points, rate[c], size);
    if (!s.update) return;
    WEFT_UNROLL_ALL for (int c = 0; c < 6; ++c) store_first<T, row_lanes>(u + c * points, now[c], size);
    if constexpr (shape != Shape::box) {
      WEFT_UNROLL_ALL for (int half = 0; half < 6; half += 3) WEFT_UNROLL_ALL for (int c = 0; c < 3; ++c)
          store_first<T, row_lanes>(
              f + (half + c) * f_step + at,
              x.x[3 * c] * now[half] + x.x[3 * c + 1] * now[half + 1] + x.x[3 * c + 2] * now[half + 2], size);
    }
  }

  template <Shape shape>
  static WEFT_ALWAYS_INLINE void element(const SimdElements<T>& d, const StageArguments<T>& s, std::int64_t e,
                                         T* __restrict__ scratch, Ahead& ahead) {
    T* curl = scratch;
    T* covariant = curl + 4 * scratch_stride;
    T* rest = covariant + 6 * scratch_stride;
    T* u = s.fields + e * (6 * points);
    if constexpr (shape != Shape::box) to_covariant<shape>(d, e, u, covariant);
    T* f = shape == Shape::box ? u : covariant;
    columns(d, d.values[e], f, f_stride<shape == Shape::box>, curl, ahead);
    t_faces<shape>(d, s, e, f, curl, rest);
    if (s.a == 0)
      planes<shape, true>(d, s, e, f, curl, rest, ahead);
    else
      planes<shape, false>(d, s, e, f, curl, rest, ahead);
  }
};

}  // namespace weft::maxwell
