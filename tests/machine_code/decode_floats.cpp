// Floating point and conversions.
#include "decoder.hpp"

namespace weft::machine_code {

void Decoder::floating(Op op, Pipe pipe, Reads reads, int count) {
  set(op, pipe);
  i_.flush = has("FTZ");
  i_.saturate = has("SAT");
  rounding();
  i_.to = destination(reads == Reads::f64 ? 2 : 1);
  for (int k = 0; k < count; ++k) i_.from[static_cast<std::size_t>(k)] = source(next(), reads);
}

void Decoder::floating_compare(Op op, Pipe pipe, Reads reads) {
  set(op, pipe);
  i_.flush = has("FTZ");
  if (reads == Reads::f64 && has("MIN")) {
    i_.op = Op::f64_min;
  } else {
    i_.compare = comparison();
  }
  combining();
  i_.to_predicate = destination_predicate();
  i_.to_predicate2 = destination_predicate();
  for (std::size_t k = 0; k < 2; ++k) i_.from[k] = source(next(), reads);
  i_.from_predicate[0] = predicate(next());
}

bool Decoder::floats(const std::string& name) {
  set(Op::nop, Pipe::f32);
  if (name == "FADD") {
    floating(Op::f32_add, Pipe::f32, Reads::f32, 2);
  } else if (name == "FMUL") {
    floating(Op::f32_multiply, Pipe::f32, Reads::f32, 2);
  } else if (name == "FFMA") {
    floating(Op::f32_multiply_add, Pipe::f32, Reads::f32, 3);
  } else if (name == "FSEL") {
    floating(Op::f32_select, Pipe::f32, Reads::f32, 2);
    i_.from_predicate[0] = predicate(next());
  } else if (name == "FMNMX") {
    floating(Op::f32_min_max, Pipe::f32, Reads::f32, 2);
    i_.from_predicate[0] = predicate(next());
  } else if (name == "FSETP") {
    floating_compare(Op::f32_compare, Pipe::f32, Reads::f32);
  } else if (name == "DADD") {
    floating(Op::f64_add, Pipe::f64, Reads::f64, 2);
  } else if (name == "DMUL") {
    floating(Op::f64_multiply, Pipe::f64, Reads::f64, 2);
  } else if (name == "DFMA") {
    floating(Op::f64_multiply_add, Pipe::f64, Reads::f64, 3);
  } else if (name == "DSETP") {
    floating_compare(Op::f64_compare, Pipe::f64, Reads::f64);
  } else if (name == "MUFU") {
    i_.special = need(one_of<Special>({{"RCP", Special::rcp},
                                       {"RSQ", Special::rsq},
                                       {"SQRT", Special::sqrt},
                                       {"EX2", Special::ex2},
                                       {"LG2", Special::lg2},
                                       {"SIN", Special::sin},
                                       {"COS", Special::cos},
                                       {"TANH", Special::tanh},
                                       {"RCP64H", Special::rcp64h},
                                       {"RSQ64H", Special::rsq64h}}));
    const bool upper = i_.special == Special::rcp64h || i_.special == Special::rsq64h;
    floating(Op::special, Pipe::special, upper ? Reads::f64 : Reads::f32, 1);
    if (upper) {  // of a double, also as the form of a constant; registers hold its upper word
      i_.to.words = i_.from[0].words = 1;
      i_.from[0].low = i_.from[0].high;
    }
  } else if (name == "FCHK") {
    set(Op::check_division, Pipe::f32);
    i_.to_predicate = destination_predicate();
    i_.from[0] = source(next(), Reads::f32);
    i_.from[1] = source(next(), Reads::f32);
  } else {
    return false;
  }
  return true;
}

bool Decoder::conversions(const std::string& name) {
  if (name == "I2F" || name == "I2FP") {
    set(Op::int_to_float, name == "I2F" ? Pipe::special : Pipe::f32);
    i_.type = float_type().value_or(f32);
    i_.source = integer_type().value_or(s32);
    rounding();
    i_.to = destination(i_.type.bits / 32);
    i_.from[0] = typed_source(i_.source);
    if (i_.source.bits < 32) return false;
  } else if (name == "F2I") {
    set(Op::float_to_int, Pipe::special);
    i_.flush = has("FTZ");
    i_.nan_to_zero = has("NTZ");
    i_.rounding = one_of<Rounding>({{"TRUNC", Rounding::zero}, {"FLOOR", Rounding::down}, {"CEIL", Rounding::up}})
                      .value_or(Rounding::nearest);
    i_.type = integer_type().value_or(s32);
    i_.source = float_type().value_or(f32);
    i_.to = destination(i_.type.bits == 64 ? 2 : 1);
    i_.from[0] = typed_source(i_.source);
  } else if (name == "F2F") {
    set(Op::float_to_float, Pipe::special);
    i_.flush = has("FTZ");
    rounding();
    if (suffixes_.size() != 2) return false;
    const std::string to = suffixes_[0], from = suffixes_[1];
    suffixes_.clear();
    const auto type = [](const std::string& text) {
      if (text != "F32" && text != "F64") throw Unknown{};
      return text == "F32" ? f32 : f64;
    };
    i_.type = type(to);
    i_.source = type(from);
    i_.to = destination(i_.type.bits / 32);
    i_.from[0] = typed_source(i_.source);
  } else if (name == "FRND") {
    set(Op::round, Pipe::special);
    i_.flush = has("FTZ");
    i_.rounding = one_of<Rounding>({{"TRUNC", Rounding::zero}, {"FLOOR", Rounding::down}, {"CEIL", Rounding::up}})
                      .value_or(Rounding::nearest);
    i_.type = float_type().value_or(f32);
    i_.to = destination(i_.type.bits / 32);
    i_.from[0] = typed_source(i_.type);
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::machine_code
