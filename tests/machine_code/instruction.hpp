// An instruction of sm_90 as the emulator runs it: decoded once from its text, so that execution handles no text.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "disassembly.hpp"
#include "image.hpp"

namespace weft::machine_code {

// One value per family of instructions; differences within a family are in the fields of Instruction.
enum class Op : std::uint8_t {
  // control
  nop,
  branch,
  branch_if_divergent,
  branch_indexed,
  call,
  ret,
  exit,
  sync_set,
  sync,
  sync_leave,
  sync_read,
  sync_write,
  warp_sync,
  barrier,
  trap,
  // integers
  add3,
  add3_long,
  multiply_add,
  multiply_add_wide,
  multiply_add_high,
  shift_add,
  shift_add_high,
  funnel_shift,
  logic,
  logic_predicates,
  compare,
  select,
  min_max,
  add_min_max,
  absolute,
  move,
  population,
  find_leading,
  reverse_bits,
  permute_bytes,
  bit_mask,
  extend_sign,
  predicates_to_register,
  register_to_predicates,
  // floating point
  f32_add,
  f32_multiply,
  f32_multiply_add,
  f32_compare,
  f32_select,
  f32_min_max,
  f64_add,
  f64_multiply,
  f64_multiply_add,
  f64_compare,
  f64_min,
  special,
  check_division,
  int_to_float,
  float_to_int,
  float_to_float,
  round,
  // between threads
  vote,
  shuffle,
  f64_matrix,
  match,
  elect,
  uniform_reduce,
  to_uniform,
  uniform_predicates_to_register,
  // registers, constants and memory
  read_special,
  load_constant,
  load,
  store,
  atomic,
  copy_async,
  copy_group,
  copy_wait,
  prefetch,
  count
};

enum class Pipe : std::uint8_t { integer, f32, f64, special, memory, uniform, control, tensor, count };

enum class Compare : std::uint8_t { never, lt, eq, le, gt, ne, ge, number, nan, ltu, equ, leu, gtu, neu, geu, always };
enum class Combine : std::uint8_t { conjunction, disjunction, exclusive };
enum class Rounding : std::uint8_t { nearest, down, up, zero };
enum class Special : std::uint8_t { rcp, rsq, sqrt, ex2, lg2, sin, cos, tanh, rcp64h, rsq64h };
enum class Register : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  block_x,
  block_y,
  block_z,
  lane,
  cluster_rank,
  clock,
  zero,
  eq_mask,
  lt_mask,
  le_mask,
  gt_mask,
  ge_mask
};
enum class Space : std::uint8_t { global, shared, local };
enum class Atomic : std::uint8_t {
  add,
  min,
  max,
  conjunction,
  disjunction,
  exclusive,
  exchange,
  increment,
  decrement,
  compare_swap
};
enum class Shuffle : std::uint8_t { index, up, down, butterfly };
enum class Vote : std::uint8_t { any, all, equal };

struct Type {
  enum class Kind : std::uint8_t { unsigned_integer, signed_integer, floating };
  Kind kind = Kind::signed_integer;
  std::uint8_t bits = 32;
};

struct Operand {
  enum class Kind : std::uint8_t { none, reg, uniform, immediate, constant, predicate, uniform_predicate, address };
  Kind kind = Kind::none;
  bool negative = false, inverted = false, absolute = false;  // -x, ~x or !p, |x|
  std::uint8_t bank = 0;                                      // of a constant
  std::uint16_t reg = 255;                  // register, predicate or index of an address; 255 is RZ, 7 is PT
  std::uint16_t uniform = 63;               // uniform register, also in an address; 63 is URZ
  bool wide = false, uniform_wide = false;  // registers of an address that hold 64 bits
  std::int32_t offset = 0;                  // of a constant or an address
  std::uint32_t low = 0, high = 0;          // an immediate's words
  std::uint32_t words = 1;                  // 32-bit words the instruction reads
};

struct Instruction {
  Op op = Op::nop;
  Pipe pipe = Pipe::control;
  bool on_uniform = false;  // works on uniform registers, once per warp
  Operand guard;            // predicate, possibly none
  Operand to, to_predicate, to_predicate2;
  std::array<Operand, 3> from;
  std::array<Operand, 2> from_predicate;
  Operand address;
  std::uint32_t target = 0;  // of a branch, an index into the instructions

  bool extended = false;  // .X or .EX: a predicate carries in
  bool high = false;      // .HI
  bool left = false;      // a shift's direction
  bool flush = false;     // .FTZ
  bool saturate = false, nan_to_zero = false, wrap = false, sign_from_first = false;
  bool shift_amount = false, acquires_all = false, fetches = false;
  bool constant = false;               // a load through the cache for what no thread of the launch writes
  std::uint8_t table = 0, table2 = 0;  // for LOP3, PLOP3
  std::uint8_t shift = 0;
  std::uint8_t barrier = 0;  // convergence barrier: B0, …
  std::uint8_t bytes = 4;    // size of a memory access
  std::uint32_t mask = 0;
  Compare compare = Compare::never;
  Combine combine = Combine::conjunction;
  Rounding rounding = Rounding::nearest;
  Special special = Special::rcp;
  Register reg = Register::zero;
  Space space = Space::global;
  Atomic atomic = Atomic::add;
  Shuffle shuffle = Shuffle::index;
  Vote vote = Vote::any;
  Type type, source;
};

// The instructions of one kernel, ready to run.
struct Code {
  std::vector<Instruction> instructions;
  std::vector<Line> lines;   // for counters and messages
  unsigned shared_unit = 4;  // the smallest access to shared memory, at most 8 bytes
};

// Throws std::runtime_error, with the instruction's text, for anything unknown.
Code decode(const Listing& listing, const Kernel& kernel);

}  // namespace weft::machine_code
