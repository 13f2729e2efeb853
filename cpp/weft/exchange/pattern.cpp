#include "weft/exchange/pattern.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/exchange/hash.hpp"
#include "weft/mpi/sparse.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

// Sorts by the bits [from, to) of key(item); equal keys keep their order (least significant digit first).
template <class Item, class Key>
void radix_sort(std::vector<Item>& items, int from, int to, Key key) {
  constexpr int digit = 11;
  constexpr std::size_t buckets = std::size_t{1} << digit;
  if (items.empty()) return;
  std::vector<Item> other(items.size());
  for (int shift = from; shift < to; shift += digit) {
    const std::uint64_t mask = (std::uint64_t{1} << std::min(digit, to - shift)) - 1;
    std::array<std::size_t, buckets> place{};
    for (const Item& item : items) ++place[(key(item) >> shift) & mask];
    if (place[(key(items.front()) >> shift) & mask] == items.size()) continue;  // all alike in this digit
    std::size_t sum = 0;
    for (std::size_t& p : place) sum += std::exchange(p, sum);
    for (const Item& item : items) other[place[(key(item) >> shift) & mask]++] = item;
    items.swap(other);
  }
}

// Calls each(id, position) for the positive ids, ascending, equal ids by position.
template <class F>
void in_order_of_id(std::span<const std::int64_t> ids, F&& each) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  std::size_t count = 0;
  for (const std::int64_t id : ids) {
    if (id <= 0) continue;
    least = std::min(least, id);
    most = std::max(most, id);
    ++count;
  }
  if (count == 0) return;
  const int id_bits = std::bit_width(static_cast<std::uint64_t>(most - least));
  const int position_bits = std::bit_width(ids.size());
  if (id_bits + position_bits <= 64) {  // both in one word
    std::vector<std::uint64_t> words;
    words.reserve(count);
    for (std::size_t p = 0; p < ids.size(); ++p) {
      if (ids[p] > 0) words.push_back(static_cast<std::uint64_t>(ids[p] - least) << position_bits | p);
    }
    radix_sort(words, position_bits, position_bits + id_bits, [](std::uint64_t w) { return w; });
    const std::uint64_t mask = (std::uint64_t{1} << position_bits) - 1;
    for (const std::uint64_t w : words) each(static_cast<std::int64_t>(w >> position_bits) + least, w & mask);
  } else {
    struct Item {
      std::uint64_t key;
      std::size_t position;
    };
    std::vector<Item> items;
    items.reserve(count);
    for (std::size_t p = 0; p < ids.size(); ++p) {
      if (ids[p] > 0) items.push_back({static_cast<std::uint64_t>(ids[p] - least), p});
    }
    radix_sort(items, 0, id_bits, [](const Item& i) { return i.key; });
    for (const Item& i : items) each(static_cast<std::int64_t>(i.key) + least, i.position);
  }
}

}  // namespace

PointsById points_by_id(std::span<const std::int64_t> ids) {
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max() - 1;
  if (ids.size() > most) {
    throw std::length_error("a rank has " + std::to_string(ids.size()) + " points; one rank can index " +
                            std::to_string(most) + ": use more ranks");
  }
  PointsById result;
  result.points.reserve(ids.size());
  result.ids.reserve(ids.size());
  result.begin.reserve(ids.size() + 1);
  in_order_of_id(ids, [&](std::int64_t id, std::size_t position) {
    if (result.ids.empty() || result.ids.back() != id) {
      result.ids.push_back(id);
      result.begin.push_back(static_cast<std::int64_t>(result.points.size()));
    }
    result.points.push_back(static_cast<std::int32_t>(position));
  });
  result.begin.push_back(static_cast<std::int64_t>(result.points.size()));
  result.ids.shrink_to_fit();
  result.begin.shrink_to_fit();
  result.points.shrink_to_fit();
  return result;
}

Sharing find_sharing(std::span<const std::int64_t> ids, const mpi::Comm& comm) {
  const trace::Span span("find sharing", trace::Category::cpu);
  Sharing result;
  result.begin.push_back(0);
  if (comm.size() == 1) return result;

  // Every id to its home rank, ascending within a parcel; asked[questions.begin[q] + i] is the position of the i-th id
  // of parcel q.
  mpi::Parcels questions;
  std::vector<std::int32_t> asked(ids.size());
  comm.together([&] {
    const int position_bits = std::bit_width(ids.size()),
              home_bits = std::bit_width(static_cast<unsigned>(comm.size()));
    std::vector<std::uint64_t> order(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      order[i] = static_cast<std::uint64_t>(pick(hash(ids[i]), comm.size())) << position_bits | i;
    }
    radix_sort(order, position_bits, position_bits + home_bits, [](std::uint64_t w) { return w; });
    questions.words.resize(ids.size());
    for (std::size_t slot = 0; slot < order.size(); ++slot) {
      const auto i = static_cast<std::size_t>(order[slot] & ((std::uint64_t{1} << position_bits) - 1));
      const auto home = static_cast<int>(order[slot] >> position_bits);
      if (questions.ranks.empty() || questions.ranks.back() != home) {
        if (slot != 0) questions.begin.push_back(static_cast<std::int64_t>(slot));
        questions.ranks.push_back(home);
      }
      asked[slot] = static_cast<std::int32_t>(i);
      questions.words[slot] = ids[i];
    }
    if (!ids.empty()) questions.begin.push_back(static_cast<std::int64_t>(ids.size()));
  });
  const mpi::Parcels received = mpi::sparse_exchange(comm, questions);
  questions.words = {};

  // At home: who sent the same id. The answer to each of them: which of its ids, how many holders, the holders.
  mpi::Parcels answers;
  comm.together([&] {
    std::vector<std::vector<std::int64_t>> replies(received.count());
    std::vector<std::size_t> members;  // places in received.words of one id, by ascending rank
    const auto source = [&](std::size_t place) {
      const auto after =
          std::upper_bound(received.begin.begin(), received.begin.end(), static_cast<std::int64_t>(place));
      return static_cast<std::size_t>(after - received.begin.begin()) - 1;
    };
    std::int64_t current = 0;
    const auto reply = [&] {
      if (members.size() > 1) {
        std::vector<std::size_t> sources(members.size());
        std::transform(members.begin(), members.end(), sources.begin(), source);
        for (std::size_t m = 0; m < members.size(); ++m) {
          auto& words = replies[sources[m]];
          words.push_back(static_cast<std::int64_t>(members[m]) - received.begin[sources[m]]);
          words.push_back(static_cast<std::int64_t>(members.size()));
          for (const std::size_t s : sources) words.push_back(received.ranks[s]);
        }
      }
      members.clear();
    };
    in_order_of_id(received.words, [&](std::int64_t id, std::size_t place) {
      if (id != current) reply();
      current = id;
      members.push_back(place);
    });
    reply();
    for (std::size_t s = 0; s < replies.size(); ++s) {
      if (replies[s].empty()) continue;
      answers.add(received.ranks[s], replies[s]);
      replies[s] = {};
    }
  });
  const mpi::Parcels answered = mpi::sparse_exchange(comm, answers);
  answers = {};

  comm.together([&] {
    struct Answer {
      std::int32_t position;
      std::int64_t at;  // of the number of holders in answered.words
    };
    std::vector<Answer> found;
    std::int64_t holders = 0;
    for (std::size_t a = 0; a < answered.count(); ++a) {
      const auto parcel = std::lower_bound(questions.ranks.begin(), questions.ranks.end(), answered.ranks[a]);
      const std::int64_t first = questions.begin[static_cast<std::size_t>(parcel - questions.ranks.begin())];
      for (std::int64_t w = answered.begin[a]; w < answered.begin[a + 1];) {
        const auto place = first + answered.words[static_cast<std::size_t>(w)];
        const std::int64_t count = answered.words[static_cast<std::size_t>(w) + 1];
        found.push_back({asked[static_cast<std::size_t>(place)], w + 1});
        holders += count;
        w += 2 + count;
      }
    }
    std::sort(found.begin(), found.end(), [](const Answer& a, const Answer& b) { return a.position < b.position; });
    result.positions.reserve(found.size());
    result.begin.reserve(found.size() + 1);
    result.holders.reserve(static_cast<std::size_t>(holders));
    for (const Answer& answer : found) {
      result.positions.push_back(answer.position);
      const auto* words = answered.words.data() + answer.at;
      for (std::int64_t h = 0; h < words[0]; ++h) result.holders.push_back(static_cast<std::int32_t>(words[1 + h]));
      result.begin.push_back(static_cast<std::int64_t>(result.holders.size()));
    }
  });
  return result;
}

std::vector<std::uint8_t> shared_with_others(std::span<const std::int64_t> ids, const mpi::Comm& comm) {
  PointsById by_id;
  comm.together([&] { by_id = points_by_id(ids); });
  const Sharing sharing = find_sharing(by_id.ids, comm);
  std::vector<std::uint8_t> shared(ids.size(), 0);
  for (const std::int32_t g : sharing.positions) {
    for (std::int64_t p = by_id.begin[static_cast<std::size_t>(g)]; p < by_id.begin[static_cast<std::size_t>(g) + 1];
         ++p) {
      shared[static_cast<std::size_t>(by_id.points[static_cast<std::size_t>(p)])] = 1;
    }
  }
  return shared;
}

}  // namespace weft::exchange
