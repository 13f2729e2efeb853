#include "weft/space/blocks.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include "weft/space/numbering.hpp"

namespace weft::space {
namespace {

// A single thread processes a range as one piece.
void append_pieces(Range range, int threads, std::vector<Range>& all) {
  if (threads > 1)
    std::ranges::copy(pieces(range), std::back_inserter(all));
  else if (range.begin < range.end)
    all.push_back(range);
}

// interior: as in BlockIndex. inside: the entries of a block's interior points.
Plan make_plan(const Numbering& numbering, std::span<const std::int64_t> interior, std::int64_t inside) {
  const exchange::Assembly& assembly = numbering.assembly;
  const BlockSplit& split = numbering.split;
  Plan plan;
  plan.threads = numbering.threads;
  plan.chunks = numbering.chunks;
  plan.zero = assembly.local;
  plan.halo = {assembly.owned, assembly.local};
  append_pieces({0, assembly.apart}, plan.threads, plan.apart);

  plan.before.assign(split.blocks, {assembly.owned, assembly.owned});
  plan.ahead.assign(split.blocks + 1, assembly.owned);
  std::vector<std::vector<Range>> after(split.blocks);
  const std::vector<exchange::Assembly::Run>& runs = assembly.runs;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) plan.ahead[run->first_block] = run->begin;
  for (std::int64_t b = split.blocks - 1; b >= 0; --b)  // blocks that touch nothing first
    plan.ahead[b] = std::min(plan.ahead[b], plan.ahead[b + 1]);
  for (std::int64_t b = 0; b < split.blocks; ++b) plan.before[b] = {plan.ahead[b], plan.ahead[b]};
  for (const exchange::Assembly::Run& run : runs) {
    Range entries{run.begin, run.end};
    if (run.begin == plan.ahead[run.first_block] && interior[run.first_block] >= 0) {  // the kernel does its insides
      if (run.begin != interior[run.first_block] || run.first_block != run.last_block)
        throw std::logic_error("space: the assembly does not number the interior points of a block first");
      entries.begin += inside;
      plan.before[run.first_block].begin += inside;
    }
    plan.before[run.first_block].end = entries.end;
    if (entries.begin < entries.end) after[run.last_block].push_back(entries);
  }
  plan.after_begin.push_back(0);
  for (const std::vector<Range>& ranges : after) {
    plan.after.insert(plan.after.end(), ranges.begin(), ranges.end());
    plan.after_begin.push_back(static_cast<std::int64_t>(plan.after.size()));
  }
  return plan;
}

}  // namespace

bool conflict(const std::int32_t* entries, int lanes, std::int32_t zero, int threads) {
  for (int l = 0; l < lanes; ++l) {
    if (threads > 1 && entries[l] == zero) return true;
    for (int m = 0; m < l; ++m)
      if (entries[l] == entries[m] && entries[l] != zero) return true;
  }
  return false;
}

std::vector<Range> pieces(Range range) {
  constexpr std::int64_t most = 8192;  // entries
  std::vector<Range> all;
  for (std::int64_t begin = range.begin; begin < range.end; begin += most)
    all.push_back({begin, std::min(range.end, begin + most)});
  return all;
}

Blocks::Blocks(const Numbering& numbering, const std::shared_ptr<device::Device>& device) {
  const int lanes = numbering.lanes, n = numbering.order + 1;
  const std::int64_t blocks = numbering.split.blocks, block_points = lanes * numbering.points_per_element(),
                     inside = std::int64_t{n - 2} * (n - 2) * (n - 2) * lanes, surface = block_points - inside;
  const exchange::Assembly& assembly = numbering.assembly;
  const auto zero = static_cast<std::int32_t>(assembly.local);
  const auto from_block = [&](std::int64_t b) { return assembly.index.data() + b * block_points; };
  index_ = device::Array<std::int32_t>(device, blocks * surface);
  interior_.assign(blocks, -1);
  conflict_.assign(blocks, 0);
  runs_.resize(blocks * (surface / lanes));
#pragma omp parallel for
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int32_t* from = from_block(b);
    std::copy(from + inside, from + block_points, index_.data() + b * surface);
    for (std::int64_t v = inside; v < block_points; v += lanes) {
      std::uint8_t run = from[v + lanes - 1] != zero;
      for (int l = 1; l < lanes; ++l) run &= from[v + l] == from[v] + l;
      runs_[(b * surface + v - inside) / lanes] = run;
      if (run == 0 && conflict_[b] == 0) conflict_[b] = conflict(from + v, lanes, zero, numbering.threads);
    }
    bool in_a_row = inside > 0;
    for (std::int64_t i = 1; i < inside; ++i) in_a_row = in_a_row && from[i] == from[0] + i;
    if (in_a_row) interior_[b] = from[0];
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (interior_[b] >= 0) continue;
    interior_[b] = -1 - static_cast<std::int64_t>(interior_index_.size());
    interior_index_.insert(interior_index_.end(), from_block(b), from_block(b) + inside);
  }
  view_ = {index_.data(), interior_.data(), interior_index_.data(), conflict_.data(), zero, runs_.data(), true};
  plan_ = make_plan(numbering, interior_, inside);
}

std::string name(Access access) {
  return std::string(access.by_loads ? "loads" : "gather") + (access.runs ? " and runs" : "");
}

BlockIndex Blocks::index(Access access) const {
  BlockIndex view = view_;
  view.runs = access.runs ? runs_.data() : nullptr;
  view.by_loads = access.by_loads;
  return view;
}

void Blocks::use(Access access, std::string reason) {
  view_ = index(access);
  access_ = access;
  access_reason_ = std::move(reason);
}

std::map<std::string, std::int64_t> Blocks::memory_bytes() const {
  const auto bytes = [](const auto& v) { return static_cast<std::int64_t>(v.size() * sizeof(v[0])); };
  return {{"index", static_cast<std::int64_t>(index_.bytes()) + bytes(interior_) + bytes(interior_index_)},
          {"plan", bytes(plan_.before) + bytes(plan_.ahead) + bytes(plan_.after) + bytes(plan_.after_begin) +
                       bytes(plan_.apart) + bytes(conflict_) + bytes(runs_)}};
}

}  // namespace weft::space
