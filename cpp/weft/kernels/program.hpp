// Evaluates the expressions of a case at points with an interpreter: a program in postfix order, with a stack for every
// point.
//
// The loop over operations is the outer one, the loop over the points of a block the inner one. On the host each
// operation is one loop over a block's points, which vectorises; on a GPU all threads take the same branch. A thread
// works only on its own column of the shared stack, so there is no barrier. Everything is in double precision, so that
// time and position lose nothing in single-precision runs.
#include "weft/kernels/dialect.hpp"
#include "weft/kernels/program_operations.hpp"

using real = WEFT_REAL;

// Like Python's %, the result has the sign of b, even if it is 0.
WEFT_FUNCTION double program_modulo(double a, double b) {
  const double rest = fmod(a, b);
  if (rest == 0) return copysign(0.0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}

// values[i] = the program at the point (points[i], points[stride + i], points[2 stride + i]) and the given time.
WEFT_KERNEL(run_program, program_threads,
            (long n, long stride, int length, const int* WEFT_RESTRICT operations,
             const double* WEFT_RESTRICT constants, double time, const real* WEFT_RESTRICT points,
             real* WEFT_RESTRICT values)) {
  WEFT_SHARED(double, stack[program_depth * program_threads]);
  const long first = static_cast<long>(WEFT_BLOCK) * program_threads;
  int top = 0, next = 0;  // number of values on the stack, and of constants used
  for (int k = 0; k < length; ++k) {
    const int operation = operations[k];
    double* const WEFT_RESTRICT result = stack + top * program_threads;
    switch (operation) {
      case program_x:
      case program_y:
      case program_z: {
        const real* const from = points + (operation - program_x) * stride;
        WEFT_THREADS(t, program_threads) { result[t] = from[first + t < n ? first + t : n - 1]; }
        ++top;
        break;
      }
      case program_t:
        WEFT_THREADS(t, program_threads) { result[t] = time; }
        ++top;
        break;
      case program_constant: {
        const double value = constants[next++];
        WEFT_THREADS(t, program_threads) { result[t] = value; }
        ++top;
        break;
      }
      case program_swap: {
        double* const WEFT_RESTRICT upper = result - program_threads;
        double* const WEFT_RESTRICT lower = result - 2 * program_threads;
        WEFT_THREADS(t, program_threads) {
          const double kept = upper[t];
          upper[t] = lower[t];
          lower[t] = kept;
        }
        break;
      }
      case program_where: {
        const double* const WEFT_RESTRICT condition = result - program_threads;
        const double* const WEFT_RESTRICT one = result - 2 * program_threads;
        double* const WEFT_RESTRICT other = result - 3 * program_threads;
        WEFT_THREADS(t, program_threads) { other[t] = condition[t] != 0 ? one[t] : other[t]; }
        top -= 2;
        break;
      }
#define WEFT_PROGRAM_CASE(name, value)                            \
  case program_##name: {                                          \
    double* const WEFT_RESTRICT place = result - program_threads; \
    WEFT_THREADS(t, program_threads) {                            \
      const double a = place[t];                                  \
      place[t] = value;                                           \
    }                                                             \
    break;                                                        \
  }
        WEFT_PROGRAM_UNARY(WEFT_PROGRAM_CASE)
#undef WEFT_PROGRAM_CASE
#define WEFT_PROGRAM_CASE(name, value)                                   \
  case program_##name: {                                                 \
    const double* const WEFT_RESTRICT second = result - program_threads; \
    double* const WEFT_RESTRICT place = result - 2 * program_threads;    \
    WEFT_THREADS(t, program_threads) {                                   \
      const double a = place[t], b = second[t];                          \
      place[t] = value;                                                  \
    }                                                                    \
    --top;                                                               \
    break;                                                               \
  }
        WEFT_PROGRAM_BINARY(WEFT_PROGRAM_CASE)
#undef WEFT_PROGRAM_CASE
    }
  }
  WEFT_THREADS(t, program_threads) {
    if (first + t < n) values[first + t] = static_cast<real>(stack[t]);
  }
}
