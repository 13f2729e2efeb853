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

// What blocks touch first.
struct Count {
  std::int32_t dofs = 0;
  std::int32_t apart = 0;  // those that are numbered before all blocks
};

// DOFs that a block touches first, by whether they are not touched as a whole vector, and by the block that touches
// them last. A block has few such groups.
class Groups {
 public:
  using Key = std::pair<bool, std::int32_t>;

  void clear() {
    for (auto& [key, numbers] : groups_) spare_.push_back(std::move(numbers));
    groups_.clear();
    recent_ = nullptr;
    size_ = 0;
  }
  void add(Key key, std::int32_t number) {
    if (recent_ == nullptr || recent_key_ != key) {
      std::vector<std::int32_t>& numbers = groups_[key];
      if (numbers.empty() && !spare_.empty()) {
        numbers = std::move(spare_.back());
        numbers.clear();
        spare_.pop_back();
      }
      recent_ = &numbers;
      recent_key_ = key;
    }
    recent_->push_back(number);
    ++size_;
  }
  std::int32_t size() const { return size_; }
  // Calls use(last block, number) group by group, in the order in which they were added.
  template <class Use>
  void each(Use&& use) const {
    for (const auto& [key, numbers] : groups_)
      for (const std::int32_t number : numbers) use(key.second, number);
  }

 private:
  std::map<Key, std::vector<std::int32_t>> groups_;
  std::vector<std::vector<std::int32_t>> spare_;  // storage of earlier groups
  std::vector<std::int32_t>* recent_ = nullptr;
  Key recent_key_{};
  std::int32_t size_ = 0;
};

// A range of blocks, processed by one thread.
class BlockRange {
 public:
  // `lanes` points make up a vector.
  BlockRange(std::span<const std::int32_t> numbers, Touches& touches, std::int64_t points_per_block, int lanes)
      : numbers_(numbers), touches_(touches), per_block_(points_per_block), lanes_(lanes) {}

  Count count(std::int64_t begin, std::int64_t end) const {
    Count sum;
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int32_t before = sum.dofs;
      for (std::int64_t p = block * per_block_; p < stop(block); ++p) sum.dofs += is_first(p) ? 1 : 0;
      sum.apart += apart(block, sum.dofs - before);
    }
    return sum;
  }
  // Makes the last block that can do so leave `more` DOFs (less than the lanes) apart, besides its own. Blocks after it
  // then begin at no multiple of the lanes, but they are few.
  void leave_apart(std::int64_t blocks, std::int32_t more) {
    for (std::int64_t block = blocks - 1; block >= 0 && more > 0; --block) {
      std::int32_t dofs = 0, partial = 0;  // partial: those that are not touched as whole vectors
      for (std::int64_t p = block * per_block_; p < stop(block); p += lanes_) {
        const std::int32_t before = dofs;
        for (std::int64_t lane = p; lane < std::min(p + lanes_, stop(block)); ++lane) dofs += is_first(lane) ? 1 : 0;
        if (dofs > before && !is_whole(p)) partial += dofs - before;
      }
      if (partial < dofs % lanes_ + more) continue;
      giver_ = block;
      more_ = more;
      return;
    }
  }
  // How many of these are in the given blocks.
  std::int32_t more(std::int64_t begin, std::int64_t end) const { return begin <= giver_ && giver_ < end ? more_ : 0; }
  // Numbers the DOFs that these blocks touch first: for each block the DOFs that it also touches last, then the others,
  // ordered by the block that touches them last; and after both, in the same order, those that are not touched as whole
  // vectors. The last ones of a block, by which their number exceeds a multiple of the lanes, are left apart: they are
  // numbered from next.apart on, all others from next.dofs on. The entry `last` of a DOF is read by no other thread and
  // is replaced by the DOF's number. Returns the runs.
  std::vector<Assembly::Run> number(std::int64_t begin, std::int64_t end, Count next) {
    std::vector<Assembly::Run> runs;
    Groups groups;
    for (std::int64_t block = begin; block < end; ++block) {
      groups.clear();
      const std::int32_t first = next.dofs;
      for (std::int64_t p = block * per_block_; p < stop(block); p += lanes_) {
        const bool whole = is_whole(p);
        for (std::int64_t lane = p; lane < std::min(p + lanes_, stop(block)); ++lane) {
          if (!whole && !is_first(lane)) continue;
          const std::int32_t number = numbers_[static_cast<std::size_t>(lane)];
          std::int32_t& last = touches_.last[static_cast<std::size_t>(number)];
          if (whole && last < stop(block))
            last = next.dofs++;
          else
            groups.add({!whole, static_cast<std::int32_t>(last / per_block_)}, number);
        }
      }
      if (next.dofs > first) runs.push_back({block, block, first, next.dofs});
      const std::int32_t dofs = next.dofs - first + groups.size();
      std::int32_t left = groups.size() - apart(block, dofs);  // those that are not left apart
      groups.each([&](std::int32_t last_block, std::int32_t number) {
        std::int32_t& last = touches_.last[static_cast<std::size_t>(number)];
        if (left-- <= 0) {
          last = next.apart++;
          return;
        }
        if (runs.empty() || runs.back().first_block != block || runs.back().last_block != last_block)
          runs.push_back({block, last_block, next.dofs, next.dofs});
        last = next.dofs++;
        runs.back().end = next.dofs;
      });
    }
    return runs;
  }

 private:
  // How many of the DOFs that a block touches first are left apart.
  std::int32_t apart(std::int64_t block, std::int32_t dofs) const {
    return dofs % lanes_ + (block == giver_ ? more_ : 0);
  }
  std::int64_t stop(std::int64_t block) const { return std::min((block + 1) * per_block_, std::ssize(numbers_)); }
  bool is_first(std::int64_t p) const {
    const std::int32_t number = numbers_[static_cast<std::size_t>(p)];
    return number >= 0 && touches_.first[static_cast<std::size_t>(number)] == p;
  }
  // Whether the points of the vector from p on are all touched first in it, and last in one block.
  bool is_whole(std::int64_t p) const {
    if (p + lanes_ > std::ssize(numbers_)) return false;
    std::int64_t last_block = -1;
    for (std::int64_t lane = p; lane < p + lanes_; ++lane) {
      if (!is_first(lane)) return false;
      const std::int64_t last =
          touches_.last[static_cast<std::size_t>(numbers_[static_cast<std::size_t>(lane)])] / per_block_;
      if (lane > p && last != last_block) return false;
      last_block = last;
    }
    return true;
  }

  std::span<const std::int32_t> numbers_;
  Touches& touches_;
  std::int64_t per_block_;
  std::int32_t lanes_, more_ = 0;
  std::int64_t giver_ = -1;  // the block that leaves more_ DOFs apart, besides its own
};

// Numbers the DOFs that only this rank holds, starting with assembly.shared, and sets the members that follow from it.
void number_own(std::span<const std::int32_t> numbers, Touches& touches, std::int64_t points_per_block, int lanes,
                Assembly& assembly) {
  const std::int64_t blocks = (std::ssize(numbers) + points_per_block - 1) / points_per_block;
  const int parts = omp_get_max_threads();
  const auto block = [&](int part) { return blocks * part / parts; };
  BlockRange range(numbers, touches, points_per_block, lanes);
  std::vector<Count> begin(static_cast<std::size_t>(parts));
#pragma omp parallel for schedule(static, 1)
  for (int part = 0; part < parts; ++part)
    begin[static_cast<std::size_t>(part)] = range.count(block(part), block(part + 1));
  auto apart = static_cast<std::int32_t>(assembly.shared);
  for (const Count& count : begin) apart += count.apart;
  range.leave_apart(blocks, (lanes - apart % lanes) % lanes);
  for (int part = 0; part < parts; ++part)
    begin[static_cast<std::size_t>(part)].apart += range.more(block(part), block(part + 1));
  Count next{0, static_cast<std::int32_t>(assembly.shared)};
  for (Count& b : begin) {
    const Count count = std::exchange(b, next);
    next.dofs += count.dofs - count.apart;
    next.apart += count.apart;
  }
  assembly.apart = next.apart;
  assembly.owned = next.apart + next.dofs;
  std::vector<std::vector<Assembly::Run>> of_parts(static_cast<std::size_t>(parts));
#pragma omp parallel for schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    Count& first = begin[static_cast<std::size_t>(part)];
    first.dofs += next.apart;
    of_parts[static_cast<std::size_t>(part)] = range.number(block(part), block(part + 1), first);
  }
  for (const std::vector<Assembly::Run>& part : of_parts)
    assembly.runs.insert(assembly.runs.end(), part.begin(), part.end());
}

void number(Assembly& assembly, NumberedPoints&& points, std::int64_t points_per_block, int lanes, int rank) {
  if (points_per_block < 1) throw std::invalid_argument("points_per_block must be at least 1");
  if (lanes < 1 || points_per_block % lanes != 0)
    throw std::invalid_argument("points_per_block must be a multiple of lanes");
  Touches touches = touches_of(points.numbers, points.count);
  const SharedDofs shared(points, touches, rank);
  assembly.shared = shared.owned;
  number_own(points.numbers, touches, points_per_block, lanes, assembly);
  auto next = static_cast<std::int32_t>(assembly.owned);
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
    number(*this, numbered_points(points, by_id, sharing), points_per_block, 1, comm.rank());
    dof_ids.resize(by_id.ids.size());
    for (std::size_t g = 0; g < by_id.ids.size(); ++g) {
      const std::int32_t dof = index[static_cast<std::size_t>(points_of(by_id, g).front())];
      dof_ids[static_cast<std::size_t>(dof)] = by_id.ids[g];
    }
  });
}

Assembly::Assembly(NumberedPoints points, std::int64_t points_per_block, int lanes, const mpi::Comm& comm) {
  number_on_all(*this, comm, [&] { number(*this, std::move(points), points_per_block, lanes, comm.rank()); });
}

}  // namespace weft::exchange
