// How host kernels of kernels/exchange.hpp process consecutive entries: a run is one row of values, which is combined
// with vector instructions, in one array or in `several` equally spaced arrays.
#pragma once

namespace simd = ::weft::simd;
constexpr int block_entries = 16, ask_every = 16;  // must match exchange/groups.cpp
constexpr int row_values = 64 / sizeof(real);      // of a vector

// Prefetches the blocks of x that the next chunk reads and that are not in cache: `each` of them after every ask_every
// runs. The points of the next elements in y and z are in small pieces far ahead, which the hardware prefetcher does
// not predict.
struct Ahead {
  const int *next, *end;
  int each;
};
template <int several>
WEFT_ALWAYS_INLINE void ask(Ahead& ahead, const real* x, long entry, long field) {
  constexpr int line = 64;
  const int bytes = block_entries * static_cast<int>(entry * static_cast<long>(sizeof(real)));
  const int* stop = ahead.end - ahead.next < ahead.each ? ahead.end : ahead.next + ahead.each;
  for (; ahead.next < stop; ++ahead.next) {
    const real* at = x + *ahead.next * (block_entries * entry);
    for (int f = 0; f < several; ++f) {
      for (int b = 0; b < bytes; b += line) __builtin_prefetch(reinterpret_cast<const char*>(at + f * field) + b, 0, 2);
    }
  }
}

// `count` adjacent values, or as many as a register holds.
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
// Calls each.template operator()<count>() with the largest power of two between `count` and `most` that does not exceed
// `values`.
template <int count, int most, class Each>
WEFT_ALWAYS_INLINE void with_count(int values, const Each& each) {
  if constexpr (2 * count <= most) {
    if (values >= 2 * count) return with_count<2 * count, most>(values, each);
  }
  each.template operator()<count>();
}

// Arrays with one value per entry (`together` false) or with `fields` adjacent values; `several` of them, `x_field`
// apart.
template <bool together, int several>
struct Rows {
  long fields, x_field, y_field;
  long entry() const { return together ? fields : 1; }
};

// The runs of one class. Combinations of rows of x are written to the row of y at the target (in_place false; entry 0
// of y is the target `first`), or back to all rows of x. `fixed` is the multiplicity if known at compile time, else 0.
// A row is combined in pieces of `count` values. The last piece may overlap others, so it is computed before any piece
// is stored.
template <class Op, bool in_place, int fixed, int count, class X, bool together, int several>
WEFT_FUNCTION void combine_rows(const Class c, const Rows<together, several> rows, Ahead& ahead, int first, X* x,
                                real* y) {
  using P = typename Piece<real, count>::type;
  struct Pieces {
    P of[several];
  };
  constexpr int piece = sizeof(P) / sizeof(real);
  const int runs = c.runs, multiplicity = fixed > 0 ? fixed : c.multiplicity;
  const long entry = rows.entry();
  const int values = count == 1 ? 1 : c.length * static_cast<int>(entry);
  const int* WEFT_RESTRICT references = c.references;
  const int* WEFT_RESTRICT targets = c.targets;
  for (int strip = 0; strip < runs; strip += ask_every) {
    if (!(in_place && together)) ask<several>(ahead, x, entry, rows.x_field);
    const int end = strip + ask_every < runs ? strip + ask_every : runs;
    for (int g = strip; g < end; ++g) {
      X* known[fixed > 0 ? fixed : 1];
      for (int m = 0; m < fixed; ++m) known[m] = x + references[m * runs + g] * entry;
      const auto row = [&](int m) { return fixed > 0 ? known[m] : x + references[m * runs + g] * entry; };
      real* to = in_place ? y : y + (targets[g] - first) * entry;
      const auto make = [&](int v) {
        Pieces made;
        for (int f = 0; f < several; ++f) made.of[f] = load<P>(row(0) + f * rows.x_field + v);
        for (int m = 1; m < multiplicity; ++m) {
          for (int f = 0; f < several; ++f) {
            made.of[f] = combine<Op>(made.of[f], load<P>(row(m) + f * rows.x_field + v));
          }
        }
        return made;
      };
      const auto put = [&](int v, const Pieces& made) {
        if constexpr (in_place) {
          for (int m = 0; m < multiplicity; ++m) {
            for (int f = 0; f < several; ++f) store(row(m) + f * rows.x_field + v, made.of[f]);
          }
        } else {
          for (int f = 0; f < several; ++f) store(to + f * rows.y_field + v, made.of[f]);
        }
      };
      const Pieces last = make(values - piece);
      for (int v = 0; v + piece < values; v += piece) put(v, make(v));
      put(values - piece, last);
    }
  }
}

template <class Op, bool in_place, class X, bool together, int several>
WEFT_FUNCTION void combine_rows(const Class& c, const Rows<together, several>& rows, Ahead& ahead, int first, X* x,
                                real* y) {
  // Rows with one value per entry are seldom as long as the longest vectors.
  with_count<together ? 2 : 1, together ? row_values : 8>(c.length * static_cast<int>(rows.entry()), [&]<int count>() {
    if (c.multiplicity == 1) {
      if constexpr (!in_place) combine_rows<Op, in_place, 1, count>(c, rows, ahead, first, x, y);
    } else if (c.multiplicity == 2) {
      combine_rows<Op, in_place, 2, count>(c, rows, ahead, first, x, y);
    } else if (c.multiplicity == 4) {
      combine_rows<Op, in_place, 4, count>(c, rows, ahead, first, x, y);
    } else if (c.multiplicity == 8) {
      combine_rows<Op, in_place, 8, count>(c, rows, ahead, first, x, y);
    } else {
      combine_rows<Op, in_place, 0, count>(c, rows, ahead, first, x, y);
    }
  });
}

// The same for any number of fields; if in_place, y is x.
template <class Op, bool in_place, class X>
WEFT_FUNCTION void combine_runs(const Class& c, int fields, bool together, Ahead& ahead, int first, X* x, long x_field,
                                real* y, long y_field) {
  if (together) {
    combine_rows<Op, in_place>(c, Rows<true, 1>{fields, 0, 0}, ahead, first, x, y);
  } else if (fields == apart_at_once) {
    combine_rows<Op, in_place>(c, Rows<false, apart_at_once>{fields, x_field, y_field}, ahead, first, x, y);
  } else {
    for (int f = 0; f < fields; ++f) {
      combine_rows<Op, in_place>(c, Rows<false, 1>{1, 0, 0}, ahead, first, x + f * x_field, y + f * y_field);
    }
  }
}
