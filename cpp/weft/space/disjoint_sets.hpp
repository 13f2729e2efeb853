// Sets of numbers that are merged step by step (union-find).
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace weft::space {

class DisjointSets {
 public:
  // Numbers 0 to count - 1, each in a set of its own.
  explicit DisjointSets(std::int64_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), std::int64_t{0});
  }
  // The number that stands for the set of i.
  std::int64_t root(std::int64_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }
  void merge(std::int64_t i, std::int64_t j) { parents_[root(i)] = root(j); }

 private:
  std::vector<std::int64_t> parents_;
};

}  // namespace weft::space
