// The flow's terms of one order, block after block: the steps of simd_kernel.hpp put together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/flow/simd_kernel.hpp"

namespace weft::flow {

template <int N, class T>
class OrderTerms {
  using V = Vec<T>;
  static constexpr int n = N + 1, m = element::dealiasing_points(N), face = n * n, step = pitch<n>;
  static constexpr int field = field_vectors<n, n>, fine_field = field_vectors<n, m>;
  static constexpr int together = 3;  // fields a block works on at once

 public:
  static void gradient(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
    run(c, chunk, c.f, 1, c.out, 3, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
      Scratch<T> s(scratch);
      V *U = s.take(2 * field), *Q = U + field, *O = s.take(field), *R = s.take(face), *S = s.take(face);
      Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
      read_derivatives<n, T>(c.blocks, c.tables.derivative, block, c.f, c.entries, 1, U, Q);
      for (int k = 0; k < n; ++k) {
        V *u = U + k, *q = Q + k, *o = O + k;
        plane_derivatives<n, T>(c.tables.derivative, u, R, S);
        points(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
          const V r = w * R[p], t = w * S[p], z = w * q[p * step];
          u[p * step] = g[0] * r + g[3] * t + g[6] * z;
          q[p * step] = g[1] * r + g[4] * t + g[7] * z;
          o[p * step] = g[2] * r + g[5] * t + g[8] * z;
        });
      }
      add_columns<n, T>(c.blocks, block, c.out, c.entries, 3, [=](int f, int ij, V(&v)[n]) WEFT_LAMBDA_INLINE {
        const V* const from = (f == 2 ? O : U + f * field) + ij * step;
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] = from[k];
      });
    });
  }

  static void weak_divergence(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
    run(c, chunk, c.f, 3, c.out, 1, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
      Scratch<T> s(scratch);
      V *F = s.take(3 * field), *R = s.take(face), *S = s.take(face);
      Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
      read_values<n, T>(c.blocks, block, c.f, c.entries, 3, F);
      for (int k = 0; k < n; ++k) {
        V *x = F + k, *y = x + field, *z = y + field;
        points(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
          const V fx = w * x[p * step], fy = w * y[p * step], fz = w * z[p * step];
          R[p] = g[0] * fx + g[1] * fy + g[2] * fz;
          S[p] = g[3] * fx + g[4] * fy + g[5] * fz;
          z[p * step] = g[6] * fx + g[7] * fy + g[8] * fz;
          x[p * step] = V{};
        });
        add_plane<n, T>(c.tables.transposed, R, S, x);
      }
      add_with(c, block, c.tables.transposed, 1, F, F + 2 * field, c.out);
    });
  }

  static void divergence(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
    of_gradients<1>(c, chunk, scratch,
                    [](const V* g, const V(&r)[3], const V(&s)[3], const V(&t)[3], V(&out)[1]) WEFT_LAMBDA_INLINE {
                      out[0] = g[0] * r[0] + g[1] * r[1] + g[2] * r[2] + g[3] * s[0] + g[4] * s[1] + g[5] * s[2] +
                               g[6] * t[0] + g[7] * t[1] + g[8] * t[2];
                    });
  }

  // curl u = sum_a grad r_a x du/dr_a.
  static void curl(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
    of_gradients<3>(c, chunk, scratch,
                    [](const V* g, const V(&r)[3], const V(&s)[3], const V(&t)[3], V(&out)[3]) WEFT_LAMBDA_INLINE {
                      WEFT_UNROLL_ALL for (int i = 0; i < 3; ++i) {
                        const int j = (i + 1) % 3, k = (i + 2) % 3;
                        out[i] = g[j] * r[k] - g[k] * r[j] + g[3 + j] * s[k] - g[3 + k] * s[j] + g[6 + j] * t[k] -
                                 g[6 + k] * t[j];
                      }
                    });
  }

  static void convect_skew(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
    groups(c, [&](const T* f, int fields, T* out) {
      const bool same = f == c.u;
      run(c, chunk, f, fields, out, fields, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
        Scratch<T> s(scratch);
        V *F = s.take(3 * field), *Q = s.take(3 * field), *own = same ? F : s.take(3 * field);
        V *W = s.take(3 * face), *R = s.take(face), *S = s.take(face);
        Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
        read_derivatives<n, T>(c.blocks, c.tables.derivative, block, f, c.entries, fields, F, Q);
        if (!same) read_values<n, T>(c.blocks, block, c.u, c.entries, 3, own);
        for (int k = 0; k < n; ++k) {
          const V *x = own + k, *y = x + field, *z = y + field;
          points(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
            const T half = w / 2;  // of the two forms half each
            const V ux = half * x[p * step], uy = half * y[p * step], uz = half * z[p * step];
            W[p] = g[0] * ux + g[1] * uy + g[2] * uz;
            W[face + p] = g[3] * ux + g[4] * uy + g[5] * uz;
            W[2 * face + p] = g[6] * ux + g[7] * uy + g[8] * uz;
          });
          for (int i = 0; i < fields; ++i) {
            V *u = F + i * field + k, *q = Q + i * field + k;
            plane_derivatives<n, T>(c.tables.derivative, u, R, S);
#pragma GCC unroll 1
            for (int p = 0; p < face; ++p) {
              const V value = u[p * step], r = W[p], sv = W[face + p], t = W[2 * face + p];
              u[p * step] = r * R[p] + sv * S[p] + t * q[p * step];
              R[p] = r * value;
              S[p] = sv * value;
              q[p * step] = t * value;
            }
            add_plane<n, T>(c.tables.conservative, R, S, u);
          }
        }
        add_with(c, block, c.tables.conservative, fields, F, Q, out);
      });
    });
  }

  static void convect(const SimdCall<T>& c, poisson::Range chunk, T* scratch) {
    groups(c, [&](const T* f, int fields, T* out) {
      const bool same = f == c.u;
      run(c, chunk, f, fields, out, fields, m * m, [&](std::int64_t block, Prefetch<T>& ahead) {
        Scratch<T> s(scratch);
        // Layers of values and of slopes along t, which the results take the place of; of one layer [m][n] the
        // velocity, then values and slopes field by field, so that these stay in the first cache.
        V *F = s.take(3 * fine_field), *Q = s.take(3 * fine_field), *own = same ? F : s.take(3 * fine_field);
        V *B = s.take(3 * m * n), *Bs = s.take(m * n), *Bt = s.take(m * n), *H = s.take(m * n), *v = s.take(3 * m),
          *W = s.take(3 * m * m);
        Cofactors<n, m, T> cofactors(c.tables, c.geometry, block, s);
        read_fine<n, T>(c.blocks, c.tables, block, f, c.entries, fields, true, F, Q);
        if (!same) read_fine<n, T>(c.blocks, c.tables, block, c.u, c.entries, 3, false, own, nullptr);
        for (int k = 0; k < m; ++k) {
          cofactors.plane(k);
          for (int i = 0; i < 3; ++i) fine_values<n, T>(c.tables, own + i * fine_field + k, B + i * m * n);
          for (int j = 0; j < m; ++j) {
            ahead.step();
            for (int i = 0; i < 3; ++i) fine_row<n, T>(c.tables.value, B + (i * m + j) * n, v + i * m);
            const V* g = cofactors.row(j);
            V* const w = W + 3 * m * j;
#pragma GCC unroll 1
            for (int i = 0; i < m; ++i, g += cofactors.step) {
              const V x = v[i], y = v[m + i], z = v[2 * m + i];
              w[i] = g[0] * x + g[1] * y + g[2] * z;
              w[m + i] = g[3] * x + g[4] * y + g[5] * z;
              w[2 * m + i] = g[6] * x + g[7] * y + g[8] * z;
            }
          }
          for (int i = 0; i < fields; ++i) {
            V* const layer = F + i * fine_field + k;
            V* const value = same ? B + i * m * n : B;
            if (!same) fine_values<n, T>(c.tables, layer, value);
            fine_slopes<n, T>(c.tables, layer, Bs);
            fine_values<n, T>(c.tables, Q + i * fine_field + k, Bt);
            for (int j = 0; j < m; ++j)
              convect_row<n, T>(c.tables, value + j * n, Bs + j * n, Bt + j * n, W + 3 * m * j, H + j * n);
            project_plane<n, T>(c.tables, H, layer);
          }
        }
        const T* project = c.tables.project;
        add_columns<n, T>(c.blocks, block, out, c.entries, fields,
                          [=](int i, int ij, V(&result)[n]) WEFT_LAMBDA_INLINE {
                            const V* const from = F + i * fine_field + ij * pitch<m>;
                            V u[m];
                            WEFT_UNROLL_ALL for (int k = 0; k < m; ++k) u[k] = from[k];
                            contract<n, m, true, T>(project, u, [&](int k, V w) WEFT_LAMBDA_INLINE { result[k] = w; });
                          });
      });
    });
  }

  // The most that a block takes: convection of other fields than u on curved elements.
  static constexpr std::int64_t scratch_values =
      simd::lanes<T> * (static_cast<std::int64_t>(15) * fine_field + 24 * m * n + 24 * m + 3 * 32);

 private:
  // Fields a few at a time.
  template <class Group>
  static void groups(const SimdCall<T>& c, Group&& group) {
    for (int i = 0; i < c.count; i += together)
      group(c.f + i * c.entries, std::min(together, c.count - i), c.out + i * c.entries);
  }

  // block(number, prefetch) for the blocks of a chunk; what they add to starts from 0.
  template <class Block>
  static void run(const SimdCall<T>& c, poisson::Range chunk, const T* in, int fields, T* out, int outputs, int steps,
                  Block&& block) {
    Prefetch<T> ahead{{}, 0};
    for (int i = 0; i < fields; ++i) ahead.streams[ahead.count++] = in + i * c.entries;
    for (int i = 0; i < outputs; ++i) ahead.streams[ahead.count++] = out + i * c.entries;
    if (c.u != nullptr && in != c.u)
      for (int i = 0; i < 3; ++i) ahead.streams[ahead.count++] = c.u + i * c.entries;
    for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
      const poisson::Range first = c.plan.before[b];
      for (int i = 0; i < outputs; ++i)
        std::fill(out + i * c.entries + first.begin, out + i * c.entries + first.end, T{0});
      if (b + 1 < chunk.end)
        ahead.start(c.plan.ahead[b + 1], c.plan.ahead[b + 2], steps);
      else
        ahead.start(0, 0, 1);
      block(b, ahead);
    }
  }

  // use(point of the plane, cofactors, quadrature weight) for the points of plane k.
  template <class Use>
  static WEFT_ALWAYS_INLINE void points(const SimdCall<T>& c, Cofactors<n, n, T>& cofactors, Prefetch<T>& ahead, int k,
                                        Use&& use) {
    const T* const weights = c.tables.weights;
    cofactors.plane(k);
    for (int j = 0; j < n; ++j) {
      ahead.step();
      const V* g = cofactors.row(j);
      const T line = weights[j] * weights[k];
#pragma GCC unroll 1
      for (int i = 0; i < n; ++i, g += cofactors.step) use(j * n + i, g, line * weights[i]);
    }
  }

  // U + M Q along t, added to the vectors.
  static void add_with(const SimdCall<T>& c, std::int64_t block, const T* matrix, int fields, const V* U, const V* Q,
                       T* out) {
    add_columns<n, T>(c.blocks, block, out, c.entries, fields, [=](int i, int ij, V(&v)[n]) WEFT_LAMBDA_INLINE {
      const V *q = Q + i * field + ij * step, *u = U + i * field + ij * step;
      V from[n];
      WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) from[k] = q[k];
      contract<n, T>(matrix, from, [&](int k, V w) WEFT_LAMBDA_INLINE { v[k] = w + u[k]; });
    });
  }

  template <int outputs, class Use>
  static void of_gradients(const SimdCall<T>& c, poisson::Range chunk, T* scratch, Use&& use) {
    run(c, chunk, c.f, 3, c.out, outputs, n * n, [&](std::int64_t block, Prefetch<T>& ahead) {
      Scratch<T> s(scratch);
      V *U = s.take(3 * field), *Q = s.take(3 * field), *R = s.take(3 * face), *S = s.take(3 * face);
      Cofactors<n, n, T> cofactors(c.tables, c.geometry, block, s);
      read_derivatives<n, T>(c.blocks, c.tables.derivative, block, c.f, c.entries, 3, U, Q);
      for (int k = 0; k < n; ++k) {
        V *u = U + k, *q = Q + k;
        for (int i = 0; i < 3; ++i)
          plane_derivatives<n, T>(c.tables.derivative, u + i * field, R + i * face, S + i * face);
        points(c, cofactors, ahead, k, [&](int p, const V* g, T w) WEFT_LAMBDA_INLINE {
          V r[3], sv[3], t[3], out[outputs];
          WEFT_UNROLL_ALL for (int i = 0; i < 3; ++i) {
            r[i] = R[i * face + p];
            sv[i] = S[i * face + p];
            t[i] = q[i * field + p * step];
          }
          use(g, r, sv, t, out);
          WEFT_UNROLL_ALL for (int i = 0; i < outputs; ++i) u[i * field + p * step] = w * out[i];
        });
      }
      add_columns<n, T>(c.blocks, block, c.out, c.entries, outputs, [=](int i, int ij, V(&v)[n]) WEFT_LAMBDA_INLINE {
        const V* const from = U + i * field + ij * step;
        WEFT_UNROLL_ALL for (int k = 0; k < n; ++k) v[k] = from[k];
      });
    });
  }
};

}  // namespace weft::flow
