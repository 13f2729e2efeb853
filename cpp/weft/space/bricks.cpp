#include "weft/space/bricks.hpp"

#include <algorithm>
#include <iterator>
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

// Cut along a direction into parts that are one element thick.
std::vector<Brick> cut(std::span<const Brick> bricks, int direction) {
  std::vector<Brick> parts;
  for (const Brick& brick : bricks) {
    Brick part = brick;
    part.counts[direction] = 1;
    for (; part.begin < brick.begin + brick.size(); part.begin += part.size()) parts.push_back(part);
  }
  return parts;
}

// Larger layers are not kept together: a block that meets the points of an earlier one should find them in cache.
constexpr std::int64_t largest_layer = 64;

// A long brick has all lanes within it: in parts of each row, in runs of rows, or in runs of layers, of which the last
// may be shorter.
std::vector<Brick> pieces_of(const Brick& brick, int lanes) {
  const auto [r, s, t] = brick.counts;
  Brick piece = brick;
  if (r % lanes == 0 && r > lanes)
    piece.counts = {r / lanes, 1, 1};
  else if (s % lanes == 0 && s > lanes)
    piece.counts = {r, s / lanes, 1};
  else if (t >= 2 * lanes && r * s <= largest_layer)
    piece.counts = {r, s, t / lanes};
  std::vector<Brick> pieces;
  for (const std::int64_t end = brick.begin + brick.size(); piece.begin < end; piece.begin += piece.size()) {
    if (piece.begin + piece.size() > end) piece.counts[2] = (end - piece.begin) / (r * s);
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

std::vector<std::int64_t> lanes_across_bricks(std::span<const std::int64_t> elements, Vertices vertices, int lanes) {
  std::vector<std::int64_t> order;
  // Element i of each of `lanes` equal bricks. Returns those that find no partners.
  const auto group = [&](std::span<const Brick> bricks, std::int64_t largest) {
    std::vector<Brick> left;
    std::map<std::array<std::int64_t, 3>, std::vector<Brick>> waiting;
    for (const Brick& brick : bricks) {
      if (brick.size() > largest) {
        left.push_back(brick);
        continue;
      }
      std::vector<Brick>& equal = waiting[brick.counts];
      equal.push_back(brick);
      if (std::ssize(equal) < lanes) continue;
      for (std::int64_t i = 0; i < brick.size(); ++i)
        for (const Brick& lane : equal) order.push_back(elements[lane.begin + i]);
      equal.clear();
    }
    for (const auto& [counts, equal] : waiting) left.insert(left.end(), equal.begin(), equal.end());
    std::ranges::sort(left, {}, &Brick::begin);
    return left;
  };

  std::vector<Brick> bricks;
  for (const Brick& brick : bricks_of(elements, vertices))
    std::ranges::copy(pieces_of(brick, lanes), std::back_inserter(bricks));
  std::vector<Brick> left = group(bricks, std::ssize(elements));
  left = group(cut(left, 2), largest_layer);
  left = group(cut(left, 1), std::ssize(elements));
  for (const Brick& row : left)
    for (std::int64_t i = 0; i < row.size(); ++i) order.push_back(elements[row.begin + i]);
  return order;
}

}  // namespace weft::space
