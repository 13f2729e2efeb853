#include "weft/space/regions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "weft/exchange/id_numbers.hpp"
#include "weft/mesh/shape.hpp"
#include "weft/space/disjoint_sets.hpp"

namespace weft::space {
namespace {

// Centres of elements in sixteenths of the mean size of an element along x, y and z.
using Centre = std::array<std::int32_t, 3>;

std::vector<Centre> centres_of(const mesh::Mesh& mesh, std::span<const std::int64_t> elements) {
  const auto count = std::ssize(elements);
  std::vector<std::array<double, 3>> centres(count), sizes(count);
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) {
    const std::array<double, 24> corners = mesh::corners_of(mesh, elements[i]);
    for (int d = 0; d < 3; ++d) {
      double low = corners[d], high = corners[d], sum = 0;
      for (int c = 0; c < 8; ++c) {
        low = std::min(low, corners[3 * c + d]);
        high = std::max(high, corners[3 * c + d]);
        sum += corners[3 * c + d];
      }
      centres[i][d] = sum / 8;
      sizes[i][d] = high - low;
    }
  }
  std::array<double, 3> low, size{};
  low.fill(std::numeric_limits<double>::max());
  for (std::int64_t i = 0; i < count; ++i) {
    for (int d = 0; d < 3; ++d) {
      low[d] = std::min(low[d], centres[i][d]);
      size[d] += sizes[i][d] / static_cast<double>(count);
    }
  }
  constexpr double most = 1e9;
  std::vector<Centre> places(count);
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i)
    for (int d = 0; d < 3; ++d)
      places[i][d] = static_cast<std::int32_t>(std::lround(std::min(most, 16 * (centres[i][d] - low[d]) / size[d])));
  return places;
}

class Bisection {
 public:
  Bisection(const std::vector<Centre>& centres, std::span<const int> costs, int lanes)
      : centres_(centres), costs_(costs), unit_(lanes), threads_(centres.size()) {}

  // Gives `parts`, in the order of the elements, to `threads` threads from `first` on.
  // across: the axis that the layers between threads follow each other along; -1: not chosen yet.
  void divide(std::vector<std::int64_t> parts, int first, int threads, int across = -1) {
    if (threads == 1 || parts.empty()) {
      for (const std::int64_t i : parts) threads_[i] = first;
      return;
    }
    const int below = threads / 2;
    const Box box = box_of(parts);
    // The longest first; of equal ones z, as meshes often have their elements in layers.
    std::array<int, 3> axes{2, 1, 0};
    std::ranges::stable_sort(axes, std::ranges::greater(), [&](int d) { return box.high[d] - box.low[d]; });
    if (across >= 0) std::ranges::stable_partition(axes, [&](int d) { return d == across; });
    // With two layers per thread, two colours suffice if all cuts are across the same axis.
    if (box.high[axes[0]] - box.low[axes[0]] >= 16 * (2 * threads - 1)) across = axes[0];
    std::vector<std::int64_t> rest = cut(parts, box, axes, below, threads);
    divide(std::move(parts), first, below, across);
    divide(std::move(rest), first + below, threads - below, across);
  }
  std::vector<int> threads() { return std::move(threads_); }

 private:
  struct Box {
    Centre low, high;
  };
  Box box_of(std::span<const std::int64_t> parts) const {
    Box box{centres_[parts.front()], centres_[parts.front()]};
    for (const std::int64_t i : parts) {
      for (int d = 0; d < 3; ++d) {
        box.low[d] = std::min(box.low[d], centres_[i][d]);
        box.high[d] = std::max(box.high[d], centres_[i][d]);
      }
    }
    return box;
  }

  // Removes the part for the last threads from `parts` and returns it. The cut is across the first of the axes.
  std::vector<std::int64_t> cut(std::vector<std::int64_t>& parts, const Box& box, const std::array<int, 3>& axes,
                                int below, int threads) const {
    const int axis = axes[0];
    // Where the cost reaches its share. A cut between two layers of elements is preferred if it is nearly as even.
    constexpr std::int64_t most = 1 << 16;
    const std::int64_t range = std::int64_t{box.high[axis]} - box.low[axis] + 1, steps = std::min(range, most);
    const auto layer = [&](std::int64_t i) {
      return (std::int64_t{centres_[i][axis]} - box.low[axis]) * steps / range;
    };
    std::vector<std::int64_t> cost(steps + 1), count(steps + 1);  // of the layers before each
    for (const std::int64_t i : parts) {
      cost[layer(i) + 1] += costs_[i];
      ++count[layer(i) + 1];
    }
    std::partial_sum(cost.begin(), cost.end(), cost.begin());
    std::partial_sum(count.begin(), count.end(), count.begin());
    const std::int64_t wanted = cost.back() * below / threads, tolerance = cost.back() / (64 * threads);
    std::int64_t at = std::ranges::upper_bound(cost, wanted) - cost.begin() - 1;
    std::int64_t kept = count[at];
    if (cost[at + 1] - wanted <= std::min(tolerance, wanted - cost[at]))
      kept = count[at + 1];
    else if (wanted - cost[at] > tolerance)
      kept += (count[at + 1] - count[at]) * (wanted - cost[at]) / (cost[at + 1] - cost[at]);
    // Whole blocks, so that none has elements of two threads.
    kept = std::min((kept + unit_ / 2) / unit_ * unit_, std::ssize(parts));
    at = std::ranges::upper_bound(count, kept) - count.begin() - 1;
    if (at == steps) return {};
    std::vector<std::int64_t> lower;
    for (const std::int64_t i : parts)
      if (layer(i) == at) lower.push_back(i);
    std::ranges::stable_sort(lower, {},
                             [&](std::int64_t i) { return std::tuple(centres_[i][axes[1]], centres_[i][axes[2]]); });
    lower.resize(kept - count[at]);
    std::ranges::sort(lower);
    return removed(parts, [&](std::int64_t i) {
      return layer(i) > at || (layer(i) == at && !std::ranges::binary_search(lower, i));
    });
  }
  template <class Test>
  static std::vector<std::int64_t> removed(std::vector<std::int64_t>& parts, const Test& test) {
    std::vector<std::int64_t> kept, others;
    for (const std::int64_t i : parts) (test(i) ? others : kept).push_back(i);
    parts = std::move(kept);
    return others;
  }

  const std::vector<Centre>& centres_;
  std::span<const int> costs_;
  std::int64_t unit_;
  std::vector<int> threads_;
};

// Elements of a thread's border that are connected by vertices which other threads touch, too, are a patch. Returns the
// patch of each element, from 0 for each thread, and -1 for the other elements.
std::vector<int> patches_of(const mesh::Mesh& mesh, std::span<const std::int64_t> elements,
                            std::span<const int> threads) {
  const auto count = std::ssize(elements);
  std::vector<std::int64_t> ids(8 * count);
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) std::ranges::copy(mesh.topology.vertices[elements[i]], ids.begin() + 8 * i);
  const exchange::IdNumbers numbers(ids, mesh.topology.global_vertices);
  constexpr int untouched = -1, contested = -2;
  std::vector<int> toucher(numbers.size(), untouched);
  const auto vertices_of = [&](std::int64_t i) { return std::span(ids).subspan(8 * i, 8); };
  for (std::int64_t i = 0; i < count; ++i) {
    for (const std::int64_t id : vertices_of(i)) {
      int& by = toucher[numbers[id]];
      by = by == untouched || by == threads[i] ? threads[i] : contested;
    }
  }
  DisjointSets sets(count);
  std::vector<bool> at_border(count);
  std::map<std::pair<int, std::int32_t>, std::int64_t> last;  // the last element by thread and vertex
  for (std::int64_t i = 0; i < count; ++i) {
    for (const std::int64_t id : vertices_of(i)) {
      const std::int32_t v = numbers[id];
      if (toucher[v] != contested) continue;
      at_border[i] = true;
      const auto [at, fresh] = last.try_emplace({threads[i], v}, i);
      if (!fresh) sets.merge(i, at->second);
    }
  }
  std::vector<int> patch(count, -1), next(1 + *std::ranges::max_element(threads), 0), of_root(count, -1);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!at_border[i]) continue;
    int& number = of_root[sets.root(i)];
    if (number < 0) number = next[threads[i]]++;
    patch[i] = number;
  }
  return patch;
}

}  // namespace

std::vector<Region> regions(const mesh::Mesh& mesh, std::span<const std::int64_t> elements, std::span<const int> costs,
                            int lanes, int threads) {
  if (elements.empty()) return {};
  const std::vector<Centre> centres = centres_of(mesh, elements);
  std::vector<std::int64_t> all(elements.size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  Bisection bisection(centres, costs, lanes);
  bisection.divide(std::move(all), 0, threads);
  const std::vector<int> thread_of = bisection.threads(), patches = patches_of(mesh, elements, thread_of);
  std::vector<Region> regions;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    constexpr int inside = 1;
    const int patch = patches[i];
    regions.push_back({thread_of[i], patch < 0 ? inside : patch == 0 ? 0 : std::min(1 + patch, Region::groups - 1)});
  }
  return regions;
}

}  // namespace weft::space
