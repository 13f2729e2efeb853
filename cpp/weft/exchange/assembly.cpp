#include "weft/exchange/assembly.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "weft/exchange/hash.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

void number(Assembly& assembly, std::int64_t points, const PointsById& by_id, const Sharing& sharing,
            std::int64_t points_per_block, int rank) {
  if (points_per_block < 1) throw std::invalid_argument("points_per_block must be at least 1");
  const std::size_t groups = by_id.ids.size();
  const auto first_point = [&](std::size_t g) { return by_id.points[static_cast<std::size_t>(by_id.begin[g])]; };
  const auto last_point = [&](std::size_t g) { return by_id.points[static_cast<std::size_t>(by_id.begin[g + 1]) - 1]; };
  std::vector<std::int32_t> dof(groups, -1);

  // Shared DOFs: owned ones are numbered here, those of the halo once the number of owned ones is known.
  struct Halo {
    std::int32_t owner, group;
  };
  std::vector<Halo> halo;
  std::map<int, std::vector<std::int32_t>> copies;  // by rank: my shared DOFs it holds
  std::int32_t next = 0;
  for (std::size_t s = 0; s < sharing.positions.size(); ++s) {
    const auto g = static_cast<std::size_t>(sharing.positions[s]);
    const std::span holders(sharing.holders.data() + sharing.begin[s],
                            static_cast<std::size_t>(sharing.begin[s + 1] - sharing.begin[s]));
    // Hashed twice, because the first hash chose the id's home.
    const auto owner = holders[static_cast<std::size_t>(
        pick(hash(static_cast<std::int64_t>(hash(by_id.ids[g]))), static_cast<std::int32_t>(holders.size())))];
    if (owner != rank) {
      halo.push_back({owner, static_cast<std::int32_t>(g)});
      dof[g] = -2;
      continue;
    }
    for (const std::int32_t holder : holders) {
      if (holder != rank) copies[holder].push_back(next);
    }
    dof[g] = next++;
  }
  assembly.shared = next;

  // Those that are mine alone, by the block that touches them first; within it those it also touches last come first.
  std::vector<std::int32_t> group_at(static_cast<std::size_t>(points), -1);  // the group a point touches first
  for (std::size_t g = 0; g < groups; ++g) {
    if (dof[g] == -1) group_at[static_cast<std::size_t>(first_point(g))] = static_cast<std::int32_t>(g);
  }
  struct Later {
    std::int64_t last_block;
    std::int32_t group;
  };
  std::vector<Later> later;
  const auto close_run = [&](std::int64_t first_block, std::int64_t last_block) {
    const std::int64_t begin = assembly.runs.empty() ? assembly.shared : assembly.runs.back().end;
    if (next > begin) assembly.runs.push_back({first_block, last_block, begin, next});
  };
  for (std::int64_t block = 0; block * points_per_block < points; ++block) {
    const std::int64_t end = std::min(points, (block + 1) * points_per_block);
    later.clear();
    for (std::int64_t p = block * points_per_block; p < end; ++p) {
      const std::int32_t g = group_at[static_cast<std::size_t>(p)];
      if (g < 0) continue;
      const std::int64_t last = last_point(static_cast<std::size_t>(g));
      if (last < end) {
        dof[static_cast<std::size_t>(g)] = next++;
      } else {
        later.push_back({last / points_per_block, g});
      }
    }
    close_run(block, block);
    std::stable_sort(later.begin(), later.end(),
                     [](const Later& a, const Later& b) { return a.last_block < b.last_block; });
    for (std::size_t i = 0; i < later.size(); ++i) {
      dof[static_cast<std::size_t>(later[i].group)] = next++;
      if (i + 1 == later.size() || later[i + 1].last_block != later[i].last_block)
        close_run(block, later[i].last_block);
    }
  }
  assembly.owned = next;

  std::stable_sort(halo.begin(), halo.end(), [](const Halo& a, const Halo& b) { return a.owner < b.owner; });
  std::map<int, std::int64_t> from;  // by owner: halo entries
  for (const Halo& h : halo) {
    dof[static_cast<std::size_t>(h.group)] = next++;
    ++from[h.owner];
  }
  assembly.local = next;

  assembly.index.assign(static_cast<std::size_t>(points), next);
  assembly.dof_ids.resize(groups);
  for (std::size_t g = 0; g < groups; ++g) {
    assembly.dof_ids[static_cast<std::size_t>(dof[g])] = by_id.ids[g];
    for (std::int64_t p = by_id.begin[g]; p < by_id.begin[g + 1]; ++p) {
      assembly.index[static_cast<std::size_t>(by_id.points[static_cast<std::size_t>(p)])] = dof[g];
    }
  }

  Pattern& pattern = assembly.pattern;
  pattern.halo_first = assembly.owned;
  pattern.entries = assembly.local + 1;
  for (const auto& [neighbor, count] : from) copies.try_emplace(neighbor);
  for (const auto& [neighbor, entries] : copies) {
    const auto halo_count = from.find(neighbor);
    pattern.neighbors.push_back(
        {neighbor, static_cast<std::int64_t>(entries.size()), halo_count == from.end() ? 0 : halo_count->second});
    pattern.owned_index.insert(pattern.owned_index.end(), entries.begin(), entries.end());
  }
}

}  // namespace

Assembly::Assembly(std::span<const std::int64_t> ids, std::int64_t points_per_block, const mpi::Comm& comm) {
  PointsById by_id;
  comm.together([&] { by_id = points_by_id(ids); });
  const Sharing sharing = find_sharing(by_id.ids, comm);
  *this = Assembly(static_cast<std::int64_t>(ids.size()), by_id, sharing, points_per_block, comm);
}

Assembly::Assembly(std::int64_t points, const PointsById& by_id, const Sharing& sharing, std::int64_t points_per_block,
                   const mpi::Comm& comm) {
  const trace::Span span("number DOFs", trace::Category::cpu);
  comm.together([&] { number(*this, points, by_id, sharing, points_per_block, comm.rank()); });
  global = owned;
  comm.sum(&global, 1);
}

}  // namespace weft::exchange
