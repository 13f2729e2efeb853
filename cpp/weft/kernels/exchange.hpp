// The local side of exchange and gather-scatter. Value f of entry e of an array x is x[e * x_entry + f * x_field]:
// fields next to each other (x_field 1) or apart.
//
// Groups: a group is a target entry and the entries it is combined from. Groups come in chunks, one a block, and within
// a chunk in classes of equal multiplicity: chunk b has the classes chunks[2 b], …, chunks[2 b + 2] - 1, and where its
// targets are consecutive entries chunks[2 b + 1] is the first of them, else -1; class c is
//   classes[5 c] references a group, classes[5 c + 1] entries a run, classes[5 c + 2] runs, the place of its references
//   and of its targets,
// with reference m of run g at references[place + m * runs + g], so that neighbouring threads read neighbouring
// indices. A run is several groups one after the other, whose targets and references follow those of the first one by
// one: rows of points of an element, on the host; on GPUs every run is one group. One index (4 bytes) a reference of a
// run is read, and next to nothing else. No entry is in two groups.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int exchange_threads = 256;
constexpr int exchange_chunk = 4096;  // entries a block of `pack`
constexpr int pack_ahead = 512;       // entries

// The number of values next to each other that host compilers unroll and vectorise for: six fields of an
// electromagnetic wave. GPUs have enough threads to need no such thing. Nor have they stores that bypass the caches:
// where a host kernel is told to, it puts what it makes into a panel that stays in caches and copies whole lines from
// it.
#if !defined(WEFT_TARGET_GPU) && !defined(WEFT_TARGET_FIBER)
#define WEFT_HOST
#define WEFT_FIXED_WIDTH 6

#include "weft/simd/past_caches.hpp"
#include "weft/simd/vector.hpp"
constexpr int panel_values = 65536 / sizeof(real);
// Of single values less: what is copied goes to memory while the next are fetched.
constexpr int pack_panel_values = 16384 / sizeof(real), pack_single_values = 4096 / sizeof(real);
#define WEFT_AHEAD(address) __builtin_prefetch(address, 0, 2)
#else
#define WEFT_AHEAD(address) static_cast<void>(sizeof(address))
#endif

struct Class {
  int multiplicity, length, runs;
  const int *references, *targets;
};
WEFT_FUNCTION Class class_at(const int* WEFT_RESTRICT at, const int* references, const int* targets) {
  return {at[0], at[1], at[2], references + at[3], targets + at[4]};
}
// GPUs know runs of one entry only.
WEFT_FUNCTION int length_of([[maybe_unused]] const Class& c) {
#if defined(WEFT_HOST)
  return c.length;
#else
  return 1;
#endif
}

#if defined(WEFT_HOST)
namespace simd = ::weft::simd;
constexpr int line = 64 / sizeof(real);
constexpr int longest_run = 16;  // of exchange/groups.cpp
// `count` values next to each other, or as many as a register holds.
template <class T, int count>
struct Piece {
  using type = simd::Vec<T, (count < simd::lanes<T> ? count : simd::lanes<T>)>;
};
template <class T>
struct Piece<T, 1> {
  using type = T;
};

template <class P>
WEFT_ALWAYS_INLINE P load(const real* from) {
  P value;
  __builtin_memcpy(&value, from, sizeof(P));
  return value;
}
template <class P>
WEFT_ALWAYS_INLINE void store(real* to, const P& value) {
  __builtin_memcpy(to, &value, sizeof(P));
}
// For the pieces P of a row of `values` (at least one piece): made by make(v), which reads, and put by put(v, piece).
// The last piece may overlap others; it is made before anything is put.
template <class P, class Make, class Put>
WEFT_ALWAYS_INLINE void for_row(int values, const Make& make, const Put& put) {
  constexpr int count = sizeof(P) / sizeof(real);
  const P last = make(values - count);
  for (int v = 0; v + count < values; v += count) put(v, make(v));
  put(values - count, last);
}
// Calls each.template operator()<count>() with the largest power of two up to `values` and `most`.
template <int most, int count = 1, class Each>
WEFT_ALWAYS_INLINE void with_count(int values, const Each& each) {
  if constexpr (2 * count <= most) {
    if (values >= 2 * count) return with_count<most, 2 * count>(values, each);
  }
  each.template operator()<count>();
}
// Asks for the row of values at `at`; those of one value an entry are short.
template <int width>
WEFT_ALWAYS_INLINE void ask(const real* at, int values) {
  __builtin_prefetch(at, 0, 2);
  if constexpr (width != 1) {
    for (int v = line; v < values; v += line) __builtin_prefetch(at + v, 0, 2);
    __builtin_prefetch(at + values - 1, 0, 2);
  }
}
#endif

struct op_add {
  static constexpr int code = 0;
};
struct op_mul {
  static constexpr int code = 1;
};
struct op_min {
  static constexpr int code = 2;
};
struct op_max {
  static constexpr int code = 3;
};

template <class Op, class V>
WEFT_FUNCTION V combine(V a, V b) {
  if constexpr (Op::code == 0) return a + b;
  if constexpr (Op::code == 1) return a * b;
  if constexpr (Op::code == 2) return b < a ? b : a;
  return b > a ? b : a;
}

// to's entry i = x's entry from[i], for i < count: values next to each other, `width` of them where the compiler is to
// know it. The host asks for what it will read `ahead` entries later; for one value an entry that is more work than
// use.
template <int width>
WEFT_FUNCTION void pack_together(int count, int fields, int ahead, const int* WEFT_RESTRICT from,
                                 const real* WEFT_RESTRICT x, long x_entry, real* WEFT_RESTRICT to, long to_entry) {
  const int values = width > 0 ? width : fields;
  WEFT_STRIDED(i, count, exchange_threads) {
    if constexpr (width != 1) WEFT_AHEAD(x + from[i + ahead] * x_entry);
    WEFT_NO_UNROLL
    for (int f = 0; f < values; ++f) to[i * to_entry + f] = x[from[i] * x_entry + f];
  }
}

WEFT_FUNCTION void pack_entries(int count, int fields, int ahead, const int* WEFT_RESTRICT from,
                                const real* WEFT_RESTRICT x, long x_entry, long x_field, real* WEFT_RESTRICT to,
                                long to_entry, long to_field) {
  if (fields > 1 && x_field == 1 && to_field == 1) {
#if defined(WEFT_FIXED_WIDTH)
    if (fields == WEFT_FIXED_WIDTH)
      return pack_together<WEFT_FIXED_WIDTH>(count, fields, ahead, from, x, x_entry, to, to_entry);
#endif
    pack_together<0>(count, fields, ahead, from, x, x_entry, to, to_entry);
    return;
  }
  WEFT_NO_UNROLL
  for (int f = 0; f < fields; ++f) {
    pack_together<1>(count, 1, ahead, from, x + f * x_field, x_entry, to + f * to_field, to_entry);
  }
}

#if defined(WEFT_FIXED_WIDTH)
// The same past the caches. false: not done, as the values of `to` do not lie in one piece, or of one entry are more
// than a panel holds.
inline bool pack_past_caches(int count, int fields, int ahead, const int* WEFT_RESTRICT from,
                             const real* WEFT_RESTRICT x, long x_entry, long x_field, real* WEFT_RESTRICT to,
                             long to_entry, long to_field) {
  alignas(64) real panel[pack_panel_values];
  const bool together = fields > 1 && to_field == 1;
  if (together ? to_entry != fields || x_field != 1 || fields > pack_panel_values : to_entry != 1) return false;
  const int pieces = together ? 1 : fields, width = together ? fields : 1;
  const int each = together ? pack_panel_values / width : pack_single_values;
  for (int f = 0; f < pieces; ++f) {
    for (int i = 0; i < count; i += each) {
      const int some = count - i < each ? count - i : each;
      pack_entries(some, width, ahead, from + i, x + f * x_field, x_entry, 1, panel, width, 1);
      ::weft::simd::copy_past_caches(to + f * to_field + static_cast<long>(i) * width, panel,
                                     static_cast<long>(some) * width);
    }
  }
  return true;
}
#endif

// buffer's entry i = x's entry index[i], for i < n
WEFT_KERNEL(pack, exchange_threads,
            (long n, int fields, int past_caches, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x,
             long x_entry, long x_field, real* WEFT_RESTRICT buffer, long buffer_entry, long buffer_field)) {
  const long first = static_cast<long>(WEFT_BLOCK) * exchange_chunk;
  const int count = static_cast<int>(n - first < exchange_chunk ? n - first : exchange_chunk);
  const int* from = index + first;
  real* to = buffer + first * buffer_entry;
  const int ahead = past_caches != 0 && first + exchange_chunk + pack_ahead <= n ? pack_ahead : 0;
#if defined(WEFT_FIXED_WIDTH)
  if (past_caches != 0 &&
      pack_past_caches(count, fields, ahead, from, x, x_entry, x_field, to, buffer_entry, buffer_field))
    return;
#endif
  pack_entries(count, fields, ahead, from, x, x_entry, x_field, to, buffer_entry, buffer_field);
}

// The groups of one class, wherever their values lie; `fixed` is their multiplicity where the compiler is to know it,
// else 0; so is `width` the number of values next to each other. The order is that of the references, after y[target]
// if that counts. y's entry 0 is that of the target `first`.
template <class Op, int fixed, int width>
WEFT_FUNCTION void gather_class(const Class& c, int fields, bool accumulate, int first, const real* x, long x_entry,
                                real* y, long y_entry) {
  const int runs = c.runs, count = fixed > 0 ? fixed : c.multiplicity, values = width > 0 ? width : fields;
  const int* WEFT_RESTRICT references = c.references;
  const int* WEFT_RESTRICT targets = c.targets;
  WEFT_NO_UNROLL
  for (int l = 0; l < length_of(c); ++l) {
    WEFT_STRIDED(g, runs, exchange_threads) {
      real* to = y + (targets[g] - first + l) * y_entry;
      if constexpr (fixed > 0) {
        const real* from[fixed];
        WEFT_UNROLL
        for (int m = 0; m < fixed; ++m) from[m] = x + (references[m * runs + g] + l) * x_entry;
        WEFT_NO_UNROLL
        for (int f = 0; f < values; ++f) {
          real value = accumulate ? combine<Op>(to[f], from[0][f]) : from[0][f];
          WEFT_UNROLL
          for (int m = 1; m < fixed; ++m) value = combine<Op>(value, from[m][f]);
          to[f] = value;
        }
      } else {
        WEFT_NO_UNROLL
        for (int f = 0; f < values; ++f) {
          real value = x[(references[g] + l) * x_entry + f];
          if (accumulate) value = combine<Op>(to[f], value);
          WEFT_NO_UNROLL
          for (int m = 1; m < count; ++m) value = combine<Op>(value, x[(references[m * runs + g] + l) * x_entry + f]);
          to[f] = value;
        }
      }
    }
  }
}

template <class Op, int width>
WEFT_FUNCTION void gather_width(const Class& c, int fields, bool accumulate, int first, const real* x, long x_entry,
                                real* y, long y_entry) {
  if (c.multiplicity == 1) {
    gather_class<Op, 1, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
  } else if (c.multiplicity == 2) {
    gather_class<Op, 2, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
  } else if (c.multiplicity == 4 && width > 0) {
    gather_class<Op, 4, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
  } else {
    gather_class<Op, 0, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
  }
}

#if defined(WEFT_HOST)
// The same for entries that follow each other, `width` values an entry where the compiler is to know it, else 0: a run
// is one row of values, combined piece by piece. It asks for what lies `ahead` references later.
template <class Op, int fixed, int width, int count>
WEFT_FUNCTION void gather_rows(const Class c, int fields, int ahead, int first, const real* x, real* y) {
  using P = typename Piece<real, count>::type;
  const int runs = c.runs, multiplicity = fixed > 0 ? fixed : c.multiplicity;
  const long entry = width > 0 ? width : fields;
  const int values = width == 1 ? count : c.length * fields;
  const int* WEFT_RESTRICT references = c.references;
  const int* WEFT_RESTRICT targets = c.targets;
  for (int g = 0; g < runs; ++g) {
    if (ahead != 0) {
      for (int m = 0; m < multiplicity; ++m) ask<width>(x + references[m * runs + g + ahead] * entry, values);
    }
    const real* from[fixed > 0 ? fixed : 1];
    for (int m = 0; m < fixed; ++m) from[m] = x + references[m * runs + g] * entry;
    const auto at = [&](int m) { return fixed > 0 ? from[m] : x + references[m * runs + g] * entry; };
    real* to = y + (targets[g] - first) * entry;
    for_row<P>(
        values,
        [&](int v) {
          P value = load<P>(at(0) + v);
          for (int m = 1; m < multiplicity; ++m) value = combine<Op>(value, load<P>(at(m) + v));
          return value;
        },
        [&](int v, const P& value) { store(to + v, value); });
  }
}

template <class Op, int width>
WEFT_FUNCTION void gather_rows(const Class& c, int fields, int ahead, int first, const real* x, real* y) {
  with_count<width == 1 ? longest_run : line>(c.length * fields, [&]<int count>() {
    if (c.multiplicity == 1) return gather_rows<Op, 1, width, count>(c, fields, ahead, first, x, y);
    if (c.multiplicity == 2) return gather_rows<Op, 2, width, count>(c, fields, ahead, first, x, y);
    if (c.multiplicity == 4) return gather_rows<Op, 4, width, count>(c, fields, ahead, first, x, y);
    gather_rows<Op, 0, width, count>(c, fields, ahead, first, x, y);
  });
}
#endif

template <class Op>
WEFT_FUNCTION void gather_chunk(int begin, int end, const int* WEFT_RESTRICT classes,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, int first,
                                int fields, [[maybe_unused]] int ahead, bool accumulate, const real* x, long x_entry,
                                long x_field, real* y, long y_entry, long y_field) {
  const bool together = x_field == 1 && y_field == 1;
  for (int i = begin; i < end; ++i) {
    const Class c = class_at(classes + 5 * i, references, targets);
    if (fields > 1 && together) {
#if defined(WEFT_HOST)
      if (x_entry == fields && y_entry == fields && !accumulate) {
        gather_rows<Op, 0>(c, fields, ahead, first, x, y);
        continue;
      }
#endif
      gather_width<Op, 0>(c, fields, accumulate, first, x, x_entry, y, y_entry);
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        const real* from = x + f * x_field;
        real* to = y + f * y_field;
#if defined(WEFT_HOST)
        if (x_entry == 1 && y_entry == 1 && !accumulate) {
          gather_rows<Op, 1>(c, 1, ahead, first, from, to);
          continue;
        }
#endif
        gather_width<Op, 1>(c, 1, accumulate, first, from, x_entry, to, y_entry);
      }
    }
  }
}

#if defined(WEFT_HOST)
// A chunk whose targets are the entries from `first` on, past the caches; x is not y. false: not done.
template <class Op>
inline bool gather_past_caches(int begin, int end, const int* WEFT_RESTRICT classes,
                               const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, int first,
                               int fields, int ahead, const real* x, long x_entry, long x_field, real* y, long y_entry,
                               long y_field) {
  alignas(64) real panel[panel_values];
  const bool together = fields > 1 && y_field == 1;
  const int pieces = together ? 1 : fields, width = together ? fields : 1;
  int entries = 0;
  for (int c = begin; c < end; ++c) entries += classes[5 * c + 1] * classes[5 * c + 2];
  if ((together && x_field != 1) || y_entry != width || static_cast<long>(entries) * width > panel_values) return false;
  for (int f = 0; f < pieces; ++f) {
    gather_chunk<Op>(begin, end, classes, references, targets, first, width, ahead, false, x + f * x_field, x_entry, 1,
                     panel, width, 1);
    ::weft::simd::copy_past_caches(y + f * y_field + static_cast<long>(first) * width, panel,
                                   static_cast<long>(entries) * width);
  }
  return true;
}
#endif

template <class Op>
WEFT_FUNCTION void gather_block(const int* WEFT_RESTRICT chunk, const int* WEFT_RESTRICT classes,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, int fields,
                                int ahead, bool accumulate, bool past_caches, const real* x, long x_entry, long x_field,
                                real* y, long y_entry, long y_field) {
#if defined(WEFT_HOST)
  if (past_caches && chunk[1] >= 0 && !accumulate &&
      gather_past_caches<Op>(chunk[0], chunk[2], classes, references, targets, chunk[1], fields, ahead, x, x_entry,
                             x_field, y, y_entry, y_field))
    return;
#else
  static_cast<void>(past_caches);
#endif
  gather_chunk<Op>(chunk[0], chunk[2], classes, references, targets, 0, fields, ahead, accumulate, x, x_entry, x_field,
                   y, y_entry, y_field);
}

// y's target = combination of x's references, or of y's target and x's references (accumulate); x may be y, but not
// where past_caches is not 0. op: 0 add, 1 mul, 2 min, 3 max. There are `ahead` references more than the classes have.
WEFT_KERNEL(gather_groups, exchange_threads,
            (int op, int fields, int ahead, int accumulate, int past_caches, const int* WEFT_RESTRICT chunks,
             const int* WEFT_RESTRICT classes, const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets,
             const real* x, long x_entry, long x_field, real* y, long y_entry, long y_field)) {
  const int* chunk = chunks + 2 * WEFT_BLOCK;
  const bool onto = accumulate != 0, past = past_caches != 0;
  if (op == 0) {
    gather_block<op_add>(chunk, classes, references, targets, fields, ahead, onto, past, x, x_entry, x_field, y,
                         y_entry, y_field);
  }
  if (op == 1) {
    gather_block<op_mul>(chunk, classes, references, targets, fields, ahead, onto, past, x, x_entry, x_field, y,
                         y_entry, y_field);
  }
  if (op == 2) {
    gather_block<op_min>(chunk, classes, references, targets, fields, ahead, onto, past, x, x_entry, x_field, y,
                         y_entry, y_field);
  }
  if (op == 3) {
    gather_block<op_max>(chunk, classes, references, targets, fields, ahead, onto, past, x, x_entry, x_field, y,
                         y_entry, y_field);
  }
}

template <class Op, int fixed, int width>
WEFT_FUNCTION void combine_class(const Class& c, int fields, real* x, long x_entry) {
  const int runs = c.runs, count = fixed > 0 ? fixed : c.multiplicity, values = width > 0 ? width : fields;
  const int* WEFT_RESTRICT references = c.references;
  WEFT_NO_UNROLL
  for (int l = 0; l < length_of(c); ++l) {
    WEFT_STRIDED(g, runs, exchange_threads) {
      if constexpr (fixed > 0) {
        real* at[fixed];
        WEFT_UNROLL
        for (int m = 0; m < fixed; ++m) at[m] = x + (references[m * runs + g] + l) * x_entry;
        WEFT_NO_UNROLL
        for (int f = 0; f < values; ++f) {
          real value = at[0][f];
          WEFT_UNROLL
          for (int m = 1; m < fixed; ++m) value = combine<Op>(value, at[m][f]);
          WEFT_UNROLL
          for (int m = 0; m < fixed; ++m) at[m][f] = value;
        }
      } else {
        WEFT_NO_UNROLL
        for (int f = 0; f < values; ++f) {
          real value = x[(references[g] + l) * x_entry + f];
          WEFT_NO_UNROLL
          for (int m = 1; m < count; ++m) value = combine<Op>(value, x[(references[m * runs + g] + l) * x_entry + f]);
          WEFT_NO_UNROLL
          for (int m = 0; m < count; ++m) x[(references[m * runs + g] + l) * x_entry + f] = value;
        }
      }
    }
  }
}

template <class Op, int width>
WEFT_FUNCTION void combine_width(const Class& c, int fields, real* x, long x_entry) {
  if (c.multiplicity == 2) {
    combine_class<Op, 2, width>(c, fields, x, x_entry);
  } else if (c.multiplicity == 4) {
    combine_class<Op, 4, width>(c, fields, x, x_entry);
  } else {
    combine_class<Op, 0, width>(c, fields, x, x_entry);
  }
}

#if defined(WEFT_HOST)
template <class Op, int fixed, int width, int count>
WEFT_FUNCTION void combine_rows(const Class c, int fields, int ahead, real* x) {
  using P = typename Piece<real, count>::type;
  const int runs = c.runs, multiplicity = fixed > 0 ? fixed : c.multiplicity;
  const long entry = width > 0 ? width : fields;
  const int values = width == 1 ? count : c.length * fields;
  const int* WEFT_RESTRICT references = c.references;
  for (int g = 0; g < runs; ++g) {
    if (ahead != 0) {
      for (int m = 0; m < multiplicity; ++m) ask<width>(x + references[m * runs + g + ahead] * entry, values);
    }
    real* rows[fixed > 0 ? fixed : 1];
    for (int m = 0; m < fixed; ++m) rows[m] = x + references[m * runs + g] * entry;
    const auto at = [&](int m) { return fixed > 0 ? rows[m] : x + references[m * runs + g] * entry; };
    for_row<P>(
        values,
        [&](int v) {
          P value = load<P>(at(0) + v);
          for (int m = 1; m < multiplicity; ++m) value = combine<Op>(value, load<P>(at(m) + v));
          return value;
        },
        [&](int v, const P& value) {
          for (int m = 0; m < multiplicity; ++m) store(at(m) + v, value);
        });
  }
}

template <class Op, int width>
WEFT_FUNCTION void combine_rows(const Class& c, int fields, int ahead, real* x) {
  with_count<width == 1 ? longest_run : line>(c.length * fields, [&]<int count>() {
    if (c.multiplicity == 2) return combine_rows<Op, 2, width, count>(c, fields, ahead, x);
    if (c.multiplicity == 4) return combine_rows<Op, 4, width, count>(c, fields, ahead, x);
    combine_rows<Op, 0, width, count>(c, fields, ahead, x);
  });
}
#endif

template <class Op>
WEFT_FUNCTION void combine_chunk(int begin, int end, const int* WEFT_RESTRICT classes,
                                 const int* WEFT_RESTRICT references, int fields, [[maybe_unused]] int ahead, real* x,
                                 long x_entry, long x_field) {
  for (int i = begin; i < end; ++i) {
    const Class c = class_at(classes + 5 * i, references, references);
    if (fields > 1 && x_field == 1) {
#if defined(WEFT_HOST)
      if (x_entry == fields) {
        combine_rows<Op, 0>(c, fields, ahead, x);
        continue;
      }
#endif
      combine_width<Op, 0>(c, fields, x, x_entry);
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        real* field = x + f * x_field;
#if defined(WEFT_HOST)
        if (x_entry == 1) {
          combine_rows<Op, 1>(c, 1, ahead, field);
          continue;
        }
#endif
        combine_width<Op, 1>(c, 1, field, x_entry);
      }
    }
  }
}

// Every reference of a group gets the combination of all of them, in place.
WEFT_KERNEL(combine_groups, exchange_threads,
            (int op, int fields, int ahead, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, real* x, long x_entry, long x_field)) {
  const int begin = chunks[2 * WEFT_BLOCK], end = chunks[2 * WEFT_BLOCK + 2];
  if (op == 0) combine_chunk<op_add>(begin, end, classes, references, fields, ahead, x, x_entry, x_field);
  if (op == 1) combine_chunk<op_mul>(begin, end, classes, references, fields, ahead, x, x_entry, x_field);
  if (op == 2) combine_chunk<op_min>(begin, end, classes, references, fields, ahead, x, x_entry, x_field);
  if (op == 3) combine_chunk<op_max>(begin, end, classes, references, fields, ahead, x, x_entry, x_field);
}

// y's references = x's target
WEFT_KERNEL(scatter_groups, exchange_threads,
            (int fields, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* WEFT_RESTRICT x,
             long x_entry, long x_field, real* WEFT_RESTRICT y, long y_entry, long y_field)) {
  const bool together = x_field == 1 && y_field == 1;
  const int pieces = together ? 1 : fields, width = together ? fields : 1;
  for (int i = chunks[2 * WEFT_BLOCK]; i < chunks[2 * WEFT_BLOCK + 2]; ++i) {
    const Class c = class_at(classes + 5 * i, references, targets);
    WEFT_NO_UNROLL
    for (int p = 0; p < pieces; ++p) {
      for (int m = 0; m < c.multiplicity; ++m) {
        WEFT_STRIDED(g, c.runs, exchange_threads) {
          WEFT_NO_UNROLL
          for (int l = 0; l < length_of(c); ++l) {
            const real* from = x + (c.targets[g] + l) * x_entry + p * x_field;
            real* to = y + (c.references[m * c.runs + g] + l) * y_entry + p * y_field;
            WEFT_NO_UNROLL
            for (int f = 0; f < width; ++f) to[f] = from[f];
          }
        }
      }
    }
  }
}
