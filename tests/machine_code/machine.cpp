#include "machine.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "global_memory.hpp"
#include "scoreboard.hpp"
#include "shared_memory.hpp"
#include "traffic.hpp"
#include "warp.hpp"

namespace weft::machine_code {
namespace {

constexpr unsigned turn = 1 << 16;             // instructions after which other lanes and warps get their turn
constexpr std::uint64_t endless = 1ull << 32;  // instructions of a warp after which a block is considered to hang
constexpr unsigned stack_pointer_at = 0x28;    // in constant bank 0

class Grid {
 public:
  Grid(Module& module, const std::string& name, Dimensions blocks, Dimensions threads, unsigned launch_shared,
       const std::vector<char>& parameters, const FindAllocation& find_allocation)
      : kernel_(module.kernel(name)),
        code_(module.code(name)),
        find_allocation_(find_allocation),
        blocks_(blocks),
        threads_(threads),
        shared_end_(kernel_.shared_end + launch_shared),
        executed_(code_.instructions.size()),
        lanes_executed_(code_.instructions.size()) {
    const std::uint64_t count = std::uint64_t{threads.x} * threads.y * threads.z;
    if (count == 0 || count > kernel_.max_threads || count > 1024)
      throw Fault("kernel " + name + " cannot run with " + std::to_string(count) + " threads per block");
    variables_ = {reinterpret_cast<std::uintptr_t>(module.image().variables().data()), 0};
    variables_.second = variables_.first + module.image().variables().size();

    // Bank 0: the shape of the grid, the stack, and the parameters.
    bank_.assign(std::max<std::size_t>(kernel_.constant_bytes, kernel_.parameters_at + parameters.size()), 0);
    const std::uint32_t head[] = {threads.x, threads.y, threads.z, blocks.x, blocks.y, blocks.z};
    local_bytes_ = (kernel_.local_bytes + 15) / 16 * 16;
    bank_.resize(std::max<std::size_t>(bank_.size(), stack_pointer_at + 4));
    std::memcpy(bank_.data(), head, sizeof head);
    std::memcpy(bank_.data() + stack_pointer_at, &local_bytes_, sizeof local_bytes_);
    if (!parameters.empty()) std::memcpy(bank_.data() + kernel_.parameters_at, parameters.data(), parameters.size());
    around_.constants[0] = bank_;
    around_.constants[2] = kernel_.private_constants;
    around_.constants[3] = module.image().constants(3);
    around_.constants[4] = module.image().constants(4);
    around_.threads[0] = threads.x;
    around_.threads[1] = threads.y;
    around_.threads[2] = threads.z;
    warps_.resize((count + lanes - 1) / lanes);
  }

  Counters run() {
    for (unsigned z = 0; z < blocks_.z; ++z)
      for (unsigned y = 0; y < blocks_.y; ++y)
        for (unsigned x = 0; x < blocks_.x; ++x) run_block(x, y, z);
    count_instructions();
    return counters_;
  }

 private:
  unsigned thread_count() const { return threads_.x * threads_.y * threads_.z; }
  Mask lanes_of(const Warp& warp) const {  // also those that have returned
    const unsigned count = std::min<unsigned>(lanes, thread_count() - lanes * warp.index);
    return count == lanes ? all_lanes : (Mask{1} << count) - 1;
  }

  std::string name_of(unsigned thread) const {
    return std::string("(") + std::to_string(thread % threads_.x) + ", " +
           std::to_string(thread / threads_.x % threads_.y) + ", " + std::to_string(thread / threads_.x / threads_.y) +
           ")";
  }
  [[noreturn]] void fail(const std::string& what, unsigned thread, std::uint32_t at) const {
    char address[16];
    std::snprintf(address, sizeof address, "%04x", 16 * at);
    throw Fault("kernel " + kernel_.name + ", block (" + std::to_string(around_.block[0]) + ", " +
                std::to_string(around_.block[1]) + ", " + std::to_string(around_.block[2]) + "): thread " +
                name_of(thread) + " " + what + " (at " + address + ": " +
                (at < code_.lines.size() ? code_.lines[at].text : "") + ")");
  }
  [[noreturn]] void fail(const std::string& what, int lane) const {
    fail(what, lanes * warp_->index + static_cast<unsigned>(lane), at_);
  }

  // With the other thread, if the text ends with "of".
  [[noreturn]] void fail_with(const char* problem, unsigned other, int lane) const {
    const std::string text = problem;
    fail(text.ends_with(" of") ? text + " thread " + name_of(other) : text, lane);
  }

  void run_block(unsigned x, unsigned y, unsigned z);
  bool run_warp();
  bool run_fragment(std::size_t which);
  void release_barrier();
  [[noreturn]] void fail_waiting() const;
  void meet();
  void execute(const Instruction& i, Mask active);
  void check_defined(const Instruction& i, Mask active);
  void leave_undefined(const Instruction& i, const Longs& address, Mask active);
  void access(const Instruction& i, Mask active);
  void change_atomically(const Instruction& i, Mask active, const Longs& address);
  void copy(const Instruction& i, Mask active);
  void prefetch(const Instruction& i, Mask active);
  void close_copies(Mask active);
  void await_copies(Mask active, std::size_t left);
  Longs addresses(const Operand& operand) const;
  char* place(Space space, std::uint64_t address, unsigned bytes, int lane);
  void check_shared(bool writes, bool atomic, std::uint64_t address, unsigned bytes, int lane);
  void check_global(const Instruction& i, std::uint64_t address, int lane);
  void count_global(bool writes, const Longs& address, unsigned bytes, Mask active);
  void count_shared(Accesses& to, const Longs& address, unsigned bytes, Mask active);
  void count_instructions();

  SharedMemory::Now now(int lane) const {
    return {
        {barriers_, warp_->syncs.count, lanes * warp_->index + static_cast<unsigned>(lane), together_, around_.clock},
        &warp_->syncs};
  }

  const Kernel& kernel_;
  const Code& code_;
  const FindAllocation& find_allocation_;
  Dimensions blocks_, threads_;
  unsigned shared_end_;
  std::vector<char> bank_;
  std::uint32_t local_bytes_ = 0;
  std::pair<std::uintptr_t, std::uintptr_t> variables_, known_{0, 0};
  Surroundings around_;
  SharedMemory shared_;
  GlobalMemory global_;
  std::vector<Warp> warps_;
  Warp* warp_ = nullptr;   // the running warp
  std::uint32_t at_ = 0;   // the current instruction
  Mask together_ = 0;      // the active lanes
  unsigned barriers_ = 0;  // number of barriers that the block has passed
  Counters counters_;
  Traffic traffic_;
  Scoreboard scoreboard_;
  std::vector<std::uint64_t> executed_, lanes_executed_;
};

void Grid::run_block(unsigned x, unsigned y, unsigned z) {
  around_.block[0] = x;
  around_.block[1] = y;
  around_.block[2] = z;
  barriers_ = 0;
  shared_.start(shared_memory_of_the_system, shared_end_, code_.shared_unit);
  for (unsigned w = 0; w < warps_.size(); ++w) {
    Warp& warp = warps_[w];
    warp.index = w;
    warp.alive = lanes_of(warp);
    if (warp.syncs.count > 0) warp.syncs = {};
    Words poison;
    poison.at.fill(0xffffffff);
    warp.registers.assign(std::max(kernel_.registers, 8u), poison);
    warp.undefined.assign(warp.registers.size(), 0);
    warp.some_undefined = false;
    warp.uniform.fill(0xffffffff);
    warp.predicates.fill(0x55555555);
    warp.uniform_predicates.fill(0);
    warp.local.assign(std::size_t{local_bytes_} * lanes, static_cast<char>(0xff));
    for (Copies& copies : warp.copies) copies = {};
    warp.fragments.assign(1, Fragment{});
    warp.fragments[0].lanes = warp.alive;
  }
  ++counters_.blocks;
  counters_.threads += thread_count();
  scoreboard_.start(warps_.size());
  const std::uint64_t begin = around_.clock;
  while (true) {
    bool left = false, ran = false;
    for (Warp& warp : warps_) {
      warp_ = &warp;
      ran |= run_warp();
      left |= warp.alive != 0;
    }
    if (!left) break;
    if (!ran) release_barrier();
    if (around_.clock - begin > endless) fail("runs without end", warp_->index * lanes, at_);
  }
  counters_.path.add(scoreboard_.finish());
  counters_.block_reads += scoreboard_.loaded_sectors();
}

// Runs fragments until all of them wait, or one has used up its turn. Returns whether anything ran.
bool Grid::run_warp() {
  auto& fragments = warp_->fragments;
  const auto can_run = [](const Fragment& f) { return f.state == Fragment::State::runs; };
  bool ran = false;
  while (true) {
    const auto next = std::find_if(fragments.begin(), fragments.end(), can_run);
    if (next == fragments.end()) return ran;
    ran = true;
    if (run_fragment(static_cast<std::size_t>(next - fragments.begin()))) continue;
    const auto tired = std::find_if(fragments.begin(), fragments.end(), can_run);
    std::rotate(tired, tired + 1, fragments.end());
    return true;
  }
}

// After a barrier or a convergence: fragments that wait together are merged, empty ones removed.
void Grid::meet() {
  auto& fragments = warp_->fragments;
  using State = Fragment::State;
  for (Fragment& first : fragments) {
    if (first.lanes == 0) continue;
    if (first.state == State::at_sync) {
      const Mask awaited = warp_->sync_masks[first.sync][std::countr_zero(first.lanes) & 31] & warp_->alive;
      Mask come = 0;
      for (const Fragment& f : fragments)
        if (f.state == State::at_sync && f.sync == first.sync && f.at == first.at) come |= f.lanes;
      if ((awaited & ~come) != 0) continue;
      for (Fragment& f : fragments) {
        const bool member =
            f.state == State::at_sync && f.sync == first.sync && f.at == first.at && (f.lanes & ~awaited) == 0;
        if (!member || &f == &first) continue;
        first.lanes |= std::exchange(f.lanes, 0);
      }
      first.state = State::runs;
      ++first.at;
    } else if (first.state == State::at_warp_sync) {
      Mask come = 0;
      for (const Fragment& f : fragments)
        if (f.state == State::at_warp_sync) come |= f.lanes;
      const Mask awaited = first.awaited & warp_->alive;
      if ((awaited & ~come) != 0) continue;
      for (Fragment& f : fragments) {
        if (f.state != State::at_warp_sync || (f.lanes & ~awaited) != 0 || f.at != first.at || &f == &first) continue;
        first.lanes |= std::exchange(f.lanes, 0);
      }
      first.state = State::runs;
      ++first.at;
      warp_->syncs.add(first.lanes, first.lanes == lanes_of(*warp_));
    }
  }
  std::erase_if(fragments, [](const Fragment& f) { return f.lanes == 0; });
}

// Runs one fragment until it waits or ends; false if its turn ends before.
bool Grid::run_fragment(std::size_t which) {
  using State = Fragment::State;
  auto& fragments = warp_->fragments;
  for (unsigned n = 0; n < turn; ++n) {
    Fragment& f = fragments[which];
    at_ = f.at;
    together_ = f.lanes;
    if (at_ >= code_.instructions.size()) fail("runs past the end of the code", std::countr_zero(f.lanes));
    const Instruction& i = code_.instructions[at_];
    ++around_.clock;
    ++executed_[at_];
    lanes_executed_[at_] += static_cast<std::uint64_t>(std::popcount(f.lanes));
    scoreboard_.issue(warp_->index, i);
    const Mask active = f.lanes & read_predicate(i.guard, *warp_, all_lanes);
    const Mask chosen = active & read_predicate(i.from_predicate[0], *warp_, all_lanes);
    const int leader = std::countr_zero(active == 0 ? f.lanes : active);
    if (warp_->some_undefined) check_defined(i, active);
    // Lets the chosen lanes jump; the others continue with the next instruction.
    const auto jump = [&](Mask jumping, std::uint32_t target) {
      ++f.at;
      if (jumping == f.lanes) {
        f.at = target;
      } else if (jumping != 0) {
        f.lanes &= ~jumping;
        Fragment other;
        other.lanes = jumping;
        other.at = target;
        fragments.push_back(other);
      }
    };
    switch (i.op) {
      case Op::nop:
        ++f.at;
        break;
      case Op::branch:
        jump(chosen, i.target);
        break;
      case Op::branch_if_divergent: {
        Words place_of_mask;
        const Mask expected = read_integer(i.from[0], *warp_, around_, place_of_mask)[leader] & warp_->alive;
        jump(expected == f.lanes ? 0 : active, i.target);
        break;
      }
      case Op::branch_indexed:
      case Op::ret: {
        Longs to;
        read_long(i.from[0], *warp_, around_, to);
        if (active == 0) {
          ++f.at;
          break;
        }
        // Lanes with the same destination stay together.
        const std::uint64_t first = to[leader];
        const Mask together = mask_where([&](int l) { return to[l] == first; }) & active;
        const std::uint64_t target =
            i.op == Op::ret ? i.mask + first : static_cast<std::uint64_t>(static_cast<std::int32_t>(i.mask)) + first;
        if (target % 16 != 0 || target / 16 >= code_.instructions.size()) fail("jumps out of the code", leader);
        if (together == active) {
          jump(active, static_cast<std::uint32_t>(target / 16));
        } else {  // the others will execute this instruction again
          f.lanes &= ~together;
          Fragment other;
          other.lanes = together;
          other.at = static_cast<std::uint32_t>(target / 16);
          fragments.push_back(other);
        }
        break;
      }
      case Op::call:
        jump(active, i.target);
        break;
      case Op::exit:
        if (active != 0 && chosen != 0) {
          warp_->alive &= ~chosen;
          f.lanes &= ~chosen;
          ++f.at;
          meet();
          return true;
        }
        ++f.at;
        break;
      case Op::sync_set:
        for (int l = 0; l < lanes; ++l)
          if ((active >> l & 1) != 0) warp_->sync_masks[i.barrier][l] = active;
        ++f.at;
        break;
      case Op::sync:
        if ((warp_->sync_masks[i.barrier][std::countr_zero(f.lanes) & 31] & warp_->alive) == f.lanes) {
          ++f.at;
          break;
        }
        f.state = State::at_sync;
        f.sync = i.barrier;
        meet();
        return true;
      case Op::sync_leave: {
        for (int l = 0; l < lanes; ++l) warp_->sync_masks[i.barrier][l] &= ~chosen;
        ++f.at;
        meet();
        return true;
      }
      case Op::sync_read:
        write_word(i.to, *warp_, warp_->sync_masks[i.barrier], active);
        ++f.at;
        break;
      case Op::sync_write: {
        Words place_of_mask;
        const Words& value = read_integer(i.from[0], *warp_, around_, place_of_mask);
        for (int l = 0; l < lanes; ++l)
          if ((active >> l & 1) != 0) warp_->sync_masks[i.barrier][l] = value[l];
        ++f.at;
        break;
      }
      case Op::warp_sync: {
        if (active == 0) {
          ++f.at;
          break;
        }
        Mask awaited = warp_->alive, same = active;
        if (!i.acquires_all) {
          Words place_of_mask;
          const Words& masks = read_integer(i.from[0], *warp_, around_, place_of_mask);
          awaited = masks[leader];
          same &= mask_where([&](int l) { return masks[l] == awaited; });
        }
        if ((same & ~awaited) != 0) fail("synchronises lanes of which it is none", std::countr_zero(same & ~awaited));
        Fragment others, passing;  // lanes that synchronise with others, and lanes that do not synchronise
        others.lanes = active & ~same;
        others.at = f.at;
        passing.lanes = f.lanes & ~active;
        passing.at = f.at + 1;
        f.lanes = same;
        f.awaited = awaited;
        f.state = State::at_warp_sync;
        for (const Fragment& each : {others, passing})
          if (each.lanes != 0) fragments.push_back(each);
        meet();
        return true;
      }
      case Op::barrier:
        if (active != f.lanes) fail("leaves out a barrier that others of its warp wait at", std::countr_zero(f.lanes));
        f.state = State::at_barrier;
        return true;
      case Op::trap:
        if (active != 0) fail("runs into a trap", leader);
        ++f.at;
        break;
      default:
        if (active != 0) execute(i, active);
        ++f.at;
        break;
    }
  }
  return false;
}

void Grid::fail_waiting() const {
  for (const Warp& warp : warps_)
    for (const Fragment& f : warp.fragments)
      if (f.lanes != 0 && f.state != Fragment::State::at_barrier)
        fail("waits for lanes of its warp that never come",
             lanes * warp.index + static_cast<unsigned>(std::countr_zero(f.lanes)), f.at);
  throw Fault("kernel " + kernel_.name + ": nothing can run");
}

// If nothing can run, every thread must be at the same barrier.
void Grid::release_barrier() {
  const Fragment* first = nullptr;
  unsigned first_thread = 0;
  for (const Warp& warp : warps_) {
    for (const Fragment& f : warp.fragments) {
      if (f.state != Fragment::State::at_barrier) fail_waiting();
      const unsigned thread = lanes * warp.index + static_cast<unsigned>(std::countr_zero(f.lanes));
      if (first == nullptr) {
        first = &f;
        first_thread = thread;
      } else if (f.at != first->at) {
        fail("waits at another barrier than thread " + name_of(first_thread), thread, f.at);
      }
    }
  }
  for (const Warp& warp : warps_) {
    const Mask there = lanes_of(warp);
    if (warp.alive != there)
      fail("waits at a barrier that thread " +
               name_of(lanes * warp.index + static_cast<unsigned>(std::countr_zero(there & ~warp.alive))) +
               " never reaches: it has returned",
           first_thread, first->at);
  }
  for (Warp& warp : warps_) {
    Fragment all;
    all.lanes = warp.alive;
    all.at = warp.fragments.front().at + 1;
    warp.fragments.assign(1, all);
  }
  ++barriers_;
  ++counters_.barriers;
  scoreboard_.join();
}

void Grid::execute(const Instruction& i, Mask active) {
  try {
    const char* problem = nullptr;
    if (run_integers(i, *warp_, around_, active) || run_floats(i, *warp_, around_, active)) return;
    if (run_between_threads(i, *warp_, around_, active, problem)) {
      if (problem != nullptr) fail(problem, std::countr_zero(active));
      // No lane of the warp passes a product of matrices before all have come to it with their values.
      if (i.op == Op::f64_matrix) warp_->syncs.add(active, true);
      return;
    }
    access(i, active);
  } catch (const OutOfBounds& out) {
    fail(std::string("reads outside of ") + out.what, out.lane);
  }
}

// A wide load may include words of shared memory that were never written, if nothing uses them: compilers merge loads
// before they know which words are needed. Afterwards the instruction's own result is defined.
void Grid::check_defined(const Instruction& i, Mask active) {
  std::vector<Mask>& undefined = warp_->undefined;
  const auto check = [&](const Operand& operand) {
    const bool indexed = operand.kind == Operand::Kind::constant || operand.kind == Operand::Kind::address;
    if ((operand.kind != Operand::Kind::reg && !indexed) || operand.reg == 255) return;
    const unsigned words = indexed ? (operand.wide ? 2 : 1) : operand.words;
    for (unsigned w = 0; w < words; ++w)
      if (const Mask used = undefined[operand.reg + w] & active; used != 0)
        fail("uses what a wide load read of shared memory that nothing was written to", std::countr_zero(used));
  };
  for (const Operand& operand : i.from) check(operand);
  check(i.address);
  if (i.to.kind != Operand::Kind::reg || i.to.reg == 255) return;
  for (unsigned w = 0; w < i.to.words; ++w) undefined[i.to.reg + w] &= ~active;
  warp_->some_undefined = std::ranges::any_of(undefined, [](Mask lanes) { return lanes != 0; });
}
void Grid::leave_undefined(const Instruction& i, const Longs& address, Mask active) {
  if (i.to.reg == 255) return;
  for (int l = 0; l < lanes; ++l)
    for (unsigned w = 0; (active >> l & 1) != 0 && w < i.bytes / 4u; ++w)
      if (shared_.unwritten((address[l] & 0xffffffffu) + 4 * w, 4)) {
        warp_->undefined[i.to.reg + w] |= Mask{1} << l;
        warp_->some_undefined = true;
      }
}

Longs Grid::addresses(const Operand& operand) const {
  Longs address;
  const Warp& warp = *warp_;
  const auto words = [&](std::uint16_t reg) -> const Words& { return reg == 255 ? zeros() : warp.registers[reg]; };
  const Words &low = words(operand.reg),
              &high = operand.wide && operand.reg != 255 ? warp.registers[operand.reg + 1u] : zeros();
  std::uint64_t common = static_cast<std::uint64_t>(static_cast<std::int64_t>(operand.offset));
  if (operand.uniform != 63) {
    common += warp.uniform[operand.uniform];
    if (operand.uniform_wide) common += static_cast<std::uint64_t>(warp.uniform[operand.uniform + 1u]) << 32;
  }
  for (int l = 0; l < lanes; ++l) address[l] = (low[l] | static_cast<std::uint64_t>(high[l]) << 32) + common;
  return address;
}

void Grid::check_shared(bool writes, bool atomic, std::uint64_t address, unsigned bytes, int lane) {
  unsigned other = 0;
  const SharedMemory::Now when = now(lane);
  const char* problem =
      writes ? shared_.write(address, bytes, when, atomic, other) : shared_.read(address, bytes, when, other);
  if (problem != nullptr) fail_with(problem, other, lane);
}

void Grid::check_global(const Instruction& i, std::uint64_t address, int lane) {
  if (i.bytes < 4) return;  // not followed
  const GlobalMemory::Access who{static_cast<std::uint32_t>(counters_.blocks), static_cast<std::uint16_t>(barriers_),
                                 static_cast<std::uint16_t>(now(lane).thread)};
  unsigned other = 0;
  const bool writes = i.op == Op::store || i.op == Op::atomic;
  const char* problem = writes ? global_.write(address, i.bytes, who, i.op == Op::atomic, other)
                               : global_.read(address, i.bytes, who, i.constant, other);
  if (problem != nullptr) fail_with(problem, other, lane);
}

// The host address of the bytes, after all checks except those of memory's contents.
char* Grid::place(Space space, std::uint64_t address, unsigned bytes, int lane) {
  if (space != Space::global) address &= 0xffffffffu;
  if (address % bytes != 0) fail("uses a misaligned address", lane);
  if (space == Space::shared) {
    if (!shared_.holds(address, bytes)) fail("uses shared memory that is not the kernel's", lane);
    return shared_.at(address);
  }
  if (space == Space::local) {
    if (address + bytes > local_bytes_) fail("uses local memory that is not the thread's", lane);
    return warp_->local.data() + static_cast<std::size_t>(lane) * local_bytes_ + address;
  }
  const auto within = [&](const std::pair<std::uintptr_t, std::uintptr_t>& range) {
    return address >= range.first && address < range.second && bytes <= range.second - address;
  };
  if (!within(known_) && !within(variables_)) {
    known_ = find_allocation_(address);
    if (!within(known_)) {
      char hexadecimal[24];
      std::snprintf(hexadecimal, sizeof hexadecimal, "0x%llx", static_cast<unsigned long long>(address));
      fail("uses global memory outside of every allocation, " + std::string(hexadecimal), lane);
    }
  }
  return reinterpret_cast<char*>(address);
}

void Grid::access(const Instruction& i, Mask active) {
  if (i.op == Op::copy_group) return close_copies(active);
  if (i.op == Op::copy_wait) return await_copies(active, i.mask);
  if (i.op == Op::copy_async) return copy(i, active);
  if (i.op == Op::prefetch) return prefetch(i, active);
  const unsigned words = std::max(1, i.bytes / 4);
  if (i.op == Op::load_constant) {
    if (i.bytes < 4) fail("reads part of a word of constant memory, which is not emulated", std::countr_zero(active));
    Words value[4];
    for (unsigned w = 0; w < words; ++w) value[w] = Words(read_word(i.from[0], *warp_, around_, value[w], w));
    for (unsigned w = 0; w < words; ++w) write_word(i.to, *warp_, value[w], active, w);
    return;
  }
  const Longs address = addresses(i.address);
  if (i.op == Op::atomic) return change_atomically(i, active, address);
  const bool writes = i.op == Op::store;
  if (i.space == Space::global) count_global(writes, address, i.bytes, active);
  if (i.space == Space::shared)
    count_shared(writes ? counters_.shared_stores : counters_.shared_loads, address, i.bytes, active);

  Words value[4];
  if (writes)
    for (unsigned w = 0; w < words; ++w) {
      Words value_place;
      value[w] = read_word(i.from[0], *warp_, around_, value_place, w);
    }
  for (int l = 0; l < lanes; ++l) {
    if ((active >> l & 1) == 0) continue;
    char* bytes = place(i.space, address[l], i.bytes, l);
    if (i.space == Space::shared) check_shared(writes, false, address[l] & 0xffffffffu, i.bytes, l);
    if (i.space == Space::global) check_global(i, address[l], l);
    if (writes) {
      for (unsigned w = 0; w < words; ++w) std::memcpy(bytes + 4 * w, &value[w][l], std::min<unsigned>(4, i.bytes));
    } else if (i.bytes < 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes, i.bytes);
      const unsigned unused = 32u - i.type.bits;
      if (i.type.kind == Type::Kind::signed_integer)
        word = static_cast<std::uint32_t>(static_cast<std::int32_t>(word << unused) >> unused);
      value[0][l] = word;
    } else {
      for (unsigned w = 0; w < words; ++w) std::memcpy(&value[w][l], bytes + 4 * w, 4);
    }
  }
  if (writes) return;
  for (unsigned w = 0; w < words; ++w) write_word(i.to, *warp_, value[w], active, w);
  if (i.space == Space::shared && i.bytes > code_.shared_unit) leave_undefined(i, address, active);
}

template <class T>
T changed(Atomic how, T old, T with, T compare) {
  switch (how) {
    case Atomic::add:
      return old + with;
    case Atomic::min:
      return std::min(old, with);
    case Atomic::max:
      return std::max(old, with);
    case Atomic::exchange:
      return with;
    case Atomic::increment:
      return old >= with ? T(0) : old + T(1);
    case Atomic::decrement:
      return old == T(0) || old > with ? with : old - T(1);
    case Atomic::compare_swap:
      return old == compare ? with : old;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (how == Atomic::conjunction) return old & with;
    if (how == Atomic::disjunction) return old | with;
    if (how == Atomic::exclusive) return old ^ with;
  }
  return old;
}
template <class T>
std::uint64_t change(char* at, Atomic how, std::uint64_t with, std::uint64_t compare) {
  T old, value, other;
  std::memcpy(&old, at, sizeof old);
  std::memcpy(&value, &with, sizeof value);
  std::memcpy(&other, &compare, sizeof other);
  const T result = changed(how, old, value, other);
  std::memcpy(at, &result, sizeof result);
  std::uint64_t before = 0;
  std::memcpy(&before, &old, sizeof old);
  return before;
}

void Grid::change_atomically(const Instruction& i, Mask active, const Longs& address) {
  if (i.space == Space::global) count_global(true, address, i.bytes, active);
  if (i.space == Space::shared) count_shared(counters_.shared_stores, address, i.bytes, active);
  Longs first, second, before{};
  read_long(i.from[0], *warp_, around_, first);
  read_long(i.from[1], *warp_, around_, second);
  const bool swaps = i.atomic == Atomic::compare_swap;
  for (int l = 0; l < lanes; ++l) {
    if ((active >> l & 1) == 0) continue;
    char* at = place(i.space, address[l], i.bytes, l);
    if (i.space == Space::shared) {
      const std::uint64_t where = address[l] & 0xffffffffu;
      if (shared_.unwritten(where, i.bytes)) fail("reads shared memory that nothing was written to", l);
      check_shared(true, true, where, i.bytes, l);
    } else {
      check_global(i, address[l], l);
    }
    const std::uint64_t with = swaps ? second[l] : first[l], compare = swaps ? first[l] : 0;
    const bool floating = i.type.kind == Type::Kind::floating, is_signed = i.type.kind == Type::Kind::signed_integer;
    if (i.bytes == 8)
      before[l] = floating    ? change<double>(at, i.atomic, with, compare)
                  : is_signed ? change<std::int64_t>(at, i.atomic, with, compare)
                              : change<std::uint64_t>(at, i.atomic, with, compare);
    else
      before[l] = floating    ? change<float>(at, i.atomic, with, compare)
                  : is_signed ? change<std::int32_t>(at, i.atomic, with, compare)
                              : change<std::uint32_t>(at, i.atomic, with, compare);
  }
  if (!i.fetches) return;
  if (i.bytes == 8) return write_long(i.to, *warp_, before, active);
  Words words;
  for (int l = 0; l < lanes; ++l) words[l] = static_cast<std::uint32_t>(before[l]);
  write_word(i.to, *warp_, words, active);
}

// As late as a card may do it: the copied data arrive when they are waited for.
void Grid::copy(const Instruction& i, Mask active) {
  const Longs from = addresses(i.address), to = addresses(i.from[0]);
  count_global(false, from, i.bytes, active);
  count_shared(counters_.shared_stores, to, i.bytes, active);
  for (int l = 0; l < lanes; ++l) {
    if ((active >> l & 1) == 0) continue;
    Copy made;
    made.to = static_cast<std::uint32_t>(to[l]);
    made.bytes = i.bytes;
    std::memcpy(made.value.data(), place(Space::global, from[l], i.bytes, l), i.bytes);
    check_global(i, from[l], l);
    place(Space::shared, to[l], i.bytes, l);
    unsigned other = 0;
    if (const char* problem = shared_.await(made.to, i.bytes, now(l), other)) fail_with(problem, other, l);
    warp_->copies[static_cast<std::size_t>(l)].open.push_back(made);
  }
}
void Grid::close_copies(Mask active) {
  for (int l = 0; l < lanes; ++l) {
    if ((active >> l & 1) == 0) continue;
    Copies& copies = warp_->copies[static_cast<std::size_t>(l)];
    copies.groups.push_back(std::exchange(copies.open, {}));
  }
}
void Grid::await_copies(Mask active, std::size_t left) {
  for (int l = 0; l < lanes; ++l) {
    if ((active >> l & 1) == 0) continue;
    auto& groups = warp_->copies[static_cast<std::size_t>(l)].groups;
    for (; groups.size() > left; groups.erase(groups.begin()))
      for (const Copy& each : groups.front()) {
        std::memcpy(shared_.at(each.to), each.value.data(), each.bytes);
        check_shared(true, false, each.to, each.bytes, l);
      }
  }
}

// The line of each thread's address; or 16 bytes times a uniform register, starting at the address in two other
// registers.
void Grid::prefetch(const Instruction& i, Mask active) {
  if (i.address.kind == Operand::Kind::address) {
    const Longs address = addresses(i.address);
    for (int l = 0; l < lanes; ++l) {
      if ((active >> l & 1) == 0) continue;
      place(Space::global, address[l], 1, l);
      const std::uint64_t first = address[l] / 128 * 4;
      traffic_.read(std::array{first, first + 1, first + 2, first + 3});
      scoreboard_.prefetch(first, first + 4);
    }
    return;
  }
  const int lane = std::countr_zero(active);
  Words place_of_begin, place_of_end, place_of_count;
  const std::uint64_t begin = read_word(i.from[0], *warp_, around_, place_of_begin, 0)[lane] |
                              static_cast<std::uint64_t>(read_word(i.from[0], *warp_, around_, place_of_end, 1)[lane])
                                  << 32;
  const std::uint64_t bytes = 16 * std::uint64_t{read_integer(i.from[1], *warp_, around_, place_of_count)[lane]};
  if (bytes == 0) return;
  place(Space::global, begin, 16, lane);
  place(Space::global, begin + bytes - 16, 16, lane);
  std::vector<std::uint64_t> sectors;
  for (std::uint64_t sector = begin / 32; sector <= (begin + bytes - 1) / 32; ++sector) sectors.push_back(sector);
  traffic_.read(sectors);
  scoreboard_.prefetch(sectors.front(), sectors.back() + 1);
}

void Grid::count_global(bool writes, const Longs& address, unsigned bytes, Mask active) {
  std::array<std::uint64_t, lanes> used, touched;
  std::size_t count = 0, sectors = 0;
  for (int l = 0; l < lanes; ++l)
    if ((active >> l & 1) != 0) used[count++] = address[l];
  const auto end = used.begin() + static_cast<std::ptrdiff_t>(count);
  if (!std::is_sorted(used.begin(), end)) std::sort(used.begin(), end);
  std::uint64_t different = 0, last = ~std::uint64_t{0};
  for (std::size_t k = 0; k < count; ++k) {
    different += used[k] != last;
    last = used[k];
    if (sectors == 0 || touched[sectors - 1] != last / 32) touched[sectors++] = last / 32;
  }
  const Sectors request(touched.data(), sectors);
  Accesses& to = writes ? counters_.global_stores : counters_.global_loads;
  ++to.requests;
  to.units += sectors;
  to.least += (different * bytes + 31) / 32;
  to.wavefronts += wavefronts(request);
  if (writes) return traffic_.write(request);
  traffic_.read(request);
  scoreboard_.load(request);
}

// 32 banks of four bytes; accesses of 8 and 16 bytes are served in halves and quarters of the warp.
void Grid::count_shared(Accesses& to, const Longs& address, unsigned bytes, Mask active) {
  const int words = std::max(1u, bytes / 4), together = lanes / words;
  for (int begin = 0; begin < lanes; begin += together) {
    std::array<std::uint32_t, lanes> used;
    std::size_t count = 0;
    for (int l = begin; l < begin + together; ++l)
      if ((active >> l & 1) != 0)
        for (int w = 0; w < words; ++w)
          used[count++] = static_cast<std::uint32_t>(address[l] / 4) + static_cast<std::uint32_t>(w);
    if (count == 0) continue;
    const auto end = used.begin() + static_cast<std::ptrdiff_t>(count);
    if (!std::is_sorted(used.begin(), end)) std::sort(used.begin(), end);
    std::array<std::uint8_t, 32> in_bank{};
    std::uint8_t most = 0;
    for (std::size_t k = 0; k < count; ++k)
      if (k == 0 || used[k] != used[k - 1]) most = std::max(most, ++in_bank[used[k] % 32]);
    to.units += most;
    ++to.least;
  }
  ++to.requests;
}

std::uint64_t flops_of(Op op) {
  if (op == Op::f64_matrix) return 16;  // 8 x 8 x 4 multiply-adds of 32 threads
  if (op == Op::f32_multiply_add || op == Op::f64_multiply_add) return 2;
  return op == Op::f32_add || op == Op::f32_multiply || op == Op::f64_add || op == Op::f64_multiply ? 1 : 0;
}

void Grid::count_instructions() {
  ++counters_.launches;
  for (std::size_t k = 0; k < executed_.size(); ++k) {
    if (executed_[k] == 0) continue;
    counters_.instructions += executed_[k];
    counters_.lane_instructions += lanes_executed_[k];
    counters_.by_pipe[static_cast<std::size_t>(code_.instructions[k].pipe)] += executed_[k];
    counters_.by_opcode[code_.lines[k].name] += executed_[k];
    counters_.flops += flops_of(code_.instructions[k].op) * lanes_executed_[k];
  }
  counters_.memory_reads = traffic_.reads;
  counters_.memory_writes = traffic_.writes;
  counters_.registers = kernel_.registers;
  counters_.shared_bytes = shared_end_ - shared_memory_of_the_system;
}

}  // namespace

const Kernel& Module::kernel(const std::string& name) const {
  const auto found = image_.kernels().find(name);
  if (found == image_.kernels().end()) throw std::runtime_error("the cubin has no kernel " + name);
  return found->second;
}

const Code& Module::code(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = codes_.find(name); found != codes_.end()) return found->second;
  if (listings_.empty()) listings_ = disassemble(image_.bytes());
  const auto listing = listings_.find(name);
  if (listing == listings_.end()) throw std::runtime_error("nvdisasm wrote nothing of the kernel " + name);
  const Kernel& of = kernel(name);
  if (16 * listing->second.lines.size() != of.code.size())
    throw std::runtime_error("nvdisasm did not write all of the kernel " + name);
  return codes_.emplace(name, decode(listing->second, of)).first->second;
}

std::vector<char> pack_parameters(const Kernel& kernel, void** arguments) {
  std::vector<char> packed;
  for (std::size_t k = 0; k < kernel.parameters.size(); ++k) {
    const Parameter& parameter = kernel.parameters[k];
    packed.resize(std::max<std::size_t>(packed.size(), parameter.offset + parameter.bytes));
    std::memcpy(packed.data() + parameter.offset, arguments[k], parameter.bytes);
  }
  return packed;
}

Counters launch(Module& module, const std::string& kernel, Dimensions blocks, Dimensions threads,
                unsigned launch_shared, const std::vector<char>& parameters, const FindAllocation& find_allocation) {
  return Grid(module, kernel, blocks, threads, launch_shared, parameters, find_allocation).run();
}

}  // namespace weft::machine_code
