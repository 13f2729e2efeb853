#include "weft/exchange/assembly.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/device/host_memory.hpp"
#include "weft/exchange/hash.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

// The first and the last point that refers to each number.
struct Touches {
  std::vector<std::int32_t> first, last;
};

Touches touches_of(std::span<const std::int32_t> numbers, std::int64_t count) {
  const auto points = static_cast<std::int32_t>(numbers.size());
  Touches touches{device::large_vector(static_cast<std::size_t>(count), points),
                  device::large_vector(static_cast<std::size_t>(count), -1)};
  if (omp_get_max_threads() == 1) {
    for (std::int32_t p = 0; p < points; ++p) {
      const std::int32_t number = numbers[static_cast<std::size_t>(p)];
      if (number < 0) continue;
      std::int32_t& first = touches.first[static_cast<std::size_t>(number)];
      first = std::min(first, p);
      touches.last[static_cast<std::size_t>(number)] = p;
    }
    return touches;
  }
  // Each thread starts at the end where the result is likely to be, so that most other points of a number only read it.
#pragma omp parallel for schedule(static)
  for (std::int32_t p = 0; p < points; ++p) {
    const std::int32_t number = numbers[static_cast<std::size_t>(p)];
    if (number < 0) continue;
    const std::atomic_ref first(touches.first[static_cast<std::size_t>(number)]);
    for (std::int32_t known = first.load(std::memory_order_relaxed);
         p < known && !first.compare_exchange_weak(known, p, std::memory_order_relaxed);) {
    }
  }
#pragma omp parallel for schedule(static)
  for (std::int32_t back = 1; back <= points; ++back) {
    const std::int32_t p = points - back, number = numbers[static_cast<std::size_t>(p)];
    if (number < 0) continue;
    const std::atomic_ref last(touches.last[static_cast<std::size_t>(number)]);
    for (std::int32_t known = last.load(std::memory_order_relaxed);
         p > known && !last.compare_exchange_weak(known, p, std::memory_order_relaxed);) {
    }
  }
  return touches;
}

// Removes the shared DOFs from the touches: `first` becomes -1, and `last` becomes the DOF if this rank owns it.
struct SharedDofs {
  struct Halo {
    std::int32_t owner, number;
  };
  std::vector<Halo> halo;                           // ordered by (owner, global id)
  std::map<int, std::vector<std::int32_t>> copies;  // by rank: my shared DOFs that it also holds
  std::int32_t owned = 0;

  SharedDofs(const NumberedPoints& points, Touches& touches, int rank) {
    const Sharing& sharing = points.sharing;
    for (std::size_t s = 0; s < sharing.positions.size(); ++s) {
      const std::int32_t number = sharing.positions[s];
      const std::span holders(sharing.holders.data() + sharing.begin[s],
                              static_cast<std::size_t>(sharing.begin[s + 1] - sharing.begin[s]));
      // Hashed a second time, because the first hash chose the id's home.
      const auto owner = holders[static_cast<std::size_t>(pick(
          hash(static_cast<std::int64_t>(hash(points.shared_ids[s]))), static_cast<std::int32_t>(holders.size())))];
      touches.first[static_cast<std::size_t>(number)] = -1;
      if (owner != rank) {
        halo.push_back({owner, number});
        continue;
      }
      for (const std::int32_t holder : holders) {
        if (holder != rank) copies[holder].push_back(owned);
      }
      touches.last[static_cast<std::size_t>(number)] = owned++;
    }
    std::stable_sort(halo.begin(), halo.end(), [](const Halo& a, const Halo& b) { return a.owner < b.owner; });
  }
};

// A range of blocks, processed by one thread.
class BlockRange {
 public:
  BlockRange(std::span<const std::int32_t> numbers, Touches& touches, std::int64_t points_per_block)
      : numbers_(numbers), touches_(touches), per_block_(points_per_block) {}

  std::int32_t count(std::int64_t begin, std::int64_t end) const {
    std::int32_t sum = 0;
    each_first(begin * per_block_, std::min(end * per_block_, std::ssize(numbers_)), [&](std::size_t) { ++sum; });
    return sum;
  }
  // Numbers the DOFs that these blocks touch first, starting with `next`: for each block the DOFs that it also touches
  // last, then the others, ordered by the block that touches them last. The entry `last` of such a DOF is read by no
  // other thread and is replaced by the DOF's number. Returns the runs.
  std::vector<Assembly::Run> number(std::int64_t begin, std::int64_t end, std::int32_t next) {
    std::vector<Assembly::Run> runs;
    struct Later {
      std::int32_t last_block, place, number;
    };
    std::vector<Later> later;
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t stop = std::min((block + 1) * per_block_, std::ssize(numbers_));
      later.clear();
      const std::int32_t first = next;
      each_first(block * per_block_, stop, [&](std::size_t g) {
        if (touches_.last[g] < stop)
          touches_.last[g] = next++;
        else
          later.push_back({static_cast<std::int32_t>(touches_.last[g] / per_block_),
                           static_cast<std::int32_t>(later.size()), static_cast<std::int32_t>(g)});
      });
      if (next > first) runs.push_back({block, block, first, next});
      std::sort(later.begin(), later.end(), [](const Later& a, const Later& b) {
        return std::pair(a.last_block, a.place) < std::pair(b.last_block, b.place);
      });
      for (const Later& l : later) {
        if (runs.empty() || runs.back().first_block != block || runs.back().last_block != l.last_block)
          runs.push_back({block, l.last_block, next, next});
        touches_.last[static_cast<std::size_t>(l.number)] = next++;
        runs.back().end = next;
      }
    }
    return runs;
  }

 private:
  template <class Use>
  void each_first(std::int64_t begin, std::int64_t end, Use&& use) const {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int32_t number = numbers_[static_cast<std::size_t>(p)];
      if (number >= 0 && touches_.first[static_cast<std::size_t>(number)] == p) use(static_cast<std::size_t>(number));
    }
  }

  std::span<const std::int32_t> numbers_;
  Touches& touches_;
  std::int64_t per_block_;
};

// Numbers the DOFs that only this rank holds, starting with `next`, and appends their runs; returns the next free
// number.
std::int32_t number_own(std::span<const std::int32_t> numbers, Touches& touches, std::int64_t points_per_block,
                        std::int32_t next, std::vector<Assembly::Run>& runs) {
  const std::int64_t blocks = (std::ssize(numbers) + points_per_block - 1) / points_per_block;
  const int parts = omp_get_max_threads();
  const auto block = [&](int part) { return blocks * part / parts; };
  BlockRange range(numbers, touches, points_per_block);
  std::vector<std::int32_t> begin(static_cast<std::size_t>(parts));
#pragma omp parallel for schedule(static, 1)
  for (int part = 0; part < parts; ++part)
    begin[static_cast<std::size_t>(part)] = range.count(block(part), block(part + 1));
  for (std::int32_t& b : begin) next += std::exchange(b, next);
  std::vector<std::vector<Assembly::Run>> of_parts(static_cast<std::size_t>(parts));
#pragma omp parallel for schedule(static, 1)
  for (int part = 0; part < parts; ++part)
    of_parts[static_cast<std::size_t>(part)] =
        range.number(block(part), block(part + 1), begin[static_cast<std::size_t>(part)]);
  for (const std::vector<Assembly::Run>& part : of_parts) runs.insert(runs.end(), part.begin(), part.end());
  return next;
}

void number(Assembly& assembly, NumberedPoints&& points, std::int64_t points_per_block, int rank) {
  if (points_per_block < 1) throw std::invalid_argument("points_per_block must be at least 1");
  Touches touches = touches_of(points.numbers, points.count);
  const SharedDofs shared(points, touches, rank);
  assembly.shared = shared.owned;
  std::int32_t next = number_own(points.numbers, touches, points_per_block, shared.owned, assembly.runs);
  assembly.owned = next;
  std::map<int, std::int64_t> from;  // by owner: number of halo entries
  for (const SharedDofs::Halo& h : shared.halo) {
    touches.last[static_cast<std::size_t>(h.number)] = next++;
    ++from[h.owner];
  }
  assembly.local = next;

  touches.first = {};
  assembly.index = std::move(points.numbers);
#pragma omp parallel for
  for (std::size_t p = 0; p < assembly.index.size(); ++p) {
    const std::int32_t number = assembly.index[p];
    assembly.index[p] = number < 0 ? next : touches.last[static_cast<std::size_t>(number)];
  }

  Pattern& pattern = assembly.pattern;
  pattern.halo_first = assembly.owned;
  pattern.entries = assembly.local + 1;
  std::map<int, std::span<const std::int32_t>> with;  // by neighbour: my DOFs that it has copies of
  for (const auto& [neighbor, entries] : shared.copies) with[neighbor] = entries;
  for (const auto& [neighbor, count] : from) with.try_emplace(neighbor);
  for (const auto& [neighbor, entries] : with) {
    const auto halo = from.find(neighbor);
    pattern.neighbors.push_back(
        {neighbor, static_cast<std::int64_t>(entries.size()), halo == from.end() ? 0 : halo->second});
    pattern.owned_index.insert(pattern.owned_index.end(), entries.begin(), entries.end());
  }
}

// Numbers the points of all ranks by `work`, which does so on each. (collective)
void number_on_all(Assembly& assembly, const mpi::Comm& comm, const std::function<void()>& work) {
  const trace::Span span("number DOFs", trace::Category::cpu);
  comm.together(work);
  assembly.global = assembly.owned;
  comm.sum(&assembly.global, 1);
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
  number_on_all(*this, comm, [&] {
    number(*this, numbered_points(points, by_id, sharing), points_per_block, comm.rank());
    dof_ids.resize(by_id.ids.size());
    for (std::size_t g = 0; g < by_id.ids.size(); ++g) {
      const std::int32_t dof = index[static_cast<std::size_t>(points_of(by_id, g).front())];
      dof_ids[static_cast<std::size_t>(dof)] = by_id.ids[g];
    }
  });
}

Assembly::Assembly(NumberedPoints points, std::int64_t points_per_block, const mpi::Comm& comm) {
  number_on_all(*this, comm, [&] { number(*this, std::move(points), points_per_block, comm.rank()); });
}

}  // namespace weft::exchange
