// Passes like those of simd_sweep.hpp over several fields at a time, so that the index and the geometry of a block are
// read from memory only for the first field.
#pragma once

#include <array>
#include <cstdint>

#include "weft/poisson/simd_sweep.hpp"

namespace weft::poisson {

inline constexpr int max_fields = 4;  // in one pass

// Runs sweeps, one per field, over blocks. scratch: scratch_vectors(N) vectors, aligned.
template <int N, class T, class Sweep>
void run_fields(const SimdElements<T>& d, const space::Plan& plan, Sweep* sweeps, int fields, Range chunk, T* scratch) {
  constexpr int n = N + 1;
  Vec<T>* const U = reinterpret_cast<Vec<T>*>(scratch);
  Vec<T>* const Q = U + n * plane_stride<n> + scratch_gap;
  for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
    for (Sweep* sweep = sweeps; sweep < sweeps + fields; ++sweep) {
      sweep->before(plan.before[b]);
      if (b + 1 < chunk.end)
        sweep->ahead.start(plan.ahead[b + 1], plan.ahead[b + 2], n * n);
      else
        sweep->ahead.start(0, 0, 1);
      apply_block<N, T>(d, *sweep, b, U, Q, [] {});
      for (std::int64_t a = plan.after_begin[b]; a < plan.after_begin[b + 1]; ++a) sweep->after(plan.after[a]);
      sweep->finish_block();
    }
  }
}

// The sums of component CG, in the order of kernels/component_cg.hpp: r.r, r.d r, p.v, r.d v, v.d v, r.v, v.v.
inline constexpr int component_sums = 7;

// One iteration of CG for a component of A = m (S + s B) m, B diagonal, m a mask (or none), d the preconditioner:
//   before an entry is touched    x += ax p,  r -= alpha m v,  p = d r + beta p,  v = s B p
//   elements                      v += S p
//   after it was touched last     the sums, of m v
template <class T>
struct ComponentSweep {
  struct Vectors {
    T *r, *p, *v, *x;
    const T *b, *d, *m;  // m: nullptr for none
  };
  struct Scalars {
    T s, alpha, beta, ax;
  };

  struct Parts {
    Vec<T> of[component_sums]{};

    Parts() = default;
    WEFT_ALWAYS_INLINE Parts(const Parts& o) { *this = o; }
    // Member by member: a copy of the whole would go through memory.
    WEFT_ALWAYS_INLINE Parts& operator=(const Parts& o) {
      WEFT_UNROLL_ALL for (int s = 0; s < component_sums; ++s) of[s] = o.of[s];
      return *this;
    }
  };
  struct Entries {
    Vectors to;
    Scalars by;
    Parts parts;

    template <class Load>
    WEFT_ALWAYS_INLINE Vec<T> masked(std::int64_t i, Vec<T> v, Load&& in) const {
      return to.m != nullptr ? in(to.m + i) * v : v;
    }
    // Updates one vector of entries and returns the new p. in, out: as in for_vectors().
    template <class Load, class Store>
    WEFT_ALWAYS_INLINE Vec<T> update(std::int64_t i, Load&& in, Store&& out) {
      const Vec<T> p = in(to.p + i);
      out(to.x + i, in(to.x + i) + by.ax * p);
      const Vec<T> r = in(to.r + i) - by.alpha * masked(i, in(to.v + i), in);
      const Vec<T> z = in(to.d + i) * r, next = z + by.beta * p;
      out(to.r + i, r);
      out(to.p + i, next);
      parts.of[0] += r * r;
      parts.of[1] += r * z;
      return next;
    }
    template <class Load>
    WEFT_ALWAYS_INLINE void products(std::int64_t i, Vec<T> value, Load&& in) {
      const Vec<T> v = masked(i, value, in), dv = in(to.d + i) * v, r = in(to.r + i);
      parts.of[2] += in(to.p + i) * v;
      parts.of[3] += r * dv;
      parts.of[4] += v * dv;
      parts.of[5] += r * v;
      parts.of[6] += v * v;
    }
    WEFT_ALWAYS_INLINE Vec<T> read(std::int64_t i) {
      return update(i, [](const T* a) { return load(a); }, [](T* a, Vec<T> v) { store(a, v); });
    }
    WEFT_ALWAYS_INLINE void write(std::int64_t i, Vec<T> v) {
      v += by.s * (load(to.b + i) * load(to.p + i));
      store(to.v + i, v);
      products(i, v, [](const T* a) { return load(a); });
    }
  };
  Entries entries;
  Ahead<T> ahead;
  std::array<double, component_sums> sums{};

  ComponentSweep(const Vectors& to, const Scalars& by)
      : entries{to, by, Parts{}}, ahead{{to.r, to.p, to.v, to.x, to.m}, to.m == nullptr ? 4 : 5, 0, 0, 0} {}

  const T* source() const { return entries.to.p; }
  T* target() const { return entries.to.v; }
  void keep(const Entries& with) { entries.parts = with.parts; }

  void before(Range range) {
    Entries at = entries;
    for_vectors<T>(range, [&](std::int64_t i, auto&& in, auto&& out) WEFT_LAMBDA_INLINE {
      const Vec<T> p = at.update(i, in, out);
      out(at.to.v + i, at.by.s * (in(at.to.b + i) * p));
    });
    keep(at);
  }
  void after(Range range) {
    Entries at = entries;
    for_vectors<T>(range,
                   [&](std::int64_t i, auto&& in, auto&&) WEFT_LAMBDA_INLINE { at.products(i, in(at.to.v + i), in); });
    keep(at);
  }
  // The update after the last iteration: x += ax p.
  void solution(Range range) const {
    for_vectors<T>(range, [to = entries.to, ax = entries.by.ax](std::int64_t i, auto&& in, auto&& out)
                              WEFT_LAMBDA_INLINE { out(to.x + i, in(to.x + i) + ax * in(to.p + i)); });
  }
  // Adds the sums in vector registers to those in double precision, after every block.
  void finish_block() {
    for (int s = 0; s < component_sums; ++s) sums[s] += simd::sum<T>(entries.parts.of[s]);
    entries.parts = Parts{};
  }
};

// The function compiled for one order.
template <class T>
struct FieldPasses {
  void (*iterate)(const SimdElements<T>&, const space::Plan&, ComponentSweep<T>* sweeps, int fields, Range, T* scratch);
};

}  // namespace weft::poisson
