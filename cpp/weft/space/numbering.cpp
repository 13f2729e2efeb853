#include "weft/space/numbering.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "weft/device/host_memory.hpp"
#include "weft/space/bricks.hpp"
#include "weft/space/regions.hpp"

namespace weft::space {
namespace {

// The points [k][j][i] of an element in the order in which blocks process them: by columns along t, interior points
// first.
std::vector<int> inside_first(int order) {
  const int n = order + 1;
  std::vector<int> points;
  const auto inside = [&](int i) { return i > 0 && i < n - 1; };
  for (const bool inner : {true, false})
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k)
          if ((inside(i) && inside(j) && inside(k)) == inner) points.push_back((k * n + j) * n + i);
  return points;
}

// With a variable metric, computed or loaded, an element takes 1.5 times as long as with a constant one
// (docs/cpu-kernels.md).
int cost_of(mesh::Shape shape) { return shape <= mesh::Shape::affine ? 2 : 3; }

// The parts of the split, in elements.
std::array<Range, 3> parts_of(const BlockSplit& split, std::int64_t elements, int lanes) {
  const std::int64_t half = split.half * lanes, halo_end = std::min(split.halo_end * lanes, elements);
  return {Range{0, half}, {half, halo_end}, {halo_end, elements}};
}

// Puts the elements of each part in the order of their regions, and those of a region in the order of their shapes.
// Returns the region of each element.
std::vector<Region> sort_by_region(BlockSplit& split, const mesh::Mesh& mesh, std::span<const mesh::Shape> shapes,
                                   int lanes, int threads) {
  std::vector<Region> region_of(mesh.elements());
  for (const Range& part : parts_of(split, mesh.elements(), lanes)) {
    const auto elements = std::span(split.order).subspan(part.begin, part.end - part.begin);
    std::vector<int> costs;
    for (const std::int64_t e : elements) costs.push_back(cost_of(shapes[e]));
    const std::vector<Region> here = regions(mesh, elements, costs, lanes, threads);
    for (std::size_t i = 0; i < elements.size(); ++i) region_of[elements[i]] = here[i];
    constexpr std::size_t each = mesh::all_shapes.size();
    std::vector<std::vector<std::int64_t>> sorted(threads * Region::groups * each);
    for (const std::int64_t e : elements) {
      const int region = region_of[e].thread * Region::groups + region_of[e].group;
      sorted[region * each + static_cast<std::size_t>(shapes[e])].push_back(e);
    }
    auto to = elements.begin();
    for (const auto& alike : sorted) to = std::ranges::copy(alike, to).out;
  }
  return region_of;
}

// Chooses the elements of each block among those of one shape and region in a part of the split. region_of: of each
// element; empty: there is one thread.
void fill_blocks(BlockSplit& split, const mesh::Mesh& mesh, std::span<const mesh::Shape> shapes,
                 std::span<const Region> region_of, int lanes) {
  const auto alike = [&](std::int64_t a, std::int64_t b) {
    return shapes[a] == shapes[b] && (region_of.empty() || region_of[a] == region_of[b]);
  };
  for (const Range& part : parts_of(split, mesh.elements(), lanes)) {
    for (std::int64_t begin = part.begin, next; begin < part.end; begin = next) {
      next = begin + 1;
      while (next < part.end && alike(split.order[next], split.order[begin])) ++next;
      const std::int64_t first = (begin + lanes - 1) / lanes * lanes;  // where a block begins
      if (first >= next) continue;
      const std::span<std::int64_t> elements = std::span(split.order).subspan(first, next - first);
      std::ranges::copy(lanes_across_bricks(elements, mesh.topology.vertices.get(), lanes), elements.begin());
    }
  }
}

}  // namespace

BlockSplit split_blocks(std::span<const std::uint8_t> halo, std::span<const mesh::Shape> shapes, int lanes) {
  const auto elements = std::ssize(halo), outer = std::ranges::count_if(halo, [](auto flag) { return flag != 0; }),
             inner = elements - outer;
  BlockSplit split;
  split.blocks = (elements + lanes - 1) / lanes;
  split.half = outer == 0 ? 0 : inner / 2 / lanes;  // without a halo there is nothing to overlap
  // The last block of the halo is filled up with elements without shared points.
  const std::int64_t before = split.half * lanes,
                     fill = std::min<std::int64_t>((lanes - outer % lanes) % lanes, inner - before);
  split.halo_end = split.half + (outer + fill + lanes - 1) / lanes;
  split.order.resize(elements);
  std::int64_t next_outer = before, inner_seen = 0;
  for (const mesh::Shape shape : mesh::all_shapes) {
    for (std::int64_t e = 0; e < elements; ++e) {
      if (shapes[e] != shape) continue;
      if (halo[e] != 0) {
        split.order[next_outer++] = e;
      } else {
        split.order[inner_seen < before ? inner_seen : inner_seen + outer] = e;
        ++inner_seen;
      }
    }
  }
  return split;
}

Numbering::Numbering(mesh::Mesh given, int order_, const mesh::BoundarySet& without, int lanes_)
    : mesh(std::move(given)), order(order_), lanes(lanes_) {
  set_up(PointNumbers(mesh, order, without));
}

Numbering::Numbering(mesh::Mesh given, int order_, std::span<const std::int64_t> ids, int lanes_)
    : mesh(std::move(given)), order(order_), lanes(lanes_) {
  set_up(PointNumbers(mesh, order, ids));
}

void Numbering::set_up(const PointNumbers& points) {
  const std::int64_t each = points_per_element();
  exchange::NumberedPoints numbered{
      .numbers = {}, .count = points.count(), .sharing = points.sharing(), .shared_ids = points.shared_ids()};
  mesh.comm.together([&] {
    const std::vector<std::int32_t>& positions = points.sharing().positions;
    std::vector<std::uint8_t> shared(positions.empty() ? 0 : positions.back() + 1);  // by number
    for (const std::int32_t number : positions) shared[number] = 1;
    std::vector<std::uint8_t> halo(mesh.elements());
#pragma omp parallel if (!shared.empty())
    {
      std::vector<std::int32_t> numbers(each);
#pragma omp for
      for (std::int64_t e = 0; e < mesh.elements(); ++e) {
        if (shared.empty()) continue;
        points.of_element(e, numbers.data());
        halo[e] = std::ranges::any_of(
            numbers, [&](std::int32_t n) { return n >= 0 && n < std::ssize(shared) && shared[n] != 0; });
      }
    }
    halo_elements = std::ranges::count(halo, 1);
    std::vector<mesh::Shape> of_elements(mesh.elements());
#pragma omp parallel for
    for (std::int64_t e = 0; e < mesh.elements(); ++e) of_elements[e] = mesh::shape_of(mesh, e);
    split = split_blocks(halo, of_elements, lanes);
    if (lanes > 1) {
      threads = omp_get_max_threads();
      std::vector<Region> region_of;
      if (threads > 1) region_of = sort_by_region(split, mesh, of_elements, lanes, threads);
      fill_blocks(split, mesh, of_elements, region_of, lanes);
    }
    shapes.assign(split.blocks, mesh::Shape::box);
    for (std::int64_t e = 0; e < mesh.elements(); ++e)
      shapes[e / lanes] = std::max(shapes[e / lanes], of_elements[split.order[e]]);
    if (lanes > 1) divide_among_threads(points);
  });
  if (lanes == 1)
    number_elements(points, std::move(numbered));
  else
    number_blocks(points, std::move(numbered));
}

// Divides the blocks so that chunks that run at the same time have no points in common.
void Numbering::divide_among_threads(const PointNumbers& points) {
  const std::array<Range, 3> parts{Range{0, split.half}, {split.half, split.halo_end}, {split.halo_end, split.blocks}};
  std::vector<std::int32_t> surface;  // numbers of the points on the surfaces of elements, in the order of the split
  std::int64_t each_surface = 0;
  if (threads > 1) {
    const std::vector<int> places = inside_first(order);
    const std::int64_t inside = std::int64_t{order - 1} * (order - 1) * (order - 1);
    each_surface = points_per_element() - inside;
    surface.resize(mesh.elements() * each_surface);
#pragma omp parallel
    {
      std::vector<std::int32_t> numbers(points_per_element());
#pragma omp for
      for (std::int64_t e = 0; e < mesh.elements(); ++e) {
        points.of_element(split.order[e], numbers.data());
        for (std::int64_t q = 0; q < each_surface; ++q) surface[e * each_surface + q] = numbers[places[inside + q]];
      }
    }
  }
  std::vector<int> costs;
  for (const mesh::Shape shape : shapes) costs.push_back(cost_of(shape));
  Division division = divide_blocks(parts, threads, costs, points.count(), [&](std::int64_t b) {
    const std::int64_t begin = b * lanes, end = std::min(begin + lanes, mesh.elements());
    return std::span<const std::int32_t>(surface).subspan(begin * each_surface, (end - begin) * each_surface);
  });
  chunks = std::move(division.chunks);
  std::vector<std::int64_t> elements;
  std::vector<mesh::Shape> of_blocks;
  for (const std::int64_t b : division.order) {
    const auto begin = split.order.begin() + b * lanes;
    elements.insert(elements.end(), begin, begin + std::min<std::int64_t>(lanes, split.order.end() - begin));
    of_blocks.push_back(shapes[b]);
  }
  split.order = std::move(elements);
  shapes = std::move(of_blocks);
}

void Numbering::number_elements(const PointNumbers& points, exchange::NumberedPoints numbered) {
  const std::int64_t each = points_per_element();
  mesh.comm.together([&] {
    numbered.numbers = device::large_vector<std::int32_t>(mesh.elements() * each);
#pragma omp parallel for
    for (std::int64_t e = 0; e < mesh.elements(); ++e)
      points.of_element(split.order[e], numbered.numbers.data() + e * each);
  });
  assembly = exchange::Assembly(std::move(numbered), each, 1, mesh.comm);
  index = std::move(assembly.index);
}

void Numbering::number_blocks(const PointNumbers& points, exchange::NumberedPoints numbered) {
  const std::int64_t each = points_per_element(), elements = mesh.elements();
  const std::vector<int> places = inside_first(order);
  const auto place = [&](std::int64_t e, std::int64_t q) { return (e / lanes * each + q) * lanes + e % lanes; };
  mesh.comm.together([&] {
    numbered.numbers = device::large_vector<std::int32_t>(split.blocks * lanes * each, -1);
#pragma omp parallel
    {
      std::vector<std::int32_t> own(each);
#pragma omp for
      for (std::int64_t e = 0; e < elements; ++e) {
        points.of_element(split.order[e], own.data());
        for (std::int64_t q = 0; q < each; ++q) numbered.numbers[place(e, q)] = own[places[q]];
      }
    }
  });
  assembly = exchange::Assembly(std::move(numbered), lanes * each, lanes, mesh.comm);
  mesh.comm.together([&] {
    index = device::large_vector<std::int32_t>(elements * each);
#pragma omp parallel for
    for (std::int64_t e = 0; e < elements; ++e)
      for (std::int64_t q = 0; q < each; ++q) index[e * each + places[q]] = assembly.index[place(e, q)];
  });
}

}  // namespace weft::space
