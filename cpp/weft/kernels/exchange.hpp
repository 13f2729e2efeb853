// The local part of exchange and gather-scatter. Value f of entry e of an array x is x[e * x_entry + f * x_field]:
// fields are interleaved (x_field 1) or separate.
//
// A group is a target entry together with the entries it is combined from. Groups are divided into chunks, one per
// block, and within a chunk into classes of equal multiplicity. Chunk b has the classes chunks[4 b], …, chunks[4 b + 4]
// - 1; chunks[4 b + 1] is its first target if its targets are consecutive entries, else -1. Class c is described by
//   classes[5 c] references per group, classes[5 c + 1] entries per run, classes[5 c + 2] runs, and the positions of
//   its references and of its targets,
// with reference m of run g at references[position + m * runs + g], so that neighbouring threads read neighbouring
// indices. A run is a sequence of groups whose targets and references are consecutive: on the host, rows of points of
// an element; on GPUs every run is one group. So a run needs one index (4 bytes) per reference and almost nothing else.
// No entry is in two groups. On the host, a chunk prefetches the blocks of entries blocks[chunks[4 b + 2]], …,
// blocks[chunks[4 b + 6] - 1] that the next chunk reads, chunks[4 b + 3] at a time.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int exchange_threads = 256;
constexpr int exchange_chunk = 4096;  // entries per block of `pack`
constexpr int pack_ahead = 512;       // entries
constexpr int apart_at_once = 3;      // separate fields that the host processes together, with one index for all

// The number of adjacent values for which host compilers unroll and vectorise: six fields of an electromagnetic wave.
// GPUs have enough threads and do not need this. GPUs also have no stores that bypass the caches. A host kernel that is
// told to use such stores writes its results to a panel that stays in cache, and copies whole cache lines from there.
#if !defined(WEFT_TARGET_GPU) && !defined(WEFT_TARGET_FIBER)
#define WEFT_HOST
#define WEFT_FIXED_WIDTH 6

#include "weft/simd/past_caches.hpp"
#include "weft/simd/vector.hpp"
constexpr int panel_values = 65536 / sizeof(real);
constexpr int panel_gap = 256 / sizeof(real);  // between fields, so that they do not share cache lines
// Smaller for single values: the panel is copied to memory while the next values are fetched.
constexpr int pack_panel_values = 16384 / sizeof(real), pack_single_values = 1024 / sizeof(real);
#endif

struct Class {
  int multiplicity, length, runs;
  const int *references, *targets;
};
WEFT_FUNCTION Class class_at(const int* WEFT_RESTRICT at, const int* references, const int* targets) {
  return {at[0], at[1], at[2], references + at[3], targets + at[4]};
}
// On GPUs every run has one entry.
WEFT_FUNCTION int length_of([[maybe_unused]] const Class& c) {
#if defined(WEFT_HOST)
  return c.length;
#else
  return 1;
#endif
}

// Sums are what solvers exchange, so only they have versions for multiplicities known at compile time and, on the host,
// for rows.
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

#if defined(WEFT_HOST)
#include "weft/kernels/exchange_rows.hpp"
#else
struct Ahead {};
#endif
WEFT_FUNCTION Ahead ahead_of([[maybe_unused]] const int* chunk, [[maybe_unused]] const int* blocks) {
#if defined(WEFT_HOST)
  return {blocks + chunk[2], blocks + chunk[6], chunk[3]};
#else
  return {};
#endif
}

#if defined(WEFT_HOST)
// Entry i of `to` = entry from[i] of x, for i < count, with `width` adjacent values per entry, if known at compile
// time. The host prefetches what it will read `ahead` entries later, except for single values, where prefetching costs
// more than it gains.
template <int width>
inline void pack_together(int count, int fields, int ahead, const int* WEFT_RESTRICT from, const real* WEFT_RESTRICT x,
                          long x_entry, real* WEFT_RESTRICT to, long to_entry) {
  const int values = width > 0 ? width : fields;
  for (int i = 0; i < count; ++i) {
    if constexpr (width != 1) __builtin_prefetch(x + from[i + ahead] * x_entry, 0, 2);
    for (int f = 0; f < values; ++f) to[i * to_entry + f] = x[from[i] * x_entry + f];
  }
}

// The same for `several` fields with one value per entry, so that each index is read once for all of them. Vectors of
// eight lanes gain nothing from gather instructions.
template <int several>
inline void pack_single(int count, const int* WEFT_RESTRICT from, const real* WEFT_RESTRICT x, long x_field,
                        real* WEFT_RESTRICT to, long to_field) {
  int i = 0;
  if constexpr (sizeof(real) == 4) {
    constexpr int lanes = ::weft::simd::lanes<real>;
    for (; i + lanes <= count; i += lanes) {
      for (int f = 0; f < several; ++f) {
        ::weft::simd::store(to + f * to_field + i, ::weft::simd::gather(x + f * x_field, from + i));
      }
    }
  }
  for (; i < count; ++i) {
    for (int f = 0; f < several; ++f) to[f * to_field + i] = x[f * x_field + from[i]];
  }
}

inline void pack_entries(int count, int fields, int ahead, const int* WEFT_RESTRICT from, const real* WEFT_RESTRICT x,
                         long x_entry, long x_field, real* WEFT_RESTRICT to, long to_entry, long to_field) {
  if (fields > 1 && x_field == 1 && to_field == 1) {
    if (fields == WEFT_FIXED_WIDTH)
      return pack_together<WEFT_FIXED_WIDTH>(count, fields, ahead, from, x, x_entry, to, to_entry);
    pack_together<0>(count, fields, ahead, from, x, x_entry, to, to_entry);
    return;
  }
  if (x_entry == 1 && to_entry == 1 && fields == 1) return pack_single<1>(count, from, x, 0, to, 0);
  if (x_entry == 1 && to_entry == 1 && fields == apart_at_once) {
    return pack_single<apart_at_once>(count, from, x, x_field, to, to_field);
  }
  for (int f = 0; f < fields; ++f) {
    pack_together<1>(count, 1, ahead, from, x + f * x_field, x_entry, to + f * to_field, to_entry);
  }
}
#else
// Entry i of `to` = entry from[i] of x, for i < count. Threads divide values rather than entries, in the order in which
// they are stored in `to`, and process several at a time, whose loads are in flight together.
WEFT_FUNCTION void pack_entries(int count, int fields, int, const int* WEFT_RESTRICT from, const real* WEFT_RESTRICT x,
                                long x_entry, long x_field, real* WEFT_RESTRICT to, long to_entry, long to_field) {
  constexpr int at_once = 8;
  const bool together = fields > 1 && to_field == 1;
  const int all = count * fields, inner = together ? fields : count;
  WEFT_STRIDED(first, all, at_once * exchange_threads) {
    real values[at_once];
    long places[at_once];
    WEFT_UNROLL
    for (int u = 0; u < at_once; ++u) {
      const int v = first + u * exchange_threads, outer = v / inner, rest = v - outer * inner;
      const int entry = together ? outer : rest, f = together ? rest : outer;
      places[u] = entry * to_entry + f * to_field;
      values[u] = v < all ? x[from[entry] * x_entry + f * x_field] : 0;
    }
    WEFT_UNROLL
    for (int u = 0; u < at_once; ++u)
      if (first + u * exchange_threads < all) to[places[u]] = values[u];
  }
}
#endif

#if defined(WEFT_FIXED_WIDTH)
// The same with non-temporal stores. Returns false, and does nothing, if the values of `to` are not contiguous, or if
// one entry has more values than a panel holds.
inline bool pack_past_caches(int count, int fields, int ahead, const int* WEFT_RESTRICT from,
                             const real* WEFT_RESTRICT x, long x_entry, long x_field, real* WEFT_RESTRICT to,
                             long to_entry, long to_field) {
  alignas(64) real panel[pack_panel_values];
  const bool together = fields > 1 && to_field == 1;
  const int pieces = together ? 1 : fields, width = together ? fields : 1;
  if (to_entry != width || (together && x_field != 1)) return false;
  const int each = together ? pack_panel_values / width : pack_single_values;
  const long piece = together ? 1 : each + panel_gap;
  if (each == 0 || pieces * piece > pack_panel_values) return false;
  for (int i = 0; i < count; i += each) {
    const int some = count - i < each ? count - i : each;
    pack_entries(some, fields, ahead, from + i, x, x_entry, x_field, panel, width, piece);
    for (int p = 0; p < pieces; ++p) {
      ::weft::simd::copy_past_caches(to + p * to_field + static_cast<long>(i) * width, panel + p * piece,
                                     static_cast<long>(some) * width);
    }
  }
  return true;
}
#endif

// Entry i of the buffer = entry index[i] of x, for i < n
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

// Processes the groups of one class, for any layout of their values. `fixed` is their multiplicity if known at compile
// time, else 0; `width` likewise the number of adjacent values. Values are combined in the order of the references,
// after y[target] if it takes part. Entry 0 of y is the target `first`.
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
  if constexpr (Op::code == op_add::code) {
    if (c.multiplicity == 1) return gather_class<Op, 1, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
    if (c.multiplicity == 2) return gather_class<Op, 2, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
    if constexpr (width > 0) {
      if (c.multiplicity == 4) return gather_class<Op, 4, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
    }
  }
  gather_class<Op, 0, width>(c, fields, accumulate, first, x, x_entry, y, y_entry);
}

template <class Op>
WEFT_FUNCTION void gather_chunk(const int* chunk, const int* WEFT_RESTRICT classes, const int* WEFT_RESTRICT references,
                                const int* WEFT_RESTRICT targets, int first, int fields, [[maybe_unused]] Ahead ahead,
                                bool accumulate, const real* x, long x_entry, long x_field, real* y, long y_entry,
                                long y_field) {
  const bool together = fields > 1 && x_field == 1 && y_field == 1;
#if defined(WEFT_HOST)
  const int entry = together ? fields : 1;
  [[maybe_unused]] const bool in_rows = x_entry == entry && y_entry == entry && !accumulate;
#endif
  for (int i = chunk[0]; i < chunk[4]; ++i) {
    const Class c = class_at(classes + 5 * i, references, targets);
#if defined(WEFT_HOST)
    if constexpr (Op::code == op_add::code) {
      if (in_rows) {
        combine_runs<Op, false>(c, fields, together, ahead, first, x, x_field, y, y_field);
        continue;
      }
    }
#endif
    if (together) {
      gather_width<Op, 0>(c, fields, accumulate, first, x, x_entry, y, y_entry);
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        gather_width<Op, 1>(c, 1, accumulate, first, x + f * x_field, x_entry, y + f * y_field, y_entry);
      }
    }
  }
}

#if defined(WEFT_HOST)
// Processes a chunk whose targets are the entries from `first` on with non-temporal stores; x must not be y. Returns
// false, and does nothing, if that is not possible.
template <class Op>
inline bool gather_past_caches(const int* chunk, const int* WEFT_RESTRICT classes, const int* WEFT_RESTRICT references,
                               const int* WEFT_RESTRICT targets, int fields, const Ahead& ahead, const real* x,
                               long x_entry, long x_field, real* y, long y_entry, long y_field) {
  alignas(64) real panel[panel_values];
  const bool together = fields > 1 && x_field == 1 && y_field == 1;
  const int width = together ? fields : 1, pieces = together ? 1 : fields, first = chunk[1];
  int entries = 0;
  for (int c = chunk[0]; c < chunk[4]; ++c) entries += classes[5 * c + 1] * classes[5 * c + 2];
  const long values = static_cast<long>(entries) * width, piece = together ? 1 : values + panel_gap;
  if (first < 0 || y_entry != width || pieces * piece > panel_values || values > panel_values) return false;
  real* to = y + static_cast<long>(first) * width;
  for (int p = 0; p < pieces; ++p) ::weft::simd::expect_copy_past_caches(to + p * y_field, values);
  gather_chunk<Op>(chunk, classes, references, targets, first, fields, ahead, false, x, x_entry, x_field, panel, width,
                   piece);
  for (int p = 0; p < pieces; ++p) {
    ::weft::simd::copy_past_caches(to + p * y_field, panel + p * piece, values);
  }
  return true;
}
#endif

template <class Op>
WEFT_FUNCTION void gather_block(const int* WEFT_RESTRICT chunk, const int* WEFT_RESTRICT classes,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, int fields,
                                const Ahead& ahead, bool accumulate, [[maybe_unused]] bool past_caches, const real* x,
                                long x_entry, long x_field, real* y, long y_entry, long y_field) {
#if defined(WEFT_HOST)
  if constexpr (Op::code == op_add::code) {
    if (past_caches && !accumulate &&
        gather_past_caches<Op>(chunk, classes, references, targets, fields, ahead, x, x_entry, x_field, y, y_entry,
                               y_field))
      return;
  }
#endif
  gather_chunk<Op>(chunk, classes, references, targets, 0, fields, ahead, accumulate, x, x_entry, x_field, y, y_entry,
                   y_field);
}

// y's target = combination of x's references, or of y's target and x's references (accumulate). x may be y, unless
// past_caches is nonzero. op: 0 add, 1 mul, 2 min, 3 max.
WEFT_KERNEL(gather_groups, exchange_threads,
            (int op, int fields, int accumulate, int past_caches, const int* WEFT_RESTRICT chunks,
             const int* WEFT_RESTRICT blocks, const int* WEFT_RESTRICT classes, const int* WEFT_RESTRICT references,
             const int* WEFT_RESTRICT targets, const real* x, long x_entry, long x_field, real* y, long y_entry,
             long y_field)) {
  const int* chunk = chunks + 4 * WEFT_BLOCK;
  const Ahead ahead = ahead_of(chunk, blocks);
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
  if constexpr (Op::code == op_add::code) {
    if (c.multiplicity == 2) return combine_class<Op, 2, width>(c, fields, x, x_entry);
    if (c.multiplicity == 4) return combine_class<Op, 4, width>(c, fields, x, x_entry);
  }
  combine_class<Op, 0, width>(c, fields, x, x_entry);
}

template <class Op>
WEFT_FUNCTION void combine_chunk(const int* WEFT_RESTRICT chunk, const int* WEFT_RESTRICT classes,
                                 const int* WEFT_RESTRICT references, int fields, [[maybe_unused]] Ahead ahead, real* x,
                                 long x_entry, long x_field) {
  const bool together = fields > 1 && x_field == 1;
  for (int i = chunk[0]; i < chunk[4]; ++i) {
    const Class c = class_at(classes + 5 * i, references, references);
#if defined(WEFT_HOST)
    if constexpr (Op::code == op_add::code) {
      if (x_entry == (together ? fields : 1)) {
        combine_runs<Op, true>(c, fields, together, ahead, 0, x, x_field, x, x_field);
        continue;
      }
    }
#endif
    if (together) {
      combine_width<Op, 0>(c, fields, x, x_entry);
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) combine_width<Op, 1>(c, 1, x + f * x_field, x_entry);
    }
  }
}

// Every reference of a group receives the combination of all of them, in place.
WEFT_KERNEL(combine_groups, exchange_threads,
            (int op, int fields, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT blocks,
             const int* WEFT_RESTRICT classes, const int* WEFT_RESTRICT references, real* x, long x_entry,
             long x_field)) {
  const int* chunk = chunks + 4 * WEFT_BLOCK;
  const Ahead ahead = ahead_of(chunk, blocks);
  if (op == 0) combine_chunk<op_add>(chunk, classes, references, fields, ahead, x, x_entry, x_field);
  if (op == 1) combine_chunk<op_mul>(chunk, classes, references, fields, ahead, x, x_entry, x_field);
  if (op == 2) combine_chunk<op_min>(chunk, classes, references, fields, ahead, x, x_entry, x_field);
  if (op == 3) combine_chunk<op_max>(chunk, classes, references, fields, ahead, x, x_entry, x_field);
}

// y's references = x's target
WEFT_KERNEL(scatter_groups, exchange_threads,
            (int fields, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* WEFT_RESTRICT x,
             long x_entry, long x_field, real* WEFT_RESTRICT y, long y_entry, long y_field)) {
  const bool together = x_field == 1 && y_field == 1;
  const int pieces = together ? 1 : fields, width = together ? fields : 1;
  for (int i = chunks[4 * WEFT_BLOCK]; i < chunks[4 * WEFT_BLOCK + 4]; ++i) {
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
