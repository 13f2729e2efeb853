// Loads, stores, atomics and copies.
#include "decoder.hpp"

namespace weft::machine_code {

void Decoder::access(Op op, Space space) {
  set(op, Pipe::memory);
  i_.space = space;
  i_.type = u32;
  i_.bytes = 4;
  if (const auto type = one_of<Type>({{"U8", {Type::Kind::unsigned_integer, 8}},
                                      {"S8", {Type::Kind::signed_integer, 8}},
                                      {"U16", {Type::Kind::unsigned_integer, 16}},
                                      {"S16", {Type::Kind::signed_integer, 16}}})) {
    i_.type = *type;
    i_.bytes = static_cast<std::uint8_t>(type->bits / 8);
  }
  if (has("64")) i_.bytes = 8;
  if (has("128")) i_.bytes = 16;
  i_.constant = has("CONSTANT");
  // Caching and the scope of ordering have no effect: the emulator runs one block after the other and has no caches.
  ignore({"E", "STRONG", "WEAK", "CTA", "SM", "GPU", "SYS", "EF", "EL", "LU", "EU", "NA", "LTC64B", "LTC128B",
          "LTC256B", "PRIVATE"});
}

void Decoder::atomic_type() {
  i_.type = u32;
  if (has("F64")) i_.type = f64;
  if (has("F32")) i_.type = f32;
  if (has("64")) i_.type = {Type::Kind::unsigned_integer, 64};
  if (has("U32")) i_.type = u32;
  if (has("S32")) i_.type = s32;
  if (has("U64")) i_.type = {Type::Kind::unsigned_integer, 64};
  if (has("S64")) i_.type = {Type::Kind::signed_integer, 64};
  if (i_.type.kind == Type::Kind::floating) {
    rounding();
    i_.flush = has("FTZ");
    if (i_.rounding != Rounding::nearest || i_.atomic != Atomic::add) throw Unknown{};
  }
  i_.bytes = i_.type.bits / 8;
}

void Decoder::atomic(Space space, bool fetches) {
  set(Op::atomic, Pipe::memory);
  i_.space = space;
  i_.fetches = fetches;
  ignore({"E", "STRONG", "CTA", "SM", "GPU", "SYS"});
  i_.atomic = need(one_of<Atomic>({{"ADD", Atomic::add},
                                   {"MIN", Atomic::min},
                                   {"MAX", Atomic::max},
                                   {"AND", Atomic::conjunction},
                                   {"OR", Atomic::disjunction},
                                   {"XOR", Atomic::exclusive},
                                   {"EXCH", Atomic::exchange},
                                   {"INC", Atomic::increment},
                                   {"DEC", Atomic::decrement},
                                   {"CAS", Atomic::compare_swap}}));
  atomic_type();
  const std::uint32_t words = i_.bytes / 4;
  if (fetches) {
    if (at_predicate() && predicate(next()).reg != 7) throw Unknown{};
    i_.to = destination(words);
  }
  memory_address(next());
  i_.from[0] = integer(words);
  if (i_.atomic == Atomic::compare_swap) i_.from[1] = integer(words);
}

bool Decoder::memory(const std::string& name) {
  set(Op::nop, Pipe::memory);
  const auto words = [&] { return std::max<std::uint32_t>(1, i_.bytes / 4); };
  if (name == "LDC" || name == "ULDC") {
    access(Op::load_constant, Space::global);
    i_.to = destination(words());
    i_.from[0] = integer(words());
    if (i_.from[0].kind != Kind::constant) return false;
  } else if (name == "LDG" || name == "LDS" || name == "LDL") {
    access(Op::load, name == "LDG" ? Space::global : name == "LDS" ? Space::shared : Space::local);
    i_.to = destination(words());
    memory_address(next());
  } else if (name == "STG" || name == "STS" || name == "STL") {
    access(Op::store, name == "STG" ? Space::global : name == "STS" ? Space::shared : Space::local);
    memory_address(next());
    i_.from[0] = integer(words());
  } else if (name == "RED" || name == "REDG") {
    atomic(Space::global, false);
  } else if (name == "ATOMG") {
    atomic(Space::global, true);
  } else if (name == "ATOMS") {
    atomic(Space::shared, true);
  } else if (name == "LDGSTS") {
    access(Op::copy_async, Space::shared);
    ignore({"BYPASS", "ACCESS"});
    memory_address(next());
    i_.from[0] = i_.address;
    i_.address = {};
    i_.space = Space::global;
    memory_address(next());
    i_.space = Space::shared;
  } else if (name == "UBLKPF") {  // consecutive bytes, once per warp
    set(Op::prefetch, Pipe::memory);
    if (!has("L2")) return false;
    i_.on_uniform = true;
    std::string begin = next();
    if (!take(begin, "[UR") || !take_end(begin, "]")) return false;
    i_.from[0] = source("UR" + begin, Reads::integer, 2);
    i_.from[1] = integer();
  } else if (name == "CCTL" && has("IVALL")) {  // empties the L1, which the emulator does not have
    return operands_.empty();
  } else if (name == "CCTL") {  // the line of 128 bytes at each thread's address
    set(Op::prefetch, Pipe::memory);
    if (!has("PF2")) return false;
    ignore({"E"});
    memory_address(next());
  } else if (name == "LDGDEPBAR") {
    i_.op = Op::copy_group;
  } else if (name == "DEPBAR") {
    if (has("LE")) {
      i_.op = Op::copy_wait;
      next();  // number of the scoreboard: SB0 belongs to asynchronous copies
      i_.mask = value();
    } else {
      operands_.clear();
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::machine_code
