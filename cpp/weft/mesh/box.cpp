#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/mesh/mesh.hpp"

namespace weft::mesh {
namespace {

using Index = std::array<std::int64_t, 3>;
using Point = std::array<double, 3>;

void check(const BoxOptions& o, int ranks) {
  std::int64_t elements = 1;
  for (int d = 0; d < 3; ++d) {
    if (o.counts[d] < 1 || o.counts[d] > 1'000'000'000 || o.counts[d] > 1'000'000'000'000 / elements) {
      throw std::invalid_argument("box: " + std::to_string(o.counts[0]) + " x " + std::to_string(o.counts[1]) + " x " +
                                  std::to_string(o.counts[2]) +
                                  " elements: every count must be at least 1 and their product at most 1e12");
    }
    elements *= o.counts[d];
    if (!std::isfinite(o.lower[d]) || !std::isfinite(o.upper[d]) || !(o.lower[d] < o.upper[d])) {
      throw std::invalid_argument("box: lower must be below upper in every direction, but direction " +
                                  std::string(1, "xyz"[d]) + " goes from " + std::to_string(o.lower[d]) + " to " +
                                  std::to_string(o.upper[d]));
    }
  }
  if (ranks > elements) {
    throw std::invalid_argument("box: " + std::to_string(ranks) + " ranks, but the box has only " +
                                std::to_string(elements) + " elements; use fewer ranks or a finer box");
  }
  if (o.deformation != "none" && o.deformation != "smooth" && o.deformation != "kershaw") {
    throw std::invalid_argument("box: unknown deformation \"" + o.deformation + "\"; known: none, smooth, kershaw");
  }
  if (o.deformation_parameter && !std::isfinite(*o.deformation_parameter)) {
    throw std::invalid_argument("box: the deformation parameter must be a finite number");
  }
  if (o.deformation == "kershaw") {
    if (o.periodic[0]) {
      throw std::invalid_argument(
          "box: the kershaw deformation squeezes x- and x+ differently, so that it cannot be "
          "periodic in x");
    }
    if (o.deformation_parameter && !(*o.deformation_parameter > 0 && *o.deformation_parameter <= 1)) {
      throw std::invalid_argument("box: the parameter of the kershaw deformation must be in (0, 1]");
    }
  }
}

// The Kershaw map of the unit cube (Kolev et al., "Efficient exascale discretizations", and the CEED bake-off
// problems). x is unchanged. y and z are compressed towards one side by `eps` at x = 0 and towards the other side at x
// = 1; in between they swing back and forth over six layers in x.
double squeeze_right(double eps, double y) { return y <= 0.5 ? (2 - eps) * y : 1 + eps * (y - 1); }
double squeeze_left(double eps, double y) { return 1 - squeeze_right(eps, 1 - y); }

double kershaw(double eps, double x, double y) {
  const double left = squeeze_left(eps, y), right = squeeze_right(eps, y);
  const double layer = std::floor(6 * x), within = 6 * x - layer;
  auto blend = [](double from, double to, double at) { return from + (to - from) * at; };
  switch (static_cast<int>(layer)) {
    case 0:
      return left;
    case 1:
    case 4:
      return blend(left, right, within);
    case 2:
      return blend(right, left, 0.5 * within);
    case 3:
      return blend(right, left, 0.5 + 0.5 * within);
    default:
      return right;
  }
}

Point deform(const BoxOptions& o, const Point& p) {
  if (o.deformation == "kershaw") {
    const double eps = o.deformation_parameter.value_or(0.3);
    return {p[0], kershaw(eps, p[0], p[1]), kershaw(eps, p[0], p[2])};
  }
  if (o.deformation == "smooth") {
    const double move = o.deformation_parameter.value_or(0.05) * std::sin(2 * std::numbers::pi * p[0]) *
                        std::sin(2 * std::numbers::pi * p[1]) * std::sin(2 * std::numbers::pi * p[2]);
    return {p[0] + move, p[1] + move, p[2] + move};
  }
  return p;
}

// The process grid that cuts the fewest faces among those whose largest block is within 5 % of an even share; all zeros
// if there is none.
Index choose_grid(const BoxOptions& o, std::int64_t ranks) {
  const auto& n = o.counts;
  const double fair = std::ceil(double(n[0]) * n[1] * n[2] / ranks);
  Index best{};
  double fewest = std::numeric_limits<double>::infinity();
  for (std::int64_t px = 1; px <= std::min(ranks, n[0]); ++px) {
    if (ranks % px != 0) continue;
    for (std::int64_t py = 1; py <= std::min(ranks / px, n[1]); ++py) {
      if (ranks / px % py != 0) continue;
      const Index grid{px, py, ranks / px / py};
      if (grid[2] > n[2]) continue;
      double largest = 1, cut = 0;
      for (int d = 0; d < 3; ++d) {
        largest *= (n[d] + grid[d] - 1) / grid[d];
        const double planes = grid[d] == 1 ? 0 : grid[d] - 1 + o.periodic[d];
        cut += planes * n[(d + 1) % 3] * n[(d + 2) % 3];
      }
      if (largest <= 1.05 * fair && cut < fewest) {
        fewest = cut;
        best = grid;
      }
    }
  }
  return best;
}

// The width of a tile if nothing speaks for another: neighbours are then processed while in cache.
constexpr std::int64_t usual_width = 4;

// How the elements of a box are cut along one direction: `count` equal tiles, and one of the elements that are left.
struct Tiles {
  std::int64_t width, count;
  std::int64_t together;  // equal tiles that follow each other in the order of the elements
  double quality;         // share of the points on surfaces that vectors of lanes read at once
};

// The quality is fitted to cubes of 4^3 to 32^3 elements: tiles that are processed together share a face with the next
// one, and what is left finds partners of its own.
Tiles tiles_of(std::int64_t elements, std::int64_t together) {
  constexpr std::int64_t widest = 7;
  if (together == 1) return {usual_width, elements / usual_width, 1, 1};
  Tiles best{elements, 0, together, 0};
  for (std::int64_t width = 1; width <= widest; ++width) {
    const std::int64_t count = elements / (width * together) * together, left = elements - count * width;
    if (left == width) continue;  // it would be taken for one of the equal tiles
    const double quality = (0.6 + 0.4 * static_cast<double>(count * width) / elements) * (1 - 0.58 / width);
    if (quality > best.quality && count > 0) best = {width, count, together, quality};
  }
  return best;
}

// The lanes of vectors process the same places of up to 8 equal tiles (space/bricks.hpp): the tiles that leave the
// fewest elements and faces to others.
std::array<Tiles, 3> choose_tiles(const Index& counts) {
  std::array<Tiles, 3> best{};
  double highest = -1;
  for (const std::int64_t r : {8, 4, 2, 1}) {
    for (std::int64_t s = 8 / r; s >= 1; s /= 2) {
      const std::array tiles{tiles_of(counts[0], r), tiles_of(counts[1], s), tiles_of(counts[2], 8 / (r * s))};
      const double quality = tiles[0].quality * tiles[1].quality * tiles[2].quality;
      if (quality <= highest) continue;
      best = tiles;
      highest = quality;
    }
  }
  return best;
}

// Calls use(index) for all of a box, the first index fastest.
template <class Use>
void for_box(const Index& begin, const Index& end, Use&& use) {
  for (std::int64_t k = begin[2]; k < end[2]; ++k)
    for (std::int64_t j = begin[1]; j < end[1]; ++j)
      for (std::int64_t i = begin[0]; i < end[0]; ++i) use(Index{i, j, k});
}

// The elements of a box in groups of tiles.
void append_tiles(const Index& origin, const Index& counts, std::vector<Index>& elements) {
  const std::array<Tiles, 3> cut = choose_tiles(counts);
  Index tiles{}, groups{};
  for (int d = 0; d < 3; ++d) {
    tiles[d] = cut[d].count + (cut[d].count * cut[d].width < counts[d] ? 1 : 0);
    groups[d] = (tiles[d] + cut[d].together - 1) / cut[d].together;
  }
  for_box({}, groups, [&](const Index& group) {
    Index first{}, last{};
    for (int d = 0; d < 3; ++d) {
      first[d] = group[d] * cut[d].together;
      last[d] = std::min(first[d] + cut[d].together, tiles[d]);
    }
    for_box(first, last, [&](const Index& tile) {
      Index begin{}, end{};
      for (int d = 0; d < 3; ++d) {
        begin[d] = origin[d] + tile[d] * cut[d].width;
        end[d] = tile[d] < cut[d].count ? begin[d] + cut[d].width : origin[d] + counts[d];
      }
      for_box(begin, end, [&](const Index& element) { elements.push_back(element); });
    });
  });
}

// The elements of a rank, ordered in tiles.
std::vector<Index> my_elements(const BoxOptions& o, std::int64_t rank, std::int64_t ranks) {
  const auto& n = o.counts;
  const Index grid = choose_grid(o, ranks);
  std::vector<Index> elements;
  if (grid[0] != 0) {
    const Index at{rank % grid[0], rank / grid[0] % grid[1], rank / (grid[0] * grid[1])};
    Index origin{}, counts{};
    for (int d = 0; d < 3; ++d) {
      origin[d] = n[d] * at[d] / grid[d];
      counts[d] = n[d] * (at[d] + 1) / grid[d] - origin[d];
    }
    elements.reserve(counts[0] * counts[1] * counts[2]);
    append_tiles(origin, counts, elements);
  } else {
    // Equal shares of the elements, counted with the longest direction slowest; then ordered in tiles.
    std::array<int, 3> axes{0, 1, 2};
    std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return n[a] < n[b]; });
    const std::int64_t total = n[0] * n[1] * n[2];
    const std::int64_t begin = total / ranks * rank + std::min(rank, total % ranks);
    const std::int64_t end = total / ranks * (rank + 1) + std::min(rank + 1, total % ranks);
    for (std::int64_t l = begin; l < end; ++l) {
      Index e{};
      e[axes[0]] = l % n[axes[0]];
      e[axes[1]] = l / n[axes[0]] % n[axes[1]];
      e[axes[2]] = l / (n[axes[0]] * n[axes[1]]);
      elements.push_back(e);
    }
    auto key = [&](const Index& e) {
      return std::array{e[2] / usual_width, e[1] / usual_width, e[0] / usual_width, e[2], e[1], e[0]};
    };
    std::sort(elements.begin(), elements.end(), [&](const Index& a, const Index& b) { return key(a) < key(b); });
  }
  return elements;
}

}  // namespace

Mesh make_box(const BoxOptions& options, const mpi::Comm& comm) {
  check(options, comm.size());
  const auto& n = options.counts;
  const auto elements = my_elements(options, comm.rank(), comm.size());
  const std::int64_t count = std::ssize(elements);
  // The number of distinct vertex planes per direction. Periodic directions wrap around, which also works for a single
  // element.
  Index v{};
  for (int d = 0; d < 3; ++d) v[d] = n[d] + (options.periodic[d] ? 0 : 1);

  const int geometry_order = options.deformation == "smooth" ? options.smooth_geometry_order : 1;
  const auto& gll = element::gll(geometry_order);
  const int q1 = geometry_order + 1;
  std::vector<std::int64_t> element_ids(count);
  std::vector<std::array<std::int64_t, 8>> vertices(count);
  std::vector<std::array<std::int64_t, 12>> edges(count);
  std::vector<std::array<std::int64_t, 6>> faces(count);
  std::vector<std::array<std::int32_t, 6>> boundaries(count);
  std::vector<double> nodes(count * q1 * q1 * q1 * 3);

  Topology t;
  t.global_vertices = v[0] * v[1] * v[2];
  // The entities of one direction are numbered after those of the previous direction.
  std::array<Index, 3> edge_counts{}, face_counts{};
  Index first_edge{}, first_face{};
  for (int d = 0; d < 3; ++d) {
    for (int c = 0; c < 3; ++c) {
      edge_counts[d][c] = c == d ? n[c] : v[c];
      face_counts[d][c] = c == d ? v[c] : n[c];
    }
    first_edge[d] = t.global_edges;
    first_face[d] = t.global_faces;
    t.global_edges += edge_counts[d][0] * edge_counts[d][1] * edge_counts[d][2];
    t.global_faces += face_counts[d][0] * face_counts[d][1] * face_counts[d][2];
  }
  auto number = [](const Index& at, const Index& counts) { return at[0] + counts[0] * (at[1] + counts[1] * at[2]); };

#pragma omp parallel for
  for (std::int64_t e = 0; e < count; ++e) {
    const Index& at = elements[e];
    element_ids[e] = number(at, n);
    auto plane = [&](int d, int upper) { return at[d] + upper == v[d] ? 0 : at[d] + upper; };
    for (int c = 0; c < 8; ++c) vertices[e][c] = number({plane(0, c & 1), plane(1, c >> 1 & 1), plane(2, c >> 2)}, v);
    for (int d = 0; d < 3; ++d) {
      const int a = d == 0 ? 1 : 0, b = d == 2 ? 1 : 2;
      for (int side = 0; side < 4; ++side) {
        Index edge = at;
        edge[a] = plane(a, side & 1);
        edge[b] = plane(b, side >> 1);
        edges[e][4 * d + side] = first_edge[d] + number(edge, edge_counts[d]);
      }
      for (int side = 0; side < 2; ++side) {
        Index face = at;
        face[d] = plane(d, side);
        faces[e][2 * d + side] = first_face[d] + number(face, face_counts[d]);
        const bool outer = !options.periodic[d] && at[d] == (side == 0 ? 0 : n[d] - 1);
        boundaries[e][2 * d + side] = outer ? 1 + 2 * d + side : 0;
      }
    }
    double* out = nodes.data() + e * q1 * q1 * q1 * 3;
    for (int k = 0; k < q1; ++k) {
      for (int j = 0; j < q1; ++j) {
        for (int i = 0; i < q1; ++i) {
          // Coordinates of grid planes are computed from integers, so that neighbouring ranks get identical bits.
          auto unit = [&](int d, int l) { return (2 * at[d] + (1 + gll.points[l])) / (2.0 * n[d]); };
          const Point p = deform(options, {unit(0, i), unit(1, j), unit(2, k)});
          for (int d = 0; d < 3; ++d) *out++ = options.lower[d] + (options.upper[d] - options.lower[d]) * p[d];
        }
      }
    }
  }
  t.vertices = std::move(vertices);
  t.edges = std::move(edges);
  t.edge_flips = std::vector<std::uint16_t>(count);
  t.faces = std::move(faces);
  t.face_orientations = std::vector<std::array<std::uint8_t, 6>>(count);
  return {.comm = comm,
          .global_elements = n[0] * n[1] * n[2],
          .element_ids = std::move(element_ids),
          .topology = std::move(t),
          .geometry_order = geometry_order,
          .nodes = std::move(nodes),
          .boundaries = std::move(boundaries),
          .boundary_names = {"x-", "x+", "y-", "y+", "z-", "z+"},
          .coefficient = {},
          .source = "box " + std::to_string(n[0]) + " x " + std::to_string(n[1]) + " x " + std::to_string(n[2])};
}

}  // namespace weft::mesh
