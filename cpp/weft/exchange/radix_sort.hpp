// Radix sort of integers, digit by digit.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace weft::exchange {

// Sorts by bits [from, to) of key(item); items with equal keys keep their order (least significant digit first).
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
    if (place[(key(items.front()) >> shift) & mask] == items.size()) continue;  // all items have the same digit here
    std::size_t sum = 0;
    for (std::size_t& p : place) sum += std::exchange(p, sum);
    for (const Item& item : items) other[place[(key(item) >> shift) & mask]++] = item;
    items.swap(other);
  }
}

// Calls each(id, position) for the positive ids in ascending order; equal ids are ordered by position.
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
  if (id_bits + position_bits <= 64) {  // id and position fit in one word
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

}  // namespace weft::exchange
