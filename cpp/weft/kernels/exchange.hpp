// The local side of exchange and gather-scatter. Entries have `fields` values next to each other.
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

// buffer[i] = x[index[i]] for i < n
WEFT_KERNEL(pack, exchange_threads,
            (long n, int fields, const int* WEFT_RESTRICT index, const real* WEFT_RESTRICT x,
             real* WEFT_RESTRICT buffer)) {
  const long first = static_cast<long>(WEFT_BLOCK) * exchange_chunk;
  const int count = static_cast<int>(n - first < exchange_chunk ? n - first : exchange_chunk);
  const int* from = index + first;
  if (fields == 1) {
    WEFT_STRIDED(i, count, exchange_threads) { buffer[first + i] = x[from[i]]; }
  } else {
    WEFT_STRIDED(i, count, exchange_threads) {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) buffer[(first + i) * fields + f] = x[static_cast<long>(from[i]) * fields + f];
    }
  }
}

// The groups of one class; `fixed` is their multiplicity where the compiler is to know it, else 0. The order is that of
// the references, after y[target] if that counts.
template <class Op, int fixed>
WEFT_FUNCTION void gather_class(int multiplicity, int groups, int fields, bool accumulate,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* x,
                                real* y) {
  WEFT_STRIDED(g, groups, exchange_threads) {
    const long target = static_cast<long>(targets[g]) * fields;
    if constexpr (fixed > 0) {
      long at[fixed];
      WEFT_UNROLL
      for (int m = 0; m < fixed; ++m) at[m] = static_cast<long>(references[m * groups + g]) * fields;
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        real value = accumulate ? combine<Op>(y[target + f], x[at[0] + f]) : x[at[0] + f];
        WEFT_UNROLL
        for (int m = 1; m < fixed; ++m) value = combine<Op>(value, x[at[m] + f]);
        y[target + f] = value;
      }
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        real value = x[static_cast<long>(references[g]) * fields + f];
        if (accumulate) value = combine<Op>(y[target + f], value);
        WEFT_NO_UNROLL
        for (int m = 1; m < multiplicity; ++m) {
          value = combine<Op>(value, x[static_cast<long>(references[m * groups + g]) * fields + f]);
        }
        y[target + f] = value;
      }
    }
  }
}

template <class Op>
WEFT_FUNCTION void gather_chunk(int begin, int end, const int* WEFT_RESTRICT classes,
                                const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, int fields,
                                bool accumulate, const real* x, real* y) {
  for (int c = begin; c < end; ++c) {
    const int multiplicity = classes[4 * c], groups = classes[4 * c + 1];
    const int* refs = references + classes[4 * c + 2];
    const int* to = targets + classes[4 * c + 3];
    if (fields == 1 && multiplicity == 1) {
      gather_class<Op, 1>(1, groups, 1, accumulate, refs, to, x, y);
    } else if (fields == 1 && multiplicity == 2) {
      gather_class<Op, 2>(2, groups, 1, accumulate, refs, to, x, y);
    } else if (fields == 1 && multiplicity == 4) {
      gather_class<Op, 4>(4, groups, 1, accumulate, refs, to, x, y);
    } else if (multiplicity == 1) {
      gather_class<Op, 1>(1, groups, fields, accumulate, refs, to, x, y);
    } else if (multiplicity == 2) {
      gather_class<Op, 2>(2, groups, fields, accumulate, refs, to, x, y);
    } else {
      gather_class<Op, 0>(multiplicity, groups, fields, accumulate, refs, to, x, y);
    }
  }
}

// y[target] = combination of x[references], or of y[target] and x[references] (accumulate); x may be y. op: 0 add,
// 1 mul, 2 min, 3 max.
WEFT_KERNEL(gather_groups, exchange_threads,
            (int op, int fields, int accumulate, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* x, real* y)) {
  const int begin = chunks[WEFT_BLOCK], end = chunks[WEFT_BLOCK + 1];
  const bool onto = accumulate != 0;
  if (op == 0) gather_chunk<op_add>(begin, end, classes, references, targets, fields, onto, x, y);
  if (op == 1) gather_chunk<op_mul>(begin, end, classes, references, targets, fields, onto, x, y);
  if (op == 2) gather_chunk<op_min>(begin, end, classes, references, targets, fields, onto, x, y);
  if (op == 3) gather_chunk<op_max>(begin, end, classes, references, targets, fields, onto, x, y);
}

template <class Op, int fixed>
WEFT_FUNCTION void combine_class(int multiplicity, int groups, int fields, const int* WEFT_RESTRICT references,
                                 real* x) {
  WEFT_STRIDED(g, groups, exchange_threads) {
    if constexpr (fixed > 0) {
      long at[fixed];
      WEFT_UNROLL
      for (int m = 0; m < fixed; ++m) at[m] = static_cast<long>(references[m * groups + g]) * fields;
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        real value = x[at[0] + f];
        WEFT_UNROLL
        for (int m = 1; m < fixed; ++m) value = combine<Op>(value, x[at[m] + f]);
        WEFT_UNROLL
        for (int m = 0; m < fixed; ++m) x[at[m] + f] = value;
      }
    } else {
      WEFT_NO_UNROLL
      for (int f = 0; f < fields; ++f) {
        real value = x[static_cast<long>(references[g]) * fields + f];
        WEFT_NO_UNROLL
        for (int m = 1; m < multiplicity; ++m) {
          value = combine<Op>(value, x[static_cast<long>(references[m * groups + g]) * fields + f]);
        }
        WEFT_NO_UNROLL
        for (int m = 0; m < multiplicity; ++m) x[static_cast<long>(references[m * groups + g]) * fields + f] = value;
      }
    }
  }
}

template <class Op>
WEFT_FUNCTION void combine_chunk(int begin, int end, const int* WEFT_RESTRICT classes,
                                 const int* WEFT_RESTRICT references, int fields, real* x) {
  for (int c = begin; c < end; ++c) {
    const int multiplicity = classes[4 * c], groups = classes[4 * c + 1];
    const int* refs = references + classes[4 * c + 2];
    if (fields == 1 && multiplicity == 2) {
      combine_class<Op, 2>(2, groups, 1, refs, x);
    } else if (fields == 1 && multiplicity == 4) {
      combine_class<Op, 4>(4, groups, 1, refs, x);
    } else if (multiplicity == 2) {
      combine_class<Op, 2>(2, groups, fields, refs, x);
    } else if (multiplicity == 4) {
      combine_class<Op, 4>(4, groups, fields, refs, x);
    } else {
      combine_class<Op, 0>(multiplicity, groups, fields, refs, x);
    }
  }
}

// Every reference of a group gets the combination of all of them, in place.
WEFT_KERNEL(combine_groups, exchange_threads,
            (int op, int fields, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, real* x)) {
  const int begin = chunks[WEFT_BLOCK], end = chunks[WEFT_BLOCK + 1];
  if (op == 0) combine_chunk<op_add>(begin, end, classes, references, fields, x);
  if (op == 1) combine_chunk<op_mul>(begin, end, classes, references, fields, x);
  if (op == 2) combine_chunk<op_min>(begin, end, classes, references, fields, x);
  if (op == 3) combine_chunk<op_max>(begin, end, classes, references, fields, x);
}

// y[references] = x[target]
WEFT_KERNEL(scatter_groups, exchange_threads,
            (int fields, const int* WEFT_RESTRICT chunks, const int* WEFT_RESTRICT classes,
             const int* WEFT_RESTRICT references, const int* WEFT_RESTRICT targets, const real* WEFT_RESTRICT x,
             real* WEFT_RESTRICT y)) {
  for (int c = chunks[WEFT_BLOCK]; c < chunks[WEFT_BLOCK + 1]; ++c) {
    const int multiplicity = classes[4 * c], groups = classes[4 * c + 1];
    const int* refs = references + classes[4 * c + 2];
    const int* from = targets + classes[4 * c + 3];
    for (int m = 0; m < multiplicity; ++m) {
      WEFT_STRIDED(g, groups, exchange_threads) {
        WEFT_NO_UNROLL
        for (int f = 0; f < fields; ++f) {
          y[static_cast<long>(refs[m * groups + g]) * fields + f] = x[static_cast<long>(from[g]) * fields + f];
        }
      }
    }
  }
}
