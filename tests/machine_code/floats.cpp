// Floating point. Results follow IEEE 754, as on the card: fused multiply-adds round once. The approximations of the
// special function unit are correctly rounded here, or rounded to the 20 bits that the upper word of a double holds.
// NVIDIA states their errors (CUDA C++ Programming Guide, "Intrinsic functions": one or two units in the last place).
// Divisions and square roots refine them until the result no longer depends on the approximation.
#include <cfenv>
#include <cmath>
#include <limits>

#include "warp.hpp"

namespace weft::machine_code {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Sets the rounding mode during its lifetime. The arithmetic concerned must be in a function that is not inlined.
class RoundingMode {
 public:
  explicit RoundingMode(Rounding mode) : before_(std::fegetround()) {
    if (mode != Rounding::nearest)
      std::fesetround(mode == Rounding::down ? FE_DOWNWARD : mode == Rounding::up ? FE_UPWARD : FE_TOWARDZERO);
  }
  ~RoundingMode() { std::fesetround(before_); }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;

 private:
  int before_;
};

template <class T>
[[gnu::noipa]] void add(const Row<T>& a, const Row<T>& b, Row<T>& result) {
  for (int l = 0; l < lanes; ++l) result[l] = a[l] + b[l];
}
template <class T>
[[gnu::noipa]] void multiply(const Row<T>& a, const Row<T>& b, Row<T>& result) {
  for (int l = 0; l < lanes; ++l) result[l] = a[l] * b[l];
}
template <class T>
[[gnu::noipa]] void multiply_add(const Row<T>& a, const Row<T>& b, const Row<T>& c, Row<T>& result) {
  for (int l = 0; l < lanes; ++l) result[l] = std::fma(a[l], b[l], c[l]);
}
[[gnu::noipa]] void narrowed(const Row<double>& a, Row<float>& result) {
  for (int l = 0; l < lanes; ++l) result[l] = static_cast<float>(a[l]);
}
void flush(Row<float>& value) {
  for (int l = 0; l < lanes; ++l)
    if (std::abs(value[l]) < std::numeric_limits<float>::min()) value[l] = std::copysign(0.0f, value[l]);
}

template <class T>
Mask compared(Compare how, const Row<T>& a, const Row<T>& b) {
  const Mask less = mask_where([&](int l) { return a[l] < b[l]; }),
             equal = mask_where([&](int l) { return a[l] == b[l]; }),
             greater = mask_where([&](int l) { return a[l] > b[l]; });
  const Mask nan = ~(less | equal | greater);
  switch (how) {
    case Compare::never:
      return 0;
    case Compare::lt:
      return less;
    case Compare::eq:
      return equal;
    case Compare::le:
      return less | equal;
    case Compare::gt:
      return greater;
    case Compare::ne:
      return less | greater;
    case Compare::ge:
      return greater | equal;
    case Compare::number:
      return ~nan;
    case Compare::nan:
      return nan;
    case Compare::ltu:
      return less | nan;
    case Compare::equ:
      return equal | nan;
    case Compare::leu:
      return less | equal | nan;
    case Compare::gtu:
      return greater | nan;
    case Compare::neu:
      return less | greater | nan;
    case Compare::geu:
      return greater | equal | nan;
    case Compare::always:
      return all_lanes;
  }
  return 0;
}

float smaller(float a, float b, bool smallest) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) == smallest ? a : b;  // -0 is below 0
  return (a < b) == smallest ? a : b;
}

float approximated(Special which, float x) {
  constexpr double pi = 3.14159265358979323846;
  const double wide = static_cast<double>(x);
  switch (which) {
    case Special::rcp:
      return static_cast<float>(1 / wide);
    case Special::rsq:
      return static_cast<float>(1 / std::sqrt(wide));
    case Special::sqrt:
      return static_cast<float>(std::sqrt(wide));
    case Special::ex2:
      return static_cast<float>(std::exp2(wide));
    case Special::lg2:
      return static_cast<float>(std::log2(wide));
    case Special::sin:
      return static_cast<float>(std::sin(2 * pi * wide));  // its argument is in turns
    case Special::cos:
      return static_cast<float>(std::cos(2 * pi * wide));
    case Special::tanh:
      return static_cast<float>(std::tanh(wide));
    default:
      return 0;
  }
}

// From the upper word of a double to that of its approximate reciprocal or reciprocal square root.
u32 approximated_upper(Special which, u32 upper) {
  double x = std::bit_cast<double>(static_cast<u64>(upper) << 32);
  if (std::abs(x) < std::numeric_limits<double>::min()) x = std::copysign(0.0, x);
  const double y = which == Special::rcp64h ? 1 / x : 1 / std::sqrt(x);
  if (std::isnan(y)) return 0x7fffffff;
  if (std::abs(y) < std::numeric_limits<double>::min()) return std::bit_cast<u64>(std::copysign(0.0, y)) >> 32;
  if (std::isinf(y)) return static_cast<u32>(std::bit_cast<u64>(y) >> 32);
  return static_cast<u32>((std::bit_cast<u64>(y) + 0x80000000u) >> 32);
}

// Whether a / b needs more than the short sequence of multiply-adds. Choosing the long way too often costs only time:
// both round correctly.
bool needs_long_division(float a, float b) {
  const auto exponent = [](float x) { return static_cast<int>(std::bit_cast<u32>(x) >> 23 & 0xff); };
  const int ea = exponent(a), eb = exponent(b);
  return eb == 0 || eb >= 252 || ea == 255 || ea < 26 || ea - eb > 125 || ea - eb < -124;
}

// The magnitude of an integer, rounded to a float or double in the given mode.
template <class T>
T rounded(u64 magnitude, bool negative, Rounding mode) {
  constexpr int digits = std::numeric_limits<T>::digits;
  const int over = 64 - std::countl_zero(magnitude) - digits;
  T value = 0;
  if (over <= 0) {
    value = static_cast<T>(magnitude);
  } else {
    u64 kept = magnitude >> over;
    const u64 rest = magnitude & ((u64{1} << over) - 1), half = u64{1} << (over - 1);
    const bool away = (mode == Rounding::up && !negative) || (mode == Rounding::down && negative);
    if (mode == Rounding::nearest ? rest > half || (rest == half && (kept & 1) != 0) : away && rest != 0) ++kept;
    value = std::ldexp(static_cast<T>(kept), over);
  }
  return negative ? -value : value;
}

double to_whole(double x, Rounding mode) {
  switch (mode) {
    case Rounding::zero:
      return std::trunc(x);
    case Rounding::down:
      return std::floor(x);
    case Rounding::up:
      return std::ceil(x);
    case Rounding::nearest:
      return std::nearbyint(x);
  }
  return x;
}

u64 to_integer(double x, const Instruction& i) {
  const bool is_signed = i.type.kind == Type::Kind::signed_integer;
  if (std::isnan(x)) return i.nan_to_zero ? 0 : u64{1} << (std::max<unsigned>(i.type.bits, 32) - 1);
  const double whole = to_whole(x, i.rounding);
  const double limit = std::ldexp(1.0, i.type.bits - (is_signed ? 1 : 0));
  const u64 greatest = (~u64{0} >> (64 - i.type.bits)) >> (is_signed ? 1 : 0);
  if (whole >= limit) return greatest;
  if (!is_signed) return whole <= 0 ? 0 : static_cast<u64>(whole);
  return whole <= -limit ? 0 - static_cast<u64>(limit) : static_cast<u64>(static_cast<std::int64_t>(whole));
}

void convert_from_integers(const Instruction& i, Warp& warp, const Surroundings& around, Mask active) {
  Longs raw;
  Row<double> wide;
  Row<float> narrow;
  if (i.source.bits == 64) {
    read_signed_long(i.from[0], warp, around, raw);
  } else {
    Words place;
    const Words& words = read_integer(i.from[0], warp, around, place);
    for (int l = 0; l < lanes; ++l)
      raw[l] = i.source.kind == Type::Kind::signed_integer
                   ? static_cast<u64>(static_cast<std::int64_t>(static_cast<std::int32_t>(words[l])))
                   : words[l];
  }
  for (int l = 0; l < lanes; ++l) {
    const bool negative = i.source.kind == Type::Kind::signed_integer && static_cast<std::int64_t>(raw[l]) < 0;
    const u64 magnitude = negative ? 0 - raw[l] : raw[l];
    wide[l] = i.type.bits == 64 ? rounded<double>(magnitude, negative, i.rounding) : 0;
    narrow[l] = i.type.bits == 32 ? rounded<float>(magnitude, negative, i.rounding) : 0;
  }
  if (i.type.bits == 64)
    write_double(i.to, warp, wide, active);
  else
    write_float(i.to, warp, narrow, active);
}

void run_f32(const Instruction& i, Warp& warp, const Surroundings& around, Mask active) {
  Row<float> a, b, c, result;
  read_float(i.from[0], warp, around, a);
  read_float(i.from[1], warp, around, b);
  if (i.op == Op::f32_multiply_add) read_float(i.from[2], warp, around, c);
  if (i.flush) {
    flush(a);
    flush(b);
    if (i.op == Op::f32_multiply_add) flush(c);
  }
  const Mask predicate = read_predicate(i.from_predicate[0], warp, all_lanes);
  if (i.op == Op::f32_compare) {
    const Mask holds = compared(i.compare, a, b);
    write_predicate(i.to_predicate, warp, combined(i.combine, holds, predicate), active);
    write_predicate(i.to_predicate2, warp, combined(i.combine, ~holds, predicate), active);
    return;
  }
  {
    const RoundingMode mode(i.rounding);
    if (i.op == Op::f32_add) add(a, b, result);
    if (i.op == Op::f32_multiply) multiply(a, b, result);
    if (i.op == Op::f32_multiply_add) multiply_add(a, b, c, result);
  }
  if (i.op == Op::f32_select)
    for (int l = 0; l < lanes; ++l) result[l] = (predicate >> l & 1) != 0 ? a[l] : b[l];
  if (i.op == Op::f32_min_max)
    for (int l = 0; l < lanes; ++l) result[l] = smaller(a[l], b[l], (predicate >> l & 1) != 0);
  if (i.flush) flush(result);
  if (i.saturate)
    for (int l = 0; l < lanes; ++l) result[l] = result[l] > 0 ? std::min(result[l], 1.0f) : 0.0f;  // NaN becomes 0
  write_float(i.to, warp, result, active);
}

void run_f64(const Instruction& i, Warp& warp, const Surroundings& around, Mask active) {
  Row<double> a, b, c, result;
  read_double(i.from[0], warp, around, a);
  read_double(i.from[1], warp, around, b);
  if (i.op == Op::f64_multiply_add) read_double(i.from[2], warp, around, c);
  const Mask predicate = read_predicate(i.from_predicate[0], warp, all_lanes);
  if (i.op == Op::f64_compare) {
    const Mask holds = compared(i.compare, a, b);
    write_predicate(i.to_predicate, warp, combined(i.combine, holds, predicate), active);
    write_predicate(i.to_predicate2, warp, combined(i.combine, ~holds, predicate), active);
    return;
  }
  if (i.op == Op::f64_min) {
    // DSETP.MIN, the first instruction of a minimum. The first predicate selects a, which is also right if only b is
    // NaN; the second means that both are NaN, and the code that follows then makes the NaN quiet.
    const Mask nan_a = mask_where([&](int l) { return std::isnan(a[l]); }),
               nan_b = mask_where([&](int l) { return std::isnan(b[l]); });
    const Mask less = mask_where([&](int l) { return a[l] < b[l] || (a[l] == b[l] && std::signbit(a[l])); });
    write_predicate(i.to_predicate, warp, combined(i.combine, less | (nan_b & ~nan_a), predicate), active);
    write_predicate(i.to_predicate2, warp, combined(i.combine, nan_a & nan_b, predicate), active);
    return;
  }
  {
    const RoundingMode mode(i.rounding);
    if (i.op == Op::f64_add) add(a, b, result);
    if (i.op == Op::f64_multiply) multiply(a, b, result);
    if (i.op == Op::f64_multiply_add) multiply_add(a, b, c, result);
  }
  write_double(i.to, warp, result, active);
}

}  // namespace

bool run_floats(const Instruction& i, Warp& warp, const Surroundings& around, Mask active) {
  switch (i.op) {
    case Op::f32_add:
    case Op::f32_multiply:
    case Op::f32_multiply_add:
    case Op::f32_compare:
    case Op::f32_select:
    case Op::f32_min_max:
      run_f32(i, warp, around, active);
      return true;
    case Op::f64_add:
    case Op::f64_multiply:
    case Op::f64_multiply_add:
    case Op::f64_compare:
    case Op::f64_min:
      run_f64(i, warp, around, active);
      return true;
    case Op::special: {
      Row<float> value;
      read_float(i.from[0], warp, around, value);
      if (i.special == Special::rcp64h || i.special == Special::rsq64h) {
        Words words = std::bit_cast<Words>(value);
        for (int l = 0; l < lanes; ++l) words[l] = approximated_upper(i.special, words[l]);
        write_word(i.to, warp, words, active);
        return true;
      }
      flush(value);  // the unit does not support subnormal numbers
      for (int l = 0; l < lanes; ++l) value[l] = approximated(i.special, value[l]);
      flush(value);
      write_float(i.to, warp, value, active);
      return true;
    }
    case Op::check_division: {
      Row<float> a, b;
      read_float(i.from[0], warp, around, a);
      read_float(i.from[1], warp, around, b);
      write_predicate(i.to_predicate, warp, mask_where([&](int l) { return needs_long_division(a[l], b[l]); }), active);
      return true;
    }
    case Op::int_to_float:
      convert_from_integers(i, warp, around, active);
      return true;
    case Op::float_to_int: {
      Row<double> wide;
      if (i.source.bits == 64) {
        read_double(i.from[0], warp, around, wide);
      } else {
        Row<float> narrow;
        read_float(i.from[0], warp, around, narrow);
        if (i.flush) flush(narrow);
        for (int l = 0; l < lanes; ++l) wide[l] = static_cast<double>(narrow[l]);
      }
      Longs result;
      for (int l = 0; l < lanes; ++l) result[l] = to_integer(wide[l], i);
      if (i.type.bits == 64) {
        write_long(i.to, warp, result, active);
      } else {
        Words words;
        for (int l = 0; l < lanes; ++l) words[l] = static_cast<u32>(result[l]);
        write_word(i.to, warp, words, active);
      }
      return true;
    }
    case Op::float_to_float: {
      Row<double> wide;
      Row<float> narrow;
      if (i.source.bits == 64) {
        read_double(i.from[0], warp, around, wide);
      } else {
        read_float(i.from[0], warp, around, narrow);
        if (i.flush) flush(narrow);
        for (int l = 0; l < lanes; ++l) wide[l] = static_cast<double>(narrow[l]);
      }
      if (i.type.bits == 64) {
        write_double(i.to, warp, wide, active);
        return true;
      }
      {
        const RoundingMode mode(i.rounding);
        narrowed(wide, narrow);
      }
      if (i.flush) flush(narrow);
      write_float(i.to, warp, narrow, active);
      return true;
    }
    case Op::round: {
      Row<double> wide;
      Row<float> narrow;
      if (i.type.bits == 64) {
        read_double(i.from[0], warp, around, wide);
      } else {
        read_float(i.from[0], warp, around, narrow);
        if (i.flush) flush(narrow);
        for (int l = 0; l < lanes; ++l) wide[l] = static_cast<double>(narrow[l]);
      }
      for (int l = 0; l < lanes; ++l) wide[l] = to_whole(wide[l], i.rounding);
      for (int l = 0; l < lanes; ++l) narrow[l] = static_cast<float>(wide[l]);
      if (i.type.bits == 64)
        write_double(i.to, warp, wide, active);
      else
        write_float(i.to, warp, narrow, active);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace weft::machine_code
