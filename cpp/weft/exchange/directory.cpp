#include "weft/exchange/directory.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "weft/exchange/hash.hpp"
#include "weft/exchange/radix_sort.hpp"

namespace weft::exchange::directory {
namespace {

// Calls each(id, holders) for every entry of the answers; `holders` is a span of words.
template <class F>
void each_entry(const mpi::Parcels& answers, F&& each) {
  const std::span<const std::int64_t> words(answers.words);
  for (std::size_t w = 0; w < words.size();) {
    const auto count = static_cast<std::size_t>(words[w + 1]);
    each(words[w], words.subspan(w + 2, count));
    w += 2 + count;
  }
}

}  // namespace

std::int32_t home(std::int64_t id, std::int32_t ranks) { return pick(hash(id >> home_bits), ranks); }

mpi::Parcels questions(std::span<const std::int64_t> ids, std::int32_t ranks) {
  const int position_bits = std::bit_width(ids.size()), rank_bits = std::bit_width(static_cast<unsigned>(ranks));
  std::vector<std::uint64_t> order(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    order[i] = static_cast<std::uint64_t>(home(ids[i], ranks)) << position_bits | i;
  }
  radix_sort(order, position_bits, position_bits + rank_bits, [](std::uint64_t w) { return w; });
  mpi::Parcels parcels;
  parcels.words.resize(ids.size());
  for (std::size_t slot = 0; slot < order.size(); ++slot) {
    const auto to = static_cast<int>(order[slot] >> position_bits);
    if (parcels.ranks.empty() || parcels.ranks.back() != to) {
      if (slot != 0) parcels.begin.push_back(static_cast<std::int64_t>(slot));
      parcels.ranks.push_back(to);
    }
    parcels.words[slot] = ids[order[slot] & ((std::uint64_t{1} << position_bits) - 1)];
  }
  if (!ids.empty()) parcels.begin.push_back(static_cast<std::int64_t>(ids.size()));
  return parcels;
}

Answers answers(const mpi::Parcels& questions) {
  Answers result;
  std::vector<std::vector<std::int64_t>> replies(questions.count());
  // For the current id: positions in questions.words, and the parcels that these belong to, by rank.
  std::vector<std::size_t> places, sources;
  const auto source = [&](std::size_t place) {
    const auto after =
        std::upper_bound(questions.begin.begin(), questions.begin.end(), static_cast<std::int64_t>(place));
    return static_cast<std::size_t>(after - questions.begin.begin()) - 1;
  };
  std::int64_t current = 0;
  const auto reply = [&] {
    result.most_holders = std::max(result.most_holders, static_cast<std::int64_t>(places.size()));
    if (places.size() > 1) {
      sources.resize(places.size());
      std::transform(places.begin(), places.end(), sources.begin(), source);
      for (std::size_t s = 0; s < std::min(sources.size(), most_copies); ++s) {
        auto& words = replies[sources[s]];
        words.push_back(current);
        words.push_back(static_cast<std::int64_t>(sources.size()));
        for (const std::size_t holder : sources) words.push_back(questions.ranks[holder]);
      }
    }
    places.clear();
  };
  in_order_of_id(questions.words, [&](std::int64_t id, std::size_t place) {
    if (id != current) reply();
    current = id;
    places.push_back(place);
  });
  reply();
  for (std::size_t s = 0; s < replies.size(); ++s) {
    if (replies[s].empty()) continue;
    result.parcels.add(questions.ranks[s], replies[s]);
    replies[s] = {};
  }
  return result;
}

std::size_t first_follower(std::span<const std::int64_t> holders, std::int32_t rank) {
  const auto mine = static_cast<std::size_t>(std::lower_bound(holders.begin(), holders.end(), rank) - holders.begin());
  return (mine + 1) * most_copies;
}

mpi::Parcels relayed(const mpi::Parcels& answers, std::int32_t rank) {
  std::map<int, std::vector<std::int64_t>> to;
  each_entry(answers, [&](std::int64_t id, std::span<const std::int64_t> holders) {
    const std::size_t from = first_follower(holders, rank), end = std::min(holders.size(), from + most_copies);
    for (std::size_t h = from; h < end; ++h) {
      auto& words = to[static_cast<int>(holders[h])];
      words.push_back(id);
      words.push_back(static_cast<std::int64_t>(holders.size()));
      words.insert(words.end(), holders.begin(), holders.end());
    }
  });
  mpi::Parcels parcels;
  for (auto& [holder, words] : to) {
    parcels.add(holder, words);
    words = {};
  }
  return parcels;
}

int relay_rounds(std::int64_t holders) {
  int rounds = 0;
  constexpr auto copies = static_cast<std::int64_t>(most_copies);
  for (std::int64_t level = copies, reached = copies; reached < holders; ++rounds) {
    level *= copies;
    reached += level;
  }
  return rounds;
}

Sharing sharing(std::span<const std::int64_t> ids, std::span<const mpi::Parcels> answers) {
  struct Found {
    std::int32_t position;
    std::span<const std::int64_t> holders;
  };
  std::vector<Found> found;
  std::size_t holders_count = 0;
  for (const mpi::Parcels& parcels : answers) {
    each_entry(parcels, [&](std::int64_t id, std::span<const std::int64_t> holders) {
      const auto position = std::lower_bound(ids.begin(), ids.end(), id) - ids.begin();
      found.push_back({static_cast<std::int32_t>(position), holders});
      holders_count += holders.size();
    });
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.position < b.position; });
  Sharing result;
  result.positions.reserve(found.size());
  result.begin.reserve(found.size() + 1);
  result.begin.push_back(0);
  result.holders.reserve(holders_count);
  for (const Found& entry : found) {
    result.positions.push_back(entry.position);
    for (const std::int64_t holder : entry.holders) result.holders.push_back(static_cast<std::int32_t>(holder));
    result.begin.push_back(static_cast<std::int64_t>(result.holders.size()));
  }
  return result;
}

}  // namespace weft::exchange::directory
