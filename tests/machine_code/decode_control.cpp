// Branches, calls, convergence and barriers.
#include "decoder.hpp"

namespace weft::machine_code {

bool Decoder::control(const std::string& name) {
  set(Op::nop, Pipe::control);
  if (name == "NOP") return true;
  if (name == "YIELD" || name == "ERRBAR" || name == "NANOSLEEP" || name == "MEMBAR") {
    suffixes_.clear();  // no effect in an emulator that executes sequentially
    operands_.clear();
    return true;
  }
  if (name == "BRA") {
    i_.op = has("DIV") ? Op::branch_if_divergent : Op::branch;
    has("U");
    i_.from_predicate[0] = {};
    if (i_.op == Op::branch_if_divergent)
      i_.from[0] = integer();
    else if (at_predicate())
      i_.from_predicate[0] = predicate(next());
    i_.target = label(next());
  } else if (name == "BRX" || name == "BRXU") {
    i_.op = Op::branch_indexed;  // "R4 -0xe0", "UR4 -0xe0": register pair, offset from the next instruction
    std::string text = next();
    const std::size_t space = text.find(' ');
    i_.from[0] = source(text.substr(0, space), Reads::integer, 2);
    i_.mask = line_.address + 16;
    if (space != text.npos) i_.mask += static_cast<std::uint32_t>(hexadecimal(text.substr(text.rfind(' ') + 1)));
  } else if (name == "CALL") {
    i_.op = Op::call;
    if (!has("REL") || !has("NOINC")) return false;
    i_.target = label(next());
  } else if (name == "RET") {
    i_.op = Op::ret;  // "R4 `(function)": to the function's address + R4
    if (!has("REL") || !has("NODEC")) return false;
    std::string text = next();
    const std::size_t space = text.find(' ');
    if (space == text.npos) return false;
    i_.from[0] = source(text.substr(0, space), Reads::integer, 2);
    i_.mask = 16 * label(text.substr(space + 1));
  } else if (name == "EXIT") {
    i_.op = Op::exit;
    if (at_predicate()) i_.from_predicate[0] = predicate(next());
  } else if (name == "BSSY") {
    i_.op = Op::sync_set;
    i_.barrier = convergence_barrier();
    i_.target = label(next());
  } else if (name == "BSYNC") {
    i_.op = Op::sync;
    i_.barrier = convergence_barrier();
  } else if (name == "BREAK") {
    i_.op = Op::sync_leave;
    if (at_predicate()) i_.from_predicate[0] = predicate(next());
    i_.barrier = convergence_barrier();
  } else if (name == "BMOV") {
    if (!has("32")) return false;
    i_.wrap = has("CLEAR");
    if (!operands_.empty() && operands_.front().starts_with('B')) {
      i_.op = Op::sync_write;
      i_.barrier = convergence_barrier();
      i_.from[0] = integer();
    } else {
      i_.op = Op::sync_read;
      i_.to = destination();
      i_.barrier = convergence_barrier();
    }
  } else if (name == "WARPSYNC") {
    i_.op = Op::warp_sync;
    i_.acquires_all = has("ALL");
    const bool collective = has("COLLECTIVE");
    if (!i_.acquires_all) i_.from[0] = integer();
    if (collective) i_.target = label(next());  // where lanes that are together continue; here the next instruction
  } else if (name == "BAR") {
    i_.op = Op::barrier;
    if (!has("SYNC")) return false;
    has("DEFER_BLOCKING");
    if (value() != 0 || !operands_.empty()) return false;
  } else if (name == "BPT") {
    i_.op = Op::trap;
    if (!has("TRAP")) return false;
    operands_.clear();
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::machine_code
