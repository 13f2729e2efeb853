#include "weft/space/bricks.hpp"

#include <algorithm>
#include <map>

#include "weft/mesh/reference.hpp"

namespace weft::space {
namespace {

using Vertices = std::span<const std::array<std::int64_t, 8>>;

struct Brick {
  std::int64_t begin;                    // among the elements given
  std::array<std::int64_t, 3> counts{};  // of elements along r, s and t

  std::int64_t size() const { return counts[0] * counts[1] * counts[2]; }
};

// Whether element b follows a along a direction.
bool follows(Vertices vertices, std::int64_t a, std::int64_t b, int direction) {
  const auto& high = mesh::face_corners[2 * direction + 1];
  const auto& low = mesh::face_corners[2 * direction];
  for (int c = 0; c < 4; ++c)
    if (vertices[a][high[c]] != vertices[b][low[c]]) return false;
  return true;
}

// The longest bricks of the elements, first along r, then s, then t.
std::vector<Brick> bricks_of(std::span<const std::int64_t> elements, Vertices vertices) {
  std::vector<Brick> bricks;
  for (std::int64_t e = 0; e < std::ssize(elements); ++e) bricks.push_back({e, {1, 1, 1}});
  for (int direction = 0; direction < 3; ++direction) {
    std::vector<Brick> joined;
    std::int64_t last = 0;  // where the last part of the last brick begins
    for (const Brick& part : bricks) {
      Brick* const to = joined.empty() ? nullptr : &joined.back();
      bool fits = to != nullptr && follows(vertices, elements[last], elements[part.begin], direction);
      for (int d = 0; fits && d < direction; ++d) fits = to->counts[d] == part.counts[d];
      if (fits)
        ++to->counts[direction];
      else
        joined.push_back(part);
      last = part.begin;
    }
    bricks = std::move(joined);
  }
  return bricks;
}

}  // namespace

std::vector<std::int64_t> lanes_across_bricks(std::span<const std::int64_t> elements, Vertices vertices, int lanes) {
  std::vector<std::int64_t> order, alone;
  // Element i of each of `lanes` equal pieces.
  const auto append = [&](std::span<const std::int64_t> begins, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i)
      for (const std::int64_t begin : begins) order.push_back(elements[begin + i]);
  };
  std::map<std::array<std::int64_t, 3>, std::vector<std::int64_t>> waiting;  // beginnings of bricks, by their counts
  const auto pieces = [&](const Brick& brick, std::int64_t size) {  // one brick, cut into runs of `size` elements
    for (std::int64_t at = brick.begin; at < brick.begin + brick.size(); at += lanes * size) {
      std::vector<std::int64_t> begins;
      for (int l = 0; l < lanes; ++l) begins.push_back(at + l * size);
      append(begins, size);
    }
  };
  for (const Brick& brick : bricks_of(elements, vertices)) {
    const auto [r, s, t] = brick.counts;
    if (r % lanes == 0 && r > lanes) {
      pieces(brick, r / lanes);
    } else if (s % lanes == 0 && s > lanes) {
      pieces(brick, s / lanes * r);
    } else {
      std::vector<std::int64_t>& begins = waiting[brick.counts];
      begins.push_back(brick.begin);
      if (std::ssize(begins) < lanes) continue;
      append(begins, brick.size());
      begins.clear();
    }
  }
  for (const auto& [counts, begins] : waiting)
    for (const std::int64_t begin : begins)
      for (std::int64_t i = 0; i < counts[0] * counts[1] * counts[2]; ++i) alone.push_back(begin + i);
  std::ranges::sort(alone);
  for (const std::int64_t i : alone) order.push_back(elements[i]);
  return order;
}

}  // namespace weft::space
