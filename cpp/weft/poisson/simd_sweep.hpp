// Passes over the blocks of a rank: the operator alone, a whole CG iteration, or a smoothing step. A sweep defines what
// is done in addition to the arithmetic of the elements. Compiled once per order and scalar type (simd_order.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/poisson/simd_kernel.hpp"
#include "weft/simd/vector.hpp"

namespace weft::poisson {

using simd::store;
using space::Range;

// Calls f(i, in, out) for every vector of a range, in order. in(a + i) reads a vector and out(a + i, v) writes one; for
// the last vector of the range, only the entries that are left.
template <class T, class F>
WEFT_ALWAYS_INLINE void for_vectors(Range range, F&& f) {
  constexpr int lanes = simd::lanes<T>;
  std::int64_t i = range.begin;
  for (; i + lanes <= range.end; i += lanes)
    f(i, [](const T* a) { return simd::load(a); }, [](T* a, Vec<T> v) { simd::store(a, v); });
  if (const int count = static_cast<int>(range.end - i); count > 0)
    f(
        i, [=](const T* a) WEFT_LAMBDA_INLINE { return simd::load_first(a, count); },
        [=](T* a, Vec<T> v) WEFT_LAMBDA_INLINE { simd::store_first(a, v, count); });
}

// y = S x + lambda x.
template <class T>
struct OperatorSweep {
  struct Entries {
    const T* x;
    T* y;
    T lambda;

    WEFT_ALWAYS_INLINE Vec<T> read(std::int64_t i) const { return load(x + i); }
    WEFT_ALWAYS_INLINE void write(std::int64_t i, Vec<T> v) const { store(y + i, v + lambda * load(x + i)); }
  };
  Entries entries;
  Ahead<T> ahead;

  OperatorSweep(const T* x, T* y, T lambda) : entries{x, y, lambda}, ahead{{x, y}, 2, 0, 0, 0} {}

  const T* source() const { return entries.x; }
  T* target() const { return entries.y; }
  void keep(const Entries&) const {}

  void before(Range range) const {
    const auto [x, y, lambda] = entries;
    for (std::int64_t i = range.begin; i < range.end; ++i) y[i] = lambda * x[i];
  }
  void after(Range) const {}
  void finish_block() {}
};

// One iteration of preconditioned CG (preconditioner d, or none) in one pass:
//   before an entry is touched    x += ax p + bx z, z = d r            (every second iteration, see MergedCg)
//                                 r -= alpha v,  p = d r + beta p,  v = lambda p
//   elements                      v += S p
//   after it was touched last     the inner products of CgSums
struct CgSums {
  double rr = 0, rz = 0, pv = 0, zv = 0, vdv = 0;  // r.r, r.d r, p.v, r.d v, v.d v

  CgSums& operator+=(const CgSums& o) {
    rr += o.rr, rz += o.rz, pv += o.pv, zv += o.zv, vdv += o.vdv;
    return *this;
  }
};

template <class T>
struct CgSweep {
  struct Vectors {
    T *r, *p, *v, *x;
    const T* d;  // nullptr: none
  };
  struct Scalars {
    T lambda, alpha, beta, ax, bx;
    bool update_x;
  };

  struct Parts {
    Vec<T> rr{}, rz{}, pv{}, zv{}, vdv{};

    Parts() = default;
    // Member by member: a copy of the whole would go through memory.
    WEFT_ALWAYS_INLINE Parts(const Parts& o) : rr(o.rr), rz(o.rz), pv(o.pv), zv(o.zv), vdv(o.vdv) {}
    WEFT_ALWAYS_INLINE Parts& operator=(const Parts& o) {
      rr = o.rr, rz = o.rz, pv = o.pv, zv = o.zv, vdv = o.vdv;
      return *this;
    }
  };
  struct Entries {
    T* __restrict__ r;
    T* __restrict__ p;
    T* __restrict__ v;
    T* __restrict__ x;
    const T* __restrict__ d;
    Scalars s;
    Parts parts;

    // Updates one vector of entries and returns the new p. in, out: as in for_vectors().
    template <class Load, class Store>
    WEFT_ALWAYS_INLINE Vec<T> update(std::int64_t i, Load&& in, Store&& out) {
      Vec<T> ri = in(r + i), pi = in(p + i);
      const Vec<T> di = d != nullptr ? in(d + i) : Vec<T>{} + T{1};
      if (s.update_x) out(x + i, in(x + i) + s.ax * pi + s.bx * (di * ri));
      ri -= s.alpha * in(v + i);
      const Vec<T> zi = di * ri;
      pi = zi + s.beta * pi;
      out(r + i, ri);
      out(p + i, pi);
      parts.rr += ri * ri;
      parts.rz += ri * zi;
      return pi;
    }
    template <class Load>
    WEFT_ALWAYS_INLINE void products(std::int64_t i, Vec<T> vi, Load&& in) {
      const Vec<T> dv = d != nullptr ? in(d + i) * vi : vi;
      parts.pv += in(p + i) * vi;
      parts.zv += in(r + i) * dv;
      parts.vdv += vi * dv;
    }
    WEFT_ALWAYS_INLINE Vec<T> read(std::int64_t i) {
      return update(i, [](const T* a) { return load(a); }, [](T* a, Vec<T> b) { store(a, b); });
    }
    WEFT_ALWAYS_INLINE void write(std::int64_t i, Vec<T> vi) {
      vi += s.lambda * load(p + i);
      store(v + i, vi);
      products(i, vi, [](const T* a) { return load(a); });
    }
  };
  Entries entries;
  CgSums sums;
  Ahead<T> ahead;

  CgSweep(const Vectors& a, const Scalars& s)
      : entries{a.r, a.p, a.v, a.x, a.d, s, Parts{}}, ahead{{a.r, a.p, a.v}, 3, 0, 0, 0} {
    if (s.update_x) ahead.streams[ahead.count++] = a.x;
    if (a.d != nullptr) ahead.streams[ahead.count++] = a.d;
  }

  const T* source() const { return entries.p; }
  T* target() const { return entries.v; }
  void keep(const Entries& with) { entries.parts = with.parts; }

  void before(Range range) {
    Entries at = entries;
    for_vectors<T>(range, [&](std::int64_t i, auto&& in, auto&& out)
                              WEFT_LAMBDA_INLINE { out(at.v + i, at.s.lambda * at.update(i, in, out)); });
    keep(at);
  }
  void after(Range range) {
    Entries at = entries;
    for_vectors<T>(range,
                   [&](std::int64_t i, auto&& in, auto&&) WEFT_LAMBDA_INLINE { at.products(i, in(at.v + i), in); });
    keep(at);
  }
  static constexpr int line = 64 / static_cast<int>(sizeof(T));
  // Prefetches what after() reads of a cache line. cache: as in simd::Ahead.
  template <int cache>
  WEFT_ALWAYS_INLINE void completed_ahead(std::int64_t entry) const {
    __builtin_prefetch(entries.p + entry, 0, 4 - cache);
    __builtin_prefetch(entries.v + entry, 1, 4 - cache);
    __builtin_prefetch(entries.r + entry, 0, 4 - cache);
  }
  // Adds the sums in vector registers to those in double precision, after every block.
  void finish_block() {
    const auto [rr, rz, pv, zv, vdv] = entries.parts;
    sums += {simd::sum<T>(rr), simd::sum<T>(rz), simd::sum<T>(pv), simd::sum<T>(zv), simd::sum<T>(vdv)};
    entries.parts = Parts{};
  }
};

// A Chebyshev step on the diagonal d, then the operator, in one pass over the blocks:
//   before an entry is touched    r -= v,  z = a z + c d r,  x += s z,  v = lambda y
//   elements                      v += S y
//   after it was touched last     v = b - v, if the residual of x is requested
// y is z, the direction of the next step; or x if its residual is requested.
template <class T>
struct ChebyshevSweep {
  struct Vectors {
    const T* r;  // v is subtracted from it
    T* kept;     // receives the difference, unless nullptr
    T *z, *v, *x;
    const T *d, *b;
  };
  struct Step {
    T lambda, a, c, s;
    bool subtract;  // subtract v; if false, r is already the residual
    bool fresh;     // x starts from 0; its values are not read
    bool residual;
  };

  struct Entries {
    Vectors to;
    Step step;

    const T* source() const { return step.residual ? to.x : to.z; }

    // Updates one vector of entries and returns the new y. in, out: as in for_vectors().
    template <class Load, class Store>
    WEFT_ALWAYS_INLINE Vec<T> update(std::int64_t i, Load&& in, Store&& out) const {
      Vec<T> r = in(to.r + i);
      if (step.subtract) r -= in(to.v + i);
      if (to.kept != nullptr) out(to.kept + i, r);
      Vec<T> z = step.c * (in(to.d + i) * r);
      if (step.a != T{0}) z += step.a * in(to.z + i);
      out(to.z + i, z);
      const Vec<T> x = step.fresh ? step.s * z : in(to.x + i) + step.s * z;
      out(to.x + i, x);
      return step.residual ? x : z;
    }
    WEFT_ALWAYS_INLINE Vec<T> read(std::int64_t i) const {
      return update(i, [](const T* a) { return load(a); }, [](T* a, Vec<T> v) { store(a, v); });
    }
    WEFT_ALWAYS_INLINE void write(std::int64_t i, Vec<T> v) const {
      v += step.lambda * load(source() + i);
      store(to.v + i, step.residual ? load(to.b + i) - v : v);
    }
  };
  Entries entries;
  Ahead<T> ahead;

  ChebyshevSweep(const Vectors& to, const Step& step)
      : entries{to, step}, ahead{{to.r, to.d, to.z, to.x, to.v}, 5, 0, 0, 0} {}

  const T* source() const { return entries.source(); }
  T* target() const { return entries.to.v; }
  void keep(const Entries&) const {}

  void before(Range range) const {
    for_vectors<T>(range, [at = entries](std::int64_t i, auto&& in, auto&& out) WEFT_LAMBDA_INLINE {
      const Vec<T> y = at.update(i, in, out);
      out(at.to.v + i, at.step.lambda * y);
    });
  }
  // A step without the operator.
  void update_only(Range range) const {
    for_vectors<T>(range,
                   [at = entries](std::int64_t i, auto&& in, auto&& out) WEFT_LAMBDA_INLINE { at.update(i, in, out); });
  }
  void after(Range range) const {
    if (!entries.step.residual) return;
    for_vectors<T>(range, [to = entries.to](std::int64_t i, auto&& in, auto&& out)
                              WEFT_LAMBDA_INLINE { out(to.v + i, in(to.b + i) - in(to.v + i)); });
  }
  void finish_block() {}
};

// Prefetches what a sweep reads of the entries that the next block touches last, a cache line of each vector per step.
template <class Sweep>
class CompletedAhead {
 public:
  CompletedAhead(const Sweep& sweep, const space::Plan& plan, std::int64_t next)
      : sweep_(sweep),
        at_(plan.after.data() + plan.after_begin[next]),
        stop_(plan.after.data() + plan.after_begin[next + 1]),
        entry_(at_ == stop_ ? 0 : at_->begin) {}
  template <int cache>
  WEFT_ALWAYS_INLINE void step() {
    if (at_ == stop_) return;
    sweep_.template completed_ahead<cache>(entry_);
    entry_ += Sweep::line;
    if (entry_ >= at_->end && ++at_ != stop_) entry_ = at_->begin;
  }

 private:
  const Sweep& sweep_;
  const Range *at_, *stop_;
  std::int64_t entry_;
};

// Runs a sweep over blocks. scratch: scratch_vectors(N) vectors, aligned.
template <int N, class T, class Sweep>
void run_blocks(const SimdElements<T>& d, const space::Plan& plan, Sweep& sweep, Range chunk, T* scratch) {
  constexpr int n = N + 1, cache = ahead_cache<n>;
  // A sweep that sums afterwards reads so many vectors that its prefetches are spread over all passes of a block;
  // during the planes alone, they would fill the queue of outstanding misses.
  constexpr bool many = requires { &Sweep::template completed_ahead<cache>; };
  Vec<T>* const U = reinterpret_cast<Vec<T>*>(scratch);
  Vec<T>* const Q = U + n * plane_stride<n> + scratch_gap;
  for (std::int64_t b = chunk.begin; b < chunk.end; ++b) {
    sweep.before(plan.before[b]);
    if (b + 1 < chunk.end)
      sweep.ahead.start(plan.ahead[b + 1], plan.ahead[b + 2], (many ? 3 : 1) * n * n);
    else
      sweep.ahead.start(0, 0, 1);
    if constexpr (many) {
      CompletedAhead completed(sweep, plan, std::min(b + 1, chunk.end - 1));
      apply_block<N, T>(d, sweep, b, U, Q, [&]() WEFT_LAMBDA_INLINE {
        sweep.ahead.template step<cache>();
        completed.template step<cache>();
        completed.template step<cache>();
      });
    } else {
      apply_block<N, T>(d, sweep, b, U, Q, [] {});
    }
    for (std::int64_t a = plan.after_begin[b]; a < plan.after_begin[b + 1]; ++a) sweep.after(plan.after[a]);
    sweep.finish_block();
  }
}

// The functions compiled for one order.
template <class T>
struct SimdPasses {
  template <class Sweep>
  using Pass = void (*)(const SimdElements<T>&, const space::Plan&, Sweep&, Range, T*);
  PlanesByShape<T> planes;
  Pass<OperatorSweep<T>> apply;
  Pass<CgSweep<T>> iterate;
  Pass<ChebyshevSweep<T>> smooth;
};
// std::invalid_argument outside orders 1..15.
template <class T>
const SimdPasses<T>& simd_passes(int order);

}  // namespace weft::poisson
