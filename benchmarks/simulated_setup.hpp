// find_sharing (exchange/pattern.hpp) on simulated ranks: the steps of exchange/directory.hpp, with parcels carried
// from rank to rank in one process and counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/exchange/directory.hpp"

namespace simulated {

using Ids = std::vector<std::int64_t>;  // distinct, ascending

struct Decomposition {
  std::int32_t ranks;
  std::function<Ids(std::int32_t rank)> ids;
  // Ranks that may share an id with this one.
  std::function<std::vector<std::int32_t>(std::int32_t rank)> neighbors;
};

// Boxes of `elements`^3 elements of an order, on a grid of ranks; points numbered as mesh/points.hpp does: vertices,
// insides of edges, of faces, of elements.
struct Boxes {
  std::int64_t grid[3];
  std::int64_t elements, order;

  std::int32_t ranks() const { return static_cast<std::int32_t>(grid[0] * grid[1] * grid[2]); }

  Ids ids(std::int32_t rank) const {
    const std::int64_t at[3] = {rank % grid[0], rank / grid[0] % grid[1], rank / grid[0] / grid[1]};
    const std::int64_t side = elements * order + 1;
    Ids ids;
    ids.reserve(static_cast<std::size_t>(side * side * side));
    for (std::int64_t z = 0; z < side; ++z) {
      for (std::int64_t y = 0; y < side; ++y) {
        for (std::int64_t x = 0; x < side; ++x) {
          ids.push_back(id({at[0] * (side - 1) + x, at[1] * (side - 1) + y, at[2] * (side - 1) + z}));
        }
      }
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  std::vector<std::int32_t> neighbors(std::int32_t rank) const {
    const std::int64_t at[3] = {rank % grid[0], rank / grid[0] % grid[1], rank / grid[0] / grid[1]};
    std::vector<std::int32_t> found;
    for (std::int64_t z = std::max<std::int64_t>(at[2] - 1, 0); z <= std::min(at[2] + 1, grid[2] - 1); ++z) {
      for (std::int64_t y = std::max<std::int64_t>(at[1] - 1, 0); y <= std::min(at[1] + 1, grid[1] - 1); ++y) {
        for (std::int64_t x = std::max<std::int64_t>(at[0] - 1, 0); x <= std::min(at[0] + 1, grid[0] - 1); ++x) {
          const auto other = static_cast<std::int32_t>(x + grid[0] * (y + grid[1] * z));
          if (other != rank) found.push_back(other);
        }
      }
    }
    return found;
  }

  std::int64_t points() const {
    std::int64_t all = 1;
    for (const std::int64_t n : grid) all *= n * elements * order + 1;
    return all;
  }

 private:
  // A point is inside an entity, which spans the directions in which the point is between vertices.
  std::int64_t id(const std::int64_t (&point)[3]) const {
    int kind = 0;
    std::int64_t inside = 0, each = 1;
    for (int d = 2; d >= 0; --d) {
      const std::int64_t r = point[d] % order;
      if (r == 0) continue;
      kind |= 1 << d;
      inside = inside * (order - 1) + r - 1;
      each *= order - 1;
    }
    constexpr int by_dimension[8] = {0, 1, 2, 4, 3, 5, 6, 7};
    std::int64_t before = 0;
    for (const int k : by_dimension) {
      if (k == kind) break;
      std::int64_t count = 1;
      for (int d = 0; d < 3; ++d) {
        const std::int64_t cells = grid[d] * elements;
        count *= (k >> d & 1) != 0 ? cells * (order - 1) : cells + 1;
      }
      before += count;
    }
    std::int64_t entity = 0;
    for (int d = 2; d >= 0; --d) {
      const std::int64_t cells = grid[d] * elements;
      entity = entity * ((kind >> d & 1) != 0 ? cells : cells + 1) + point[d] / order;
    }
    return 1 + before + entity * each + inside;
  }
};

struct Counts {
  std::int64_t messages_sent = 0, messages_received = 0;
  std::int64_t bytes_sent = 0, bytes_received = 0;
  std::int64_t held_bytes = 0;  // maximum held in parcels at one time
  std::int64_t ids = 0, shared_words = 0;
};

struct Result {
  std::vector<Counts> ranks;
  int exchanges = 0;  // consecutive sparse exchanges
};

class Setup {
 public:
  // `each_sample(rank, sharing)` receives what find_sharing would return on the sampled ranks.
  using EachSample = std::function<void(std::int32_t, const Ids&, const weft::exchange::Sharing&)>;

  static Result run(const Decomposition& d, const std::vector<std::int32_t>& samples, const EachSample& each_sample) {
    Setup setup(d);
    for (const std::int32_t rank : samples) setup.answered_[rank];
    setup.ask();
    setup.answer();
    setup.relay();
    for (auto& [rank, answers] : setup.answered_) {
      const Ids ids = d.ids(rank);
      each_sample(rank, ids, weft::exchange::directory::sharing(ids, answers));
    }
    return std::move(setup.result_);
  }

 private:
  using Parcels = weft::mpi::Parcels;

  explicit Setup(const Decomposition& d) : d_(d), inbox_(static_cast<std::size_t>(d.ranks)) {
    result_.ranks.resize(inbox_.size());
  }

  static std::int64_t bytes(const Parcels& p) {
    return static_cast<std::int64_t>(8 * p.words.size() + 12 * p.ranks.size());
  }
  Counts& of(std::int32_t rank) { return result_.ranks[static_cast<std::size_t>(rank)]; }
  void count(std::int32_t from, std::int32_t to, std::size_t words) {
    if (from == to) return;
    const auto length = static_cast<std::int64_t>(8 * words);
    ++of(from).messages_sent;
    ++of(to).messages_received;
    of(from).bytes_sent += length;
    of(to).bytes_received += length;
  }
  void holds(std::int32_t rank, std::int64_t length) { of(rank).held_bytes = std::max(of(rank).held_bytes, length); }

  void ask() {
    for (std::int32_t rank = 0; rank < d_.ranks; ++rank) {
      const Ids ids = d_.ids(rank);
      of(rank).ids = static_cast<std::int64_t>(ids.size());
      const Parcels questions = weft::exchange::directory::questions(ids, d_.ranks);
      holds(rank, bytes(questions));
      for (std::size_t p = 0; p < questions.count(); ++p) {
        const std::int32_t home = questions.ranks[p];
        count(rank, home, questions.part(p).size());
        inbox_[static_cast<std::size_t>(home)].add(rank, questions.part(p));
      }
    }
    ++result_.exchanges;
  }

  void answer() {
    for (std::int32_t home = 0; home < d_.ranks; ++home) {
      Parcels& asked = inbox_[static_cast<std::size_t>(home)];
      const auto answers = weft::exchange::directory::answers(asked);
      most_holders_ = std::max(most_holders_, answers.most_holders);
      holds(home, bytes(asked) + bytes(answers.parcels));
      asked = {};
      deliver(home, answers.parcels, passing_);
    }
    ++result_.exchanges;
  }

  void relay() {
    for (int rounds = weft::exchange::directory::relay_rounds(most_holders_); rounds > 0; --rounds) {
      std::map<std::int32_t, Parcels> passed;
      for (auto& [rank, answers] : passing_) {
        const Parcels parcels = weft::exchange::directory::relayed(answers, rank);
        holds(rank, bytes(answers) + bytes(parcels));
        answers = {};
        deliver(rank, parcels, passed);
      }
      passing_ = std::move(passed);
      ++result_.exchanges;
    }
    if (!passing_.empty()) throw std::logic_error("lists of holders are left to pass on after the last round");
  }

  // Keeps only the answers to sampled ranks, and those that a rank has to forward.
  void deliver(std::int32_t from, const Parcels& parcels, std::map<std::int32_t, Parcels>& passing) {
    for (std::size_t p = 0; p < parcels.count(); ++p) {
      const std::int32_t to = parcels.ranks[p];
      const auto words = parcels.part(p);
      count(from, to, words.size());
      of(to).shared_words += static_cast<std::int64_t>(words.size());
      holds(to, 8 * of(to).shared_words);
      if (const auto sampled = answered_.find(to); sampled != answered_.end()) {
        sampled->second.emplace_back().add(from, words);
      }
      Ids to_pass;
      for (std::size_t w = 0; w < words.size();) {
        const auto length = static_cast<std::size_t>(words[w + 1]);
        if (weft::exchange::directory::first_follower(words.subspan(w + 2, length), to) < length) {
          to_pass.insert(to_pass.end(), words.begin() + static_cast<std::ptrdiff_t>(w),
                         words.begin() + static_cast<std::ptrdiff_t>(w + 2 + length));
        }
        w += 2 + length;
      }
      if (!to_pass.empty()) passing[to].add(from, to_pass);
    }
  }

  const Decomposition& d_;
  Result result_;
  std::vector<Parcels> inbox_;                             // of home ranks
  std::map<std::int32_t, std::vector<Parcels>> answered_;  // to sampled ranks
  std::map<std::int32_t, Parcels> passing_;                // what ranks have to forward in the next round
  std::int64_t most_holders_ = 0;
};

// What find_sharing must say to a rank, from the ids of those that may share with it; throws where it did not.
inline void check(const Decomposition& d, std::int32_t rank, const Ids& ids, const weft::exchange::Sharing& sharing) {
  std::map<std::int64_t, Ids> holders;
  for (const std::int64_t id : ids) holders[id].push_back(rank);
  for (const std::int32_t other : d.neighbors(rank)) {
    for (const std::int64_t id : d.ids(other)) {
      const auto found = holders.find(id);
      if (found != holders.end()) found->second.push_back(other);
    }
  }
  std::erase_if(holders, [](const auto& entry) { return entry.second.size() < 2; });
  if (holders.size() != sharing.positions.size()) {
    throw std::logic_error("rank " + std::to_string(rank) + " was told of " + std::to_string(sharing.positions.size()) +
                           " shared ids, not " + std::to_string(holders.size()));
  }
  for (std::size_t s = 0; s < sharing.positions.size(); ++s) {
    const std::int64_t id = ids[static_cast<std::size_t>(sharing.positions[s])];
    Ids expected = holders.at(id);
    std::sort(expected.begin(), expected.end());
    const Ids told(sharing.holders.begin() + sharing.begin[s], sharing.holders.begin() + sharing.begin[s + 1]);
    if (told != expected) throw std::logic_error("id " + std::to_string(id) + ": other holders than it has");
  }
}

// The boxes, with one more id that every `every`-th rank holds, and one rank that holds every id of the boxes.
inline Decomposition adversarial(const Boxes& boxes, std::int32_t every) {
  const std::int32_t greedy = boxes.ranks() / 2;
  const std::int64_t common = boxes.points() + 1;
  const auto has_common = [=](std::int32_t rank) { return rank % every == 0; };
  return {.ranks = boxes.ranks(),
          .ids =
              [=](std::int32_t rank) {
                Ids ids;
                if (rank == greedy) {
                  ids.resize(static_cast<std::size_t>(boxes.points()));
                  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) + 1;
                } else {
                  ids = boxes.ids(rank);
                }
                if (has_common(rank)) ids.push_back(common);
                return ids;
              },
          .neighbors =
              [=](std::int32_t rank) {
                std::vector<std::int32_t> found;
                for (std::int32_t other = 0; other < boxes.ranks(); ++other) {
                  if (other != rank) found.push_back(other);
                }
                return found;
              }};
}

inline Decomposition structured(const Boxes& boxes) {
  return {.ranks = boxes.ranks(),
          .ids = [=](std::int32_t rank) { return boxes.ids(rank); },
          .neighbors = [=](std::int32_t rank) { return boxes.neighbors(rank); }};
}

}  // namespace simulated
