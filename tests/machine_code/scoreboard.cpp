#include "scoreboard.hpp"

namespace weft::machine_code {
namespace {

// Latencies of an H100 in clocks: global memory and L2 as measured by github.com/te42kyfo/gpu-benches (gpu-latency),
// shared memory by Luo et al., arXiv:2402.13499.
constexpr std::uint64_t global_clocks = 700, l2_clocks = 265, shared_clocks = 30;

std::uint64_t total(const Path& path) {
  return path.global * global_clocks + path.l2 * l2_clocks + path.shared * shared_clocks + path.clocks;
}
void be_after(Path& path, const Path& other) {
  if (total(other) > total(path)) path = other;
}
Path operator+(Path path, const Path& latency) {
  path.add(latency);
  return path;
}

constexpr Path from_memory{.global = 1}, from_l2{.l2 = 1}, from_shared{.shared = 1};

// The latency of the result. Arithmetic: Jia et al., arXiv:1804.06826, whose V100 has 4 clocks for FP32 and integers
// and 8 for FP64; the special function unit, conversions, special and uniform registers are rounded figures.
Path latency_of(const Instruction& i) {
  switch (i.op) {
    case Op::load:
      return from_shared;  // for global memory: an L1 hit, unless load() finds otherwise
    case Op::atomic:
      return i.space == Space::global ? from_memory : from_shared;
    case Op::load_constant:
      if (i.pipe != Pipe::uniform) return from_shared;
      break;  // to a uniform register: ptxas counts its clocks, whereas others set a dependency barrier
    case Op::shuffle:
      return from_shared;
    case Op::read_special:
      return {.clocks = 20};
    default:
      break;
  }
  switch (i.pipe) {
    case Pipe::f64:
    case Pipe::uniform:
      return {.clocks = 8};
    case Pipe::special:
      return {.clocks = 20};
    case Pipe::tensor:
      return {.clocks = 32};
    default:
      return {.clocks = 4};
  }
}

}  // namespace

template <class Do>
void Scoreboard::for_each_read(Warp& warp, const Instruction& i, Do&& wait) {
  const auto one = [&](const Operand& operand) {
    const bool indexed = operand.kind == Operand::Kind::constant || operand.kind == Operand::Kind::address;
    if ((operand.kind == Operand::Kind::reg || indexed) && operand.reg != 255)
      for (unsigned w = 0; w < (indexed ? operand.wide ? 2 : 1 : operand.words); ++w)
        wait(warp.registers[operand.reg + w]);
    if ((operand.kind == Operand::Kind::uniform || indexed) && operand.uniform != 63)
      for (unsigned w = 0; w < (indexed ? operand.uniform_wide ? 2 : 1 : operand.words); ++w)
        wait(warp.uniform[operand.uniform + w]);
    if (operand.kind == Operand::Kind::predicate && operand.reg != 7) wait(warp.predicates[operand.reg]);
    if (operand.kind == Operand::Kind::uniform_predicate && operand.reg != 7)
      wait(warp.uniform_predicates[operand.reg]);
  };
  one(i.guard);
  one(i.address);
  for (const Operand& operand : i.from) one(operand);
  for (const Operand& operand : i.from_predicate) one(operand);
}

template <class Do>
void Scoreboard::for_each_written(Warp& warp, const Instruction& i, Do&& write) {
  if (i.to.kind == Operand::Kind::reg && i.to.reg != 255)
    for (unsigned w = 0; w < i.to.words; ++w) write(warp.registers[i.to.reg + w]);
  if (i.to.kind == Operand::Kind::uniform && i.to.uniform != 63)
    for (unsigned w = 0; w < i.to.words; ++w) write(warp.uniform[i.to.uniform + w]);
  for (const Operand* to : {&i.to_predicate, &i.to_predicate2}) {
    if (to->reg == 7) continue;
    if (to->kind == Operand::Kind::predicate) write(warp.predicates[to->reg]);
    if (to->kind == Operand::Kind::uniform_predicate) write(warp.uniform_predicates[to->reg]);
  }
}

void Scoreboard::start(std::size_t warps) {
  Warp fresh;
  fresh.registers.resize(256 + 4);
  fresh.uniform.resize(64 + 4);
  fresh.predicates.resize(8);
  fresh.uniform_predicates.resize(8);
  warps_.assign(warps, fresh);
  arrivals_.clear();
  prefetched_.clear();
  issued_ = nullptr;
}

void Scoreboard::issue(unsigned warp, const Instruction& i) {
  settle();
  warp_ = &warps_[warp];
  Path at = warp_->next;
  for_each_read(*warp_, i, [&](const Path& ready) { be_after(at, ready); });
  for_each_written(*warp_, i, [&](const Path& ready) { be_after(at, ready); });
  auto& groups = warp_->groups;
  if (i.op == Op::copy_group) {
    groups.push_back(warp_->copies);
    warp_->copies = {};
  } else if (i.op == Op::copy_wait) {
    for (; groups.size() > i.mask; groups.erase(groups.begin())) be_after(at, groups.front());
  }
  issued_ = &i;
  issued_at_ = at;
  ready_ = at + latency_of(i);
  warp_->next = at + Path{.clocks = 1};
}

// Warps are emulated one after the other, so a later warp may request a sector at an earlier time.
void Scoreboard::load(Sectors sectors) {
  for (const std::uint64_t sector : sectors) {
    Path missed = issued_at_ + from_memory;
    if (const auto found = prefetched_.find(sector); found != prefetched_.end()) {
      missed = issued_at_;
      be_after(missed, found->second);
      missed.add(from_l2);
    }
    Path& arrival = arrivals_.try_emplace(sector, missed).first->second;
    if (total(missed) < total(arrival)) arrival = missed;
    be_after(ready_, arrival);
  }
}

void Scoreboard::prefetch(std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t sector = first; sector < end; ++sector) prefetched_.try_emplace(sector, issued_at_ + from_memory);
}

void Scoreboard::settle() {
  if (issued_ == nullptr) return;
  if (issued_->op == Op::copy_async)
    be_after(warp_->copies, ready_);
  else
    for_each_written(*warp_, *issued_, [&](Path& ready) { ready = ready_; });
  issued_ = nullptr;
}

void Scoreboard::join() {
  const Path all = finish();
  for (Warp& warp : warps_) warp.next = all;
}

Path Scoreboard::finish() {
  settle();
  Path last;
  for (const Warp& warp : warps_) be_after(last, warp.next);
  return last;
}

}  // namespace weft::machine_code
