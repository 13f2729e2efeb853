// The local side of exchange and gather-scatter. Value f of entry e of an array x is x[e * x_entry + f * x_field]:
// fields next to each other (x_field 1) or apart.
//
// Groups: a group is a target entry and the entries it is combined from. Groups come in chunks, one a block, and within
// a chunk in classes of equal multiplicity: chunk b has the classes chunks[b], …, chunks[b + 1] - 1; class c is
//   classes[4 c] references a group, classes[4 c + 1] groups, the place of its references and of its targets,
// with reference m of group g at references[place + m * groups + g], so that neighbouring threads read neighbouring
// indices. One index (4 bytes) a reference is read, and next to nothing else. No entry is in two groups.
#include "weft/kernels/dialect.hpp"

using real = WEFT_REAL;
constexpr int exchange_threads = 256;
constexpr int exchange_chunk = 4096;  // entries a block of `pack`

// The number of values next to each other that host compilers unroll and vectorise for: six fields of an
// electromagnetic wave. GPUs have enough threads to need no such thing.
#if !defined(WEFT_TARGET_GPU) && !defined(WEFT_TARGET_FIBER)
#define WEFT_FIXED_WIDTH 6
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

template <class Op>
WEFT_FUNCTION real combine(real a, real b) {
  if constexpr (Op::code == 0) return a + b;
  if constexpr (Op::code == 1) return a * b;
  if constexpr (Op::code == 2) return b < a ? b : a;
  return b > a ? b : a;
}

// buffer[i * fields + f] = value f of x's entry index[i], for i < n
WEFT_KERNEL(pack, exchange_threads,
            (long n, int fields, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x, long x_entry,
             long x_field, real* WEFT_RESTRICT buffer, long buffer_entry, long buffer_field)) {
  const long first = static_cast<long>(WEFT_BLOCK) * exchange_chunk;
  const int count = static_cast<int>(n - first < exchange_chunk ? n - first : exchange_chunk);
  const int* from = index + first;
  real* to = buffer + first * buffer_entry;
  if (fields == 1) {
    WEFT_STRIDED(i, count, exchange_threads) { to[i * buffer_entry] = x[from[i] * x_entry]; }
  } else if (x_field == 1 && buffer_field == 1) {
    WEFT_STRIDED(i, count, exchange_threads) {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) to[i * buffer_entry + f] = x[from[i] * x_entry + f];
    }
  } else {
    WEFT_NO_UNROLL
    for (int f = 0; f < fields; ++f) {
      WEFT_STRIDED(i, count, exchange_threads) {
        to[i * buffer_entry + f * buffer_field] = x[from[i] * x_entry + f * x_field];
      }
    }
  }
}

// The groups of one class; `fixed` is their multiplicity where the compiler is to know it, else 0; so is `width` the
// number of values next to each other. The order is that of the references, after y[target] if that counts.
template <class Op, int fixed, int width>
WEFT_FUNCTION void gather_class(int multiplicity, int groups, int fields, bool accumulate,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* x,
                                long x_entry, real* y, long y_entry) {
  const int values = width > 0 ? width : fields;
  WEFT_STRIDED(g, groups, exchange_threads) {
    real* to = y + targets[g] * y_entry;
    if constexpr (fixed > 0) {
      const real* from[fixed];
      WEFT_UNROLL
      for (int m = 0; m < fixed; ++m) from[m] = x + references[m * groups + g] * x_entry;
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
        real value = x[references[g] * x_entry + f];
        if (accumulate) value = combine<Op>(to[f], value);
        WEFT_NO_UNROLL
        for (int m = 1; m < multiplicity; ++m) {
          value = combine<Op>(value, x[references[m * groups + g] * x_entry + f]);
        }
        to[f] = value;
      }
    }
  }
}

template <class Op, int width>
WEFT_FUNCTION void gather_width(int multiplicity, int groups, int fields, bool accumulate,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* x,
                                long x_entry, real* y, long y_entry) {
  if (multiplicity == 1) {
    gather_class<Op, 1, width>(1, groups, fields, accumulate, references, targets, x, x_entry, y, y_entry);
  } else if (multiplicity == 2) {
    gather_class<Op, 2, width>(2, groups, fields, accumulate, references, targets, x, x_entry, y, y_entry);
  } else if (multiplicity == 4 && width > 0) {
    gather_class<Op, 4, width>(4, groups, fields, accumulate, references, targets, x, x_entry, y, y_entry);
  } else {
    gather_class<Op, 0, width>(multiplicity, groups, fields, accumulate, references, targets, x, x_entry, y, y_entry);
  }
}

template <class Op>
WEFT_FUNCTION void gather_chunk(int begin, int end, const int* WEFT_RESTRICT classes,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, int fields,
                                bool accumulate, const real* x, long x_entry, long x_field, real* y, long y_entry,
                                long y_field) {
  const bool together = x_field == 1 && y_field == 1;
  for (int c = begin; c < end; ++c) {
    const int multiplicity = classes[4 * c], groups = classes[4 * c + 1];
    const int* refs = references + classes[4 * c + 2];
    const int* to = targets + classes[4 * c + 3];
    if (fields > 1 && together) {
#if defined(WEFT_FIXED_WIDTH)
      if (fields == WEFT_FIXED_WIDTH) {
        gather_width<Op, WEFT_FIXED_WIDTH>(multiplicity, groups, fields, accumulate, refs, to, x, x_entry, y, y_entry);
        continue;
      }
#endif
      gather_width<Op, 0>(multiplicity, groups, fields, accumulate, refs, to, x, x_entry, y, y_entry);
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        gather_width<Op, 1>(multiplicity, groups, 1, accumulate, refs, to, x + f * x_field, x_entry, y + f * y_field,
                            y_entry);
      }
    }
  }
}

// y's target = combination of x's references, or of y's target and x's references (accumulate); x may be y. op: 0 add,
// 1 mul, 2 min, 3 max.
WEFT_KERNEL(gather_groups, exchange_threads,
            (int op, int fields, int accumulate, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* x, long x_entry,
             long x_field, real* y, long y_entry, long y_field)) {
  const int begin = chunks[WEFT_BLOCK], end = chunks[WEFT_BLOCK + 1];
  const bool onto = accumulate != 0;
  if (op == 0) {
    gather_chunk<op_add>(begin, end, classes, references, targets, fields, onto, x, x_entry, x_field, y, y_entry,
                         y_field);
  }
  if (op == 1) {
    gather_chunk<op_mul>(begin, end, classes, references, targets, fields, onto, x, x_entry, x_field, y, y_entry,
                         y_field);
  }
  if (op == 2) {
    gather_chunk<op_min>(begin, end, classes, references, targets, fields, onto, x, x_entry, x_field, y, y_entry,
                         y_field);
  }
  if (op == 3) {
    gather_chunk<op_max>(begin, end, classes, references, targets, fields, onto, x, x_entry, x_field, y, y_entry,
                         y_field);
  }
}

template <class Op, int fixed, int width>
WEFT_FUNCTION void combine_class(int multiplicity, int groups, int fields, const int* WEFT_RESTRICT references, real* x,
                                 long x_entry) {
  WEFT_STRIDED(g, groups, exchange_threads) {
    if constexpr (width > 1) {
      // All values are read before any is written: the compiler may take them as vectors.
      const int count = fixed > 0 ? fixed : multiplicity;
      real value[width];
      const real* first = x + references[g] * x_entry;
      for (int f = 0; f < width; ++f) value[f] = first[f];
      for (int m = 1; m < count; ++m) {
        const real* from = x + references[m * groups + g] * x_entry;
        for (int f = 0; f < width; ++f) value[f] = combine<Op>(value[f], from[f]);
      }
      for (int m = 0; m < count; ++m) {
        real* to = x + references[m * groups + g] * x_entry;
        for (int f = 0; f < width; ++f) to[f] = value[f];
      }
    } else if constexpr (fixed > 0) {
      const int values = width > 0 ? width : fields;
      real* at[fixed];
      WEFT_UNROLL
      for (int m = 0; m < fixed; ++m) at[m] = x + references[m * groups + g] * x_entry;
      WEFT_NO_UNROLL
      for (int f = 0; f < values; ++f) {
        real value = at[0][f];
        WEFT_UNROLL
        for (int m = 1; m < fixed; ++m) value = combine<Op>(value, at[m][f]);
        WEFT_UNROLL
        for (int m = 0; m < fixed; ++m) at[m][f] = value;
      }
    } else {
      const int values = width > 0 ? width : fields;
      WEFT_NO_UNROLL
      for (int f = 0; f < values; ++f) {
        real value = x[references[g] * x_entry + f];
        WEFT_NO_UNROLL
        for (int m = 1; m < multiplicity; ++m) {
          value = combine<Op>(value, x[references[m * groups + g] * x_entry + f]);
        }
        WEFT_NO_UNROLL
        for (int m = 0; m < multiplicity; ++m) x[references[m * groups + g] * x_entry + f] = value;
      }
    }
  }
}

template <class Op, int width>
WEFT_FUNCTION void combine_width(int multiplicity, int groups, int fields, const int* WEFT_RESTRICT references, real* x,
                                 long x_entry) {
  if (multiplicity == 2) {
    combine_class<Op, 2, width>(2, groups, fields, references, x, x_entry);
  } else if (multiplicity == 4) {
    combine_class<Op, 4, width>(4, groups, fields, references, x, x_entry);
  } else {
    combine_class<Op, 0, width>(multiplicity, groups, fields, references, x, x_entry);
  }
}

template <class Op>
WEFT_FUNCTION void combine_chunk(int begin, int end, const int* WEFT_RESTRICT classes,
                                 const int* WEFT_RESTRICT references, int fields, real* x, long x_entry, long x_field) {
  for (int c = begin; c < end; ++c) {
    const int multiplicity = classes[4 * c], groups = classes[4 * c + 1];
    const int* refs = references + classes[4 * c + 2];
    if (fields > 1 && x_field == 1) {
#if defined(WEFT_FIXED_WIDTH)
      if (fields == WEFT_FIXED_WIDTH) {
        combine_width<Op, WEFT_FIXED_WIDTH>(multiplicity, groups, fields, refs, x, x_entry);
        continue;
      }
#endif
      combine_width<Op, 0>(multiplicity, groups, fields, refs, x, x_entry);
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        combine_width<Op, 1>(multiplicity, groups, 1, refs, x + f * x_field, x_entry);
      }
    }
  }
}

// Every reference of a group gets the combination of all of them, in place.
WEFT_KERNEL(combine_groups, exchange_threads,
            (int op, int fields, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, real* x, long x_entry, long x_field)) {
  const int begin = chunks[WEFT_BLOCK], end = chunks[WEFT_BLOCK + 1];
  if (op == 0) combine_chunk<op_add>(begin, end, classes, references, fields, x, x_entry, x_field);
  if (op == 1) combine_chunk<op_mul>(begin, end, classes, references, fields, x, x_entry, x_field);
  if (op == 2) combine_chunk<op_min>(begin, end, classes, references, fields, x, x_entry, x_field);
  if (op == 3) combine_chunk<op_max>(begin, end, classes, references, fields, x, x_entry, x_field);
}

// y's references = x's target
WEFT_KERNEL(scatter_groups, exchange_threads,
            (int fields, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* WEFT_RESTRICT x,
             long x_entry, long x_field, real* WEFT_RESTRICT y, long y_entry, long y_field)) {
  for (int c = chunks[WEFT_BLOCK]; c < chunks[WEFT_BLOCK + 1]; ++c) {
    const int multiplicity = classes[4 * c], groups = classes[4 * c + 1];
    const int* refs = references + classes[4 * c + 2];
    const int* from = targets + classes[4 * c + 3];
    if (x_field == 1 && y_field == 1) {
      for (int m = 0; m < multiplicity; ++m) {
        WEFT_STRIDED(g, groups, exchange_threads) {
          WEFT_NO_UNROLL
          for (int f = 0; f < fields; ++f) y[refs[m * groups + g] * y_entry + f] = x[from[g] * x_entry + f];
        }
      }
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        for (int m = 0; m < multiplicity; ++m) {
          WEFT_STRIDED(g, groups, exchange_threads) {
            y[refs[m * groups + g] * y_entry + f * y_field] = x[from[g] * x_entry + f * x_field];
          }
        }
      }
    }
  }
}
