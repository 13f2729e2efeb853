// Exchange between threads, and special registers.
#include <map>

#include "decoder.hpp"

namespace weft::machine_code {

void Decoder::read_special_register(const std::string& name) {
  static const std::map<std::string, Register> names{
      {"SR_TID.X", Register::tid_x},     {"SR_TID.Y", Register::tid_y},           {"SR_TID.Z", Register::tid_z},
      {"SR_CTAID.X", Register::block_x}, {"SR_CTAID.Y", Register::block_y},       {"SR_CTAID.Z", Register::block_z},
      {"SR_LANEID", Register::lane},     {"SR_CgaCtaId", Register::cluster_rank}, {"SR_CLOCKLO", Register::clock},
      {"SRZ", Register::zero},           {"SR_EQMASK", Register::eq_mask},        {"SR_LTMASK", Register::lt_mask},
      {"SR_LEMASK", Register::le_mask},  {"SR_GTMASK", Register::gt_mask},        {"SR_GEMASK", Register::ge_mask}};
  const auto found = names.find(name);
  if (found == names.end()) throw Unknown{};
  i_.reg = found->second;
}

bool Decoder::threads(const std::string& name) {
  set(Op::nop, Pipe::integer);
  if (name == "VOTE") {
    i_.op = Op::vote;
    i_.vote = need(one_of<Vote>({{"ANY", Vote::any}, {"ALL", Vote::all}, {"EQ", Vote::equal}}));
    i_.to = source("RZ", Reads::integer);
    if (!at_predicate()) i_.to = destination();
    i_.to_predicate = destination_predicate();
    i_.from_predicate[0] = predicate(next());
  } else if (name == "SHFL") {
    set(Op::shuffle, Pipe::memory);
    i_.shuffle = need(one_of<Shuffle>(
        {{"IDX", Shuffle::index}, {"UP", Shuffle::up}, {"DOWN", Shuffle::down}, {"BFLY", Shuffle::butterfly}}));
    i_.to_predicate = destination_predicate();
    i_.to = destination();
    for (Operand& operand : i_.from) operand = integer();
  } else if (name == "DMMA") {
    set(Op::f64_matrix, Pipe::tensor);
    if (!has("8x8x4")) return false;
    i_.to = destination(4);
    i_.from[0] = source(next(), Reads::f64);
    i_.from[1] = source(next(), Reads::f64);
    i_.from[2] = source(next(), Reads::f64);
    for (Operand& operand : i_.from)
      if (operand.kind != Kind::reg || operand.negative || operand.absolute) return false;
    i_.from[2].words = 4;
  } else if (name == "MATCH") {
    i_.op = Op::match;
    i_.acquires_all = has("ALL");
    if (!i_.acquires_all && !has("ANY")) return false;
    const std::uint32_t words = has("U64") ? 2 : 1;
    if (at_predicate()) i_.to_predicate = destination_predicate();
    i_.to = destination();
    i_.from[0] = integer(words);
  } else if (name == "ELECT") {
    i_.op = Op::elect;
    i_.to_predicate = destination_predicate();
    i_.to = destination();
    if (at_predicate() && predicate(next()).reg != 7) return false;
  } else if (name == "REDUX") {
    i_.op = Op::uniform_reduce;
    const bool minimum = has("MIN"), maximum = has("MAX"), sum = has("SUM"), disjunction = has("OR"),
               exclusive = has("XOR");
    i_.atomic = minimum       ? Atomic::min
                : maximum     ? Atomic::max
                : sum         ? Atomic::add
                : disjunction ? Atomic::disjunction
                : exclusive   ? Atomic::exclusive
                              : Atomic::conjunction;
    i_.type = has("S32") ? s32 : u32;
    i_.to = destination();
    i_.from[0] = integer();
  } else if (name == "R2UR") {
    i_.op = Op::to_uniform;
    if (at_predicate() && predicate(next()).reg != 7) return false;
    i_.to = destination();
    i_.from[0] = integer();
  } else if (name == "UP2UR") {
    i_.op = Op::uniform_predicates_to_register;
    i_.to = destination();
    if (next() != "UPR") return false;
    i_.from[0] = integer();
    i_.mask = value();
  } else if (name == "S2R" || name == "S2UR" || name == "CS2R") {
    i_.op = Op::read_special;
    const bool narrow = name != "CS2R" || has("32");
    i_.to = destination(narrow ? 1 : 2);
    i_.wrap = !narrow;
    read_special_register(next());
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::machine_code
