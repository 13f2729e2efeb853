#include "weft/space/chunks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

namespace weft::space {
namespace {

constexpr std::array parts{Range{0, 9}, Range{9, 12}, Range{12, 60}};

// Blocks on a line; each touches two entries, which it shares with its neighbours.
struct Line {
  std::vector<std::int32_t> entries;
  explicit Line(std::int64_t blocks, bool left_out = false) {
    for (std::int32_t b = 0; b < blocks; ++b)
      for (const std::int32_t entry : {b, b + 1}) entries.push_back(left_out ? -1 : entry);
  }
  std::span<const std::int32_t> operator()(std::int64_t block) const {
    return std::span<const std::int32_t>(entries).subspan(2 * block, 2);
  }
};

Division divided(const Line& line, int threads, std::span<const int> costs) {
  return divide_blocks(parts, threads, costs, std::ssize(costs) + 1, line);
}

}  // namespace

TEST(Chunks, EveryBlockIsExecutedOnceInItsPartAndTheLastOneLast) {
  const std::vector<int> costs(60, 2);
  for (const int threads : {1, 2, 3, 7, 40}) {
    const Division division = divided(Line(60), threads, costs);
    ASSERT_EQ(division.order.size(), 60U);
    EXPECT_EQ(division.order.back(), 59) << threads;
    std::int64_t next = 0;
    for (std::size_t p = 0; p < 3; ++p) {
      EXPECT_EQ(next, parts[p].begin);
      for (const auto& colour : division.chunks[p])
        for (const Range& chunk : colour) {
          EXPECT_EQ(chunk.begin, next) << "chunks must follow each other as they are executed";
          EXPECT_LT(chunk.begin, chunk.end);
          next = chunk.end;
        }
      std::set<std::int64_t> of_part(division.order.begin() + parts[p].begin, division.order.begin() + parts[p].end);
      EXPECT_EQ(std::ssize(of_part), parts[p].end - parts[p].begin);
      EXPECT_EQ(*of_part.begin(), parts[p].begin);
      EXPECT_EQ(*of_part.rbegin(), parts[p].end - 1);
    }
  }
}

TEST(Chunks, ChunksOfAColourShareNoEntry) {
  const std::vector<int> costs(60, 1);
  const Line line(60);
  for (const int threads : {2, 5, 16}) {
    const Division division = divided(line, threads, costs);
    for (const auto& part : division.chunks)
      for (const auto& colour : part) {
        std::set<std::int32_t> seen;
        for (const Range& chunk : colour) {
          std::set<std::int32_t> own;
          for (std::int64_t b = chunk.begin; b < chunk.end; ++b)
            own.insert(line(division.order[b]).begin(), line(division.order[b]).end());
          for (const std::int32_t entry : own) EXPECT_TRUE(seen.insert(entry).second) << entry;
        }
      }
  }
}

TEST(Chunks, ThreadsGetTheSameCost) {
  std::vector<int> costs(60, 1);
  std::fill(costs.begin() + 36, costs.end(), 3);  // half of the last part costs three times as much
  const Division division = divided(Line(60), 2, costs);
  ASSERT_EQ(division.chunks[2].size(), 2U);
  for (const auto& colour : division.chunks[2]) {
    ASSERT_EQ(colour.size(), 2U);
    std::array<std::int64_t, 2> cost{};
    for (int t = 0; t < 2; ++t)
      for (std::int64_t b = colour[t].begin; b < colour[t].end; ++b) cost[t] += costs[division.order[b]];
    EXPECT_NEAR(static_cast<double>(cost[0]), static_cast<double>(cost[1]), 3);
  }
}

// Chunks of a quarter of a layer touch those of the layers before and after: three colours of two chunks would leave
// most of eight threads idle.
TEST(Chunks, ManyThreadsGetMoreAndSmallerChunks) {
  constexpr int side = 16, layers = 16, threads = 12;
  std::vector<std::vector<std::int32_t>> entries;
  for (int k = 0; k < layers; ++k)
    for (int j = 0; j < side; ++j) {  // one block per row
      entries.emplace_back();
      for (const int dk : {0, 1})
        for (const int dj : {0, 1}) entries.back().push_back((k + dk) * (side + 1) + j + dj);
    }
  const std::vector<int> costs(entries.size(), 1);
  const Range all{0, std::ssize(entries)};
  const Division division = divide_blocks({Range{0, 0}, Range{0, 0}, all}, threads, costs, 17 * 17,
                                          [&](std::int64_t b) { return std::span<const std::int32_t>(entries[b]); });
  double time = 0;
  for (const auto& colour : division.chunks[2]) {
    std::vector<std::int64_t> of_thread(threads, 0);
    for (std::size_t c = 0; c < colour.size(); ++c) of_thread[c % threads] += colour[c].end - colour[c].begin;
    time += static_cast<double>(*std::ranges::max_element(of_thread));
  }
  EXPECT_GT(static_cast<double>(entries.size()) / (time * threads), 0.7);
}

TEST(Chunks, EntriesLeftOutDoNotCount) {
  const std::vector<int> costs(60, 1);
  for (const auto& part : divided(Line(60, true), 3, costs).chunks) EXPECT_LE(part.size(), 1U);
}

TEST(Chunks, BlocksThatAllMeetCannotBeDividedAmongManyThreads) {
  const std::vector<std::int32_t> same{0};
  const std::vector<int> costs(400, 1);
  EXPECT_THROW(divide_blocks({Range{0, 0}, Range{0, 0}, Range{0, 400}}, 40, costs, 1,
                             [&](std::int64_t) { return std::span<const std::int32_t>(same); }),
               std::runtime_error);
}

}  // namespace weft::space
