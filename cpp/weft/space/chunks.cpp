#include "weft/space/chunks.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "weft/space/disjoint_sets.hpp"

namespace weft::space {
namespace {

using BlockList = std::vector<std::int64_t>;          // in the order of their execution
using Colours = std::vector<std::vector<BlockList>>;  // [colour][chunk]
using EntriesOf = std::function<std::span<const std::int32_t>(std::int64_t)>;

struct Blocked {
  std::vector<std::int64_t> cost_before;  // [blocks + 1]: of the blocks before each
  std::int64_t entries;
  const EntriesOf& entries_of;

  std::int64_t cost(Range range) const { return cost_before[range.end] - cost_before[range.begin]; }
  std::int64_t cost(std::int64_t block) const { return cost_before[block + 1] - cost_before[block]; }
  std::int64_t cost(const BlockList& chunk) const {
    std::int64_t sum = 0;
    for (const std::int64_t b : chunk) sum += cost(b);
    return sum;
  }
  // Divides a part into at most `count` chunks of equal cost.
  std::vector<Range> cut(Range part, std::int64_t count) const {
    std::vector<Range> chunks;
    std::int64_t begin = part.begin;
    for (std::int64_t c = 1; c <= count; ++c) {
      const std::int64_t before = cost_before[part.begin] + cost(part) * c / count;
      const auto end = std::ranges::upper_bound(cost_before, before) - cost_before.begin() - 1;
      if (begin < end) chunks.push_back({begin, end});
      begin = end;
    }
    return chunks;
  }
};

// The chunks by colour: each gets the first colour that none of its entries has yet. Empty if there are too few
// colours.
Colours coloured(const std::vector<Range>& chunks, const Blocked& blocks) {
  std::vector<std::uint64_t> seen(blocks.entries, 0);  // per entry: the colours of the chunks that touch it
  Colours colours;
  for (const Range& chunk : chunks) {
    const auto each_entry = [&](auto&& use) {
      for (std::int64_t b = chunk.begin; b < chunk.end; ++b)
        for (const std::int32_t entry : blocks.entries_of(b))
          if (entry >= 0) use(seen[entry]);
    };
    std::uint64_t taken = 0;
    each_entry([&](std::uint64_t of_entry) { taken |= of_entry; });
    const int colour = std::countr_one(taken);
    if (colour == 64) return {};
    if (colour == std::ssize(colours)) colours.emplace_back();
    colours[colour].emplace_back(chunk.end - chunk.begin);
    std::iota(colours[colour].back().begin(), colours[colour].back().end(), chunk.begin);
    each_entry([&](std::uint64_t& of_entry) { of_entry |= std::uint64_t{1} << colour; });
  }
  return colours;
}

// Gives each thread consecutive blocks of equal cost, and has it process them in several phases, so that no two threads
// touch the same entry in a phase.
class Phases {
 public:
  Phases(Range part, int threads, const Blocked& blocks)
      : blocks_(blocks), own_(blocks.cut(part, threads)), threads_(static_cast<int>(own_.size())) {
    find_border();
    find_patches();
  }

  // Empty if the blocks cannot be divided so among `phases`.
  Colours colours(int phases) const {
    State state{phases, std::vector<int>(border_.size(), -1),
                std::vector<std::vector<int>>(phases, std::vector<int>(contested_, -1)),
                std::vector<std::vector<std::int64_t>>(threads_, std::vector<std::int64_t>(phases, 0))};
    for (const std::vector<std::int64_t>& patch : patches_)
      if (!place(patch, state)) return {};
    return filled(state);
  }

 private:
  struct Border {
    std::int64_t block;
    int thread;
    std::vector<std::int32_t> contested;  // entries that other threads touch, too
  };
  struct State {
    int phases;
    std::vector<int> phase;                        // of the blocks of the border, in which they are processed
    std::vector<std::vector<int>> holder;          // [phase][contested entry]: the thread that touches it, or -1
    std::vector<std::vector<std::int64_t>> costs;  // [thread][phase]

    bool allows(const Border& block, int p) const {
      return std::ranges::all_of(block.contested,
                                 [&](std::int32_t c) { return holder[p][c] < 0 || holder[p][c] == block.thread; });
    }
    // The phase with the least work for the thread among those that test() allows, or -1.
    template <class Test>
    int least(int thread, const Test& test) const {
      int best = -1;
      for (int p = 0; p < phases; ++p)
        if ((best < 0 || costs[thread][p] < costs[thread][best]) && test(p)) best = p;
      return best;
    }
  };

  void find_border() {
    constexpr std::int32_t untouched = -1;  // below it: contested entries
    std::vector<std::int32_t> toucher(blocks_.entries, untouched);
    const auto each_entry = [&](auto&& use) {
      for (int t = 0; t < threads_; ++t)
        for (std::int64_t b = own_[t].begin; b < own_[t].end; ++b)
          for (const std::int32_t entry : blocks_.entries_of(b))
            if (entry >= 0) use(t, b, toucher[entry]);
    };
    each_entry([&](int t, std::int64_t, std::int32_t& by) {
      if (by == untouched)
        by = t;
      else if (by >= 0 && by != t)
        by = -2 - contested_++;
    });
    each_entry([&](int t, std::int64_t b, std::int32_t by) {
      if (by > untouched) return;
      if (border_.empty() || border_.back().block != b) border_.push_back({b, t, {}});
      border_.back().contested.push_back(-2 - by);
    });
  }

  // Blocks of the border of a thread that are connected by contested entries should be processed in the same phase.
  void find_patches() {
    DisjointSets sets(std::ssize(border_));
    std::vector<std::int64_t> last(contested_, -1);  // the last block of the thread that touches each
    for (std::int64_t i = 0; i < std::ssize(border_); ++i) {
      for (const std::int32_t c : border_[i].contested) {
        if (last[c] >= 0 && border_[last[c]].thread == border_[i].thread) sets.merge(i, last[c]);
        last[c] = i;
      }
    }
    std::vector<std::int64_t> number(border_.size(), -1);
    for (std::int64_t i = 0; i < std::ssize(border_); ++i) {
      std::int64_t& of_root = number[sets.root(i)];
      if (of_root < 0) {
        of_root = std::ssize(patches_);
        patches_.emplace_back();
      }
      patches_[of_root].push_back(i);
    }
  }

  bool place(const std::vector<std::int64_t>& patch, State& state) const {
    const int thread = border_[patch.front()].thread;
    const std::int64_t enough = blocks_.cost(own_[thread]) / state.phases;
    int phase = state.least(thread, [&](int p) {
      return std::ranges::all_of(patch, [&](std::int64_t i) { return state.allows(border_[i], p); });
    });
    for (const std::int64_t i : patch) {
      const Border& block = border_[i];
      const bool keep = phase >= 0 && state.costs[thread][phase] < enough && state.allows(block, phase);
      if (!keep) phase = state.least(thread, [&](int p) { return state.allows(block, p); });
      if (phase < 0) return false;
      state.phase[i] = phase;
      state.costs[thread][phase] += blocks_.cost(block.block);
      for (const std::int32_t c : block.contested) state.holder[phase][c] = thread;
    }
    return true;
  }

  // Adds the other blocks so that all threads have the same work in each phase, as far as possible.
  Colours filled(const State& state) const {
    std::vector<std::int64_t> level(state.phases, 0);
    std::int64_t most = 0, sum = 0;
    for (int t = 0; t < threads_; ++t) most = std::max(most, blocks_.cost(own_[t]));
    for (int p = 0; p < state.phases; ++p) {
      for (int t = 0; t < threads_; ++t) level[p] = std::max(level[p], state.costs[t][p]);
      sum += level[p];
    }
    for (int p = 0; p < state.phases && sum < most; ++p) {
      const std::int64_t more = (most - sum) / (state.phases - p);
      level[p] += more;
      sum += more;
    }
    Colours colours(state.phases);
    std::size_t next = 0;  // in border_
    for (int t = 0; t < threads_; ++t) {
      std::vector<BlockList> of_phase(state.phases);
      BlockList inside;
      std::vector<double> place(state.phases, 0);
      for (std::int64_t b = own_[t].begin; b < own_[t].end; ++b) {
        if (next < border_.size() && border_[next].block == b) {
          of_phase[state.phase[next]].push_back(b);
          place[state.phase[next++]] += static_cast<double>(b);
        } else {
          inside.push_back(b);
        }
      }
      // Phases take the others in the order of their own blocks, so that they lie together.
      std::vector<int> order(state.phases);
      std::iota(order.begin(), order.end(), 0);
      const double middle = static_cast<double>(own_[t].begin + own_[t].end) / 2;
      bool early = false;
      for (int p = 0; p < state.phases; ++p) {
        if (of_phase[p].empty()) continue;
        place[p] /= static_cast<double>(of_phase[p].size());
        early = early || place[p] < middle;
      }
      for (int p = 0; p < state.phases; ++p)
        if (of_phase[p].empty()) place[p] = static_cast<double>(early ? own_[t].end : own_[t].begin);
      std::ranges::stable_sort(order, {}, [&](int p) { return place[p]; });
      std::vector<std::int64_t> cost = state.costs[t];
      std::size_t at = 0;
      for (const std::int64_t b : inside) {
        while (at + 1 < order.size() && 2 * cost[order[at]] + blocks_.cost(b) > 2 * level[order[at]]) ++at;
        of_phase[order[at]].push_back(b);
        cost[order[at]] += blocks_.cost(b);
      }
      for (int p = 0; p < state.phases; ++p) {
        if (of_phase[p].empty()) continue;
        std::ranges::sort(of_phase[p]);
        colours[p].push_back(std::move(of_phase[p]));
      }
    }
    std::erase_if(colours, [](const auto& chunks) { return chunks.empty(); });
    return colours;
  }

  const Blocked& blocks_;
  std::vector<Range> own_;  // of the threads
  int threads_;
  std::int32_t contested_ = 0;
  std::vector<Border> border_;                      // the blocks that touch contested entries, in their order
  std::vector<std::vector<std::int64_t>> patches_;  // in border_
};

// The fraction of the time in which threads work if thread t processes chunks t, t + threads, … of each colour.
double efficiency(const Colours& colours, int threads, const Blocked& blocks) {
  double work = 0, time = 0;
  for (const auto& chunks : colours) {
    std::vector<std::int64_t> of_thread(threads, 0);
    for (std::size_t c = 0; c < chunks.size(); ++c) of_thread[c % threads] += blocks.cost(chunks[c]);
    work += static_cast<double>(std::accumulate(of_thread.begin(), of_thread.end(), std::int64_t{0}));
    time += static_cast<double>(std::ranges::max(of_thread));
  }
  return work / (time * threads);
}

Colours best_colours(Range part, int threads, const Blocked& blocks) {
  if (part.begin == part.end) return {};
  if (threads == 1) {
    BlockList all(part.end - part.begin);
    std::iota(all.begin(), all.end(), part.begin);
    return {{std::move(all)}};
  }
  // Few colours are best for the caches and need few barriers, but more colours may keep more threads busy.
  constexpr double enough = 0.95;
  Colours best;
  double most = 0;
  const auto consider = [&](Colours found) {
    const double share = found.empty() ? 0 : efficiency(found, threads, blocks);
    if (share <= most) return;
    most = share;
    best = std::move(found);
  };
  const Phases phases(part, threads, blocks);
  for (const int count : {1, 2, 3, 4, 6, 8})
    if (most < enough) consider(phases.colours(count));
  for (const int per_thread : {2, 3, 4, 6, 8, 12, 16}) {
    if (most >= enough) break;
    const std::vector<Range> chunks = blocks.cut(part, std::int64_t{per_thread} * threads);
    consider(coloured(chunks, blocks));
    if (std::ssize(chunks) == part.end - part.begin) break;
  }
  if (best.empty())
    throw std::runtime_error(
        "space: too many elements meet at one point to divide them among threads; "
        "use more ranks and OMP_NUM_THREADS=1");
  // The last block becomes the last to be executed.
  const auto ends_with_it = [&](const BlockList& chunk) { return chunk.back() == part.end - 1; };
  const auto last =
      std::ranges::find_if(best, [&](const auto& chunks) { return std::ranges::any_of(chunks, ends_with_it); });
  std::rotate(last, last + 1, best.end());
  const auto chunk = std::ranges::find_if(best.back(), ends_with_it);
  std::rotate(chunk, chunk + 1, best.back().end());
  return best;
}

}  // namespace

Division divide_blocks(const std::array<Range, 3>& parts, int threads, std::span<const int> costs, std::int64_t entries,
                       const EntriesOf& entries_of) {
  Blocked blocks{{0}, entries, entries_of};
  for (const int cost : costs) blocks.cost_before.push_back(blocks.cost_before.back() + cost);
  Division division;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const std::vector<BlockList>& colour : best_colours(parts[p], threads, blocks)) {
      std::vector<Range>& ranges = division.chunks[p].emplace_back();
      for (const BlockList& chunk : colour) {
        const std::int64_t begin = std::ssize(division.order);
        division.order.insert(division.order.end(), chunk.begin(), chunk.end());
        ranges.push_back({begin, std::ssize(division.order)});
      }
    }
  }
  return division;
}

}  // namespace weft::space
