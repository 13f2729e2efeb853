// The operations of a program (kernels/program.hpp): X(name, value of the result). They follow NumPy: comparisons and
// logic give 0 or 1, minimum and maximum propagate NaN, and % has the sign of the divisor. One line here adds an
// operation everywhere; python/weft/program.py generates programs from these names.
#pragma once

#define WEFT_PROGRAM_UNARY(X) \
  X(negate, -a)               \
  X(square, a* a)             \
  X(sin, sin(a))              \
  X(cos, cos(a))              \
  X(tan, tan(a))              \
  X(sinh, sinh(a))            \
  X(cosh, cosh(a))            \
  X(tanh, tanh(a))            \
  X(exp, exp(a))              \
  X(log, log(a))              \
  X(sqrt, sqrt(a))            \
  X(abs, fabs(a))             \
  X(logical_not, a != 0 ? 0.0 : 1.0)

// On the stack a is below b: subtract computes a - b.
#define WEFT_PROGRAM_BINARY(X)                   \
  X(add, a + b)                                  \
  X(subtract, a - b)                             \
  X(multiply, a* b)                              \
  X(divide, a / b)                               \
  X(mod, program_modulo(a, b))                   \
  X(power, pow(a, b))                            \
  X(minimum, a < b || a != a ? a : b)            \
  X(maximum, a > b || a != a ? a : b)            \
  X(hypot, hypot(a, b))                          \
  X(arctan2, atan2(a, b))                        \
  X(less, a < b ? 1.0 : 0.0)                     \
  X(less_equal, a <= b ? 1.0 : 0.0)              \
  X(greater, a > b ? 1.0 : 0.0)                  \
  X(greater_equal, a >= b ? 1.0 : 0.0)           \
  X(equal, a == b ? 1.0 : 0.0)                   \
  X(not_equal, a != b ? 1.0 : 0.0)               \
  X(logical_and, (a != 0 && b != 0) ? 1.0 : 0.0) \
  X(logical_or, (a != 0 || b != 0) ? 1.0 : 0.0)

enum ProgramOperation {
  // These push a value: a variable, or the next constant.
  program_x,
  program_y,
  program_z,
  program_t,
  program_constant,
  // Exchanges the two topmost values, so that operands can be computed in the order that needs less stack.
  program_swap,
  // Takes three values, where(c, a, b): b is the lowest, c the topmost.
  program_where,
#define WEFT_PROGRAM_ENTRY(name, value) program_##name,
  WEFT_PROGRAM_UNARY(WEFT_PROGRAM_ENTRY) WEFT_PROGRAM_BINARY(WEFT_PROGRAM_ENTRY)
#undef WEFT_PROGRAM_ENTRY
      program_operations
};

constexpr int program_depth = 24;     // values a program may keep on its stack
constexpr int program_threads = 128;  // points per block
