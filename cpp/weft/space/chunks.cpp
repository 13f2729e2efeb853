#include "weft/space/chunks.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace weft::space {
namespace {

using Colours = std::vector<std::vector<Range>>;
using EntriesOf = std::function<std::span<const std::int32_t>(std::int64_t)>;

struct Blocked {
  std::vector<std::int64_t> cost_before;  // [blocks + 1]: of the blocks before each
  std::int64_t entries;
  const EntriesOf& entries_of;

  std::int64_t cost(Range range) const { return cost_before[range.end] - cost_before[range.begin]; }
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
    colours[colour].push_back(chunk);
    each_entry([&](std::uint64_t& of_entry) { of_entry |= std::uint64_t{1} << colour; });
  }
  return colours;
}

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
  if (threads == 1) return {{part}};
  // Few chunks are best for the caches and need few barriers, but more chunks keep many threads busy in every colour.
  constexpr double enough = 0.95;
  Colours best;
  double most = 0;
  for (const int per_thread : {2, 3, 4, 6, 8, 12, 16}) {
    const std::vector<Range> chunks = blocks.cut(part, std::int64_t{per_thread} * threads);
    Colours found = coloured(chunks, blocks);
    if (const double share = found.empty() ? 0 : efficiency(found, threads, blocks); share > most) {
      most = share;
      best = std::move(found);
    }
    if (std::ssize(chunks) == part.end - part.begin || most > enough) break;
  }
  if (best.empty())
    throw std::runtime_error(
        "space: too many elements meet at one point to divide them among threads; "
        "use more ranks and OMP_NUM_THREADS=1");
  // The last chunk becomes the last to be executed.
  const auto last = std::ranges::find_if(best, [&](const auto& chunks) { return chunks.back().end == part.end; });
  std::rotate(last, last + 1, best.end());
  return best;
}

}  // namespace

Division divide_blocks(const std::array<Range, 3>& parts, int threads, std::span<const int> costs, std::int64_t entries,
                       const EntriesOf& entries_of) {
  Blocked blocks{{0}, entries, entries_of};
  for (const int cost : costs) blocks.cost_before.push_back(blocks.cost_before.back() + cost);
  Division division;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    division.chunks[p] = best_colours(parts[p], threads, blocks);
    for (auto& colour : division.chunks[p])
      for (Range& chunk : colour) {
        const std::int64_t begin = std::ssize(division.order);
        division.order.resize(begin + chunk.end - chunk.begin);
        std::iota(division.order.begin() + begin, division.order.end(), chunk.begin);
        chunk = {begin, std::ssize(division.order)};
      }
  }
  return division;
}

}  // namespace weft::space
