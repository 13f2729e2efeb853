#include "weft/space/point_numbers.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>

#include "weft/device/device.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::space {
namespace {

template <std::size_t N>
std::span<const std::int64_t> flat(const mesh::SharedVector<std::array<std::int64_t, N>>& rows) {
  return {reinterpret_cast<const std::int64_t*>(rows.data()), N * rows.size()};
}

}  // namespace

PointNumbers::PointNumbers(const mesh::Mesh& mesh, int order, const mesh::BoundarySet& without)
    : mesh_(mesh), order_(order) {
  const trace::Span span("number points", trace::Category::cpu);
  const std::vector<std::uint8_t> chosen = without.flags(mesh);
  const mpi::Comm& comm = mesh.comm;
  std::vector<std::int64_t> keys;
  comm.together([&] {
    count_entities();
    if (without != mesh::BoundarySet{}) leave_out(chosen);
    if (comm.size() > 1) keys = surface_keys();
  });
  if (comm.size() == 1) return;
  const exchange::Sharing sharing = exchange::find_sharing(keys, comm);
  comm.together([&] {
    std::vector<std::int64_t> shared;
    for (const std::int32_t position : sharing.positions) shared.push_back(keys[position]);
    keys = std::move(shared);
  });
  if (without != mesh::BoundarySet{}) leave_out_everywhere(keys);
  comm.together([&] { share_points(keys, sharing); });
}

PointNumbers::PointNumbers(const mesh::Mesh& mesh, int order, std::span<const std::int64_t> ids)
    : mesh_(mesh), order_(order) {
  exchange::PointsById by_id;
  mesh.comm.together([&] { by_id = exchange::points_by_id(ids); });
  exchange::Sharing sharing = exchange::find_sharing(by_id.ids, mesh.comm);
  mesh.comm.together([&] {
    exchange::NumberedPoints points = exchange::numbered_points(std::ssize(ids), by_id, std::move(sharing));
    given_ = std::move(points.numbers);
    count_ = points.count;
    sharing_ = std::move(points.sharing);
    shared_ids_ = std::move(points.shared_ids);
  });
}

void PointNumbers::count_entities() {
  const std::int64_t inside = order_ - 1, each = std::int64_t{order_ + 1} * (order_ + 1) * (order_ + 1),
                     most = std::numeric_limits<std::int32_t>::max() - 1;
  if (mesh_.elements() * each > most)
    throw std::length_error("a rank has " + std::to_string(mesh_.elements() * each) + " points; one rank can index " +
                            std::to_string(most) + ": use more ranks");
  const mesh::Topology& t = mesh_.topology;
  entities_[vertices].numbers = {flat(t.vertices), t.global_vertices};
  if (inside > 0) entities_[edges].numbers = {flat(t.edges), t.global_edges};
  if (inside > 0) entities_[faces].numbers = {flat(t.faces), t.global_faces};
  const std::array<std::int64_t, 3> counts{t.global_vertices, t.global_edges, t.global_faces};
  std::int64_t points = 1, number = 0, id = 1, key = 1;
  for (int kind = vertices; kind <= faces; ++kind) {
    Entities& entities = entities_[kind];
    entities.points = points;
    entities.first_number = number;
    entities.first_id = id;
    entities.first_key = key;
    number += entities.numbers.size() * points;
    id += counts[kind] * points;
    key += counts[kind];
    points *= inside;
  }
  first_inside_ = number;
  count_ = number + mesh_.elements() * points;
}

std::int32_t PointNumbers::Entities::first_point(std::int64_t id) const {
  const std::int32_t number = numbers[id];
  if (!left_out.empty() && left_out[number] != 0) return std::numeric_limits<std::int32_t>::min() / 2;
  return static_cast<std::int32_t>(first_number + number * points);
}

std::pair<PointNumbers::Kind, std::int64_t> PointNumbers::of_key(std::int64_t key) const {
  const Kind kind = key < entities_[edges].first_key ? vertices : key < entities_[faces].first_key ? edges : faces;
  return {kind, key - entities_[kind].first_key};
}

template <class Use>
void PointNumbers::each_on_side(std::int64_t e, int side, Use&& use) const {
  const mesh::Topology& t = mesh_.topology;
  for (const int corner : mesh::face_corners[side]) use(vertices, t.vertices[e][corner]);
  if (order_ == 1) return;
  for (const int edge : mesh::face_edges[side]) use(edges, t.edges[e][edge]);
  use(faces, t.faces[e][side]);
}

// The keys, in ascending order, of the entities that other ranks may hold: faces that belong to exactly one element of
// this rank, and the vertices and edges of these faces. Every other vertex or edge is surrounded by elements of this
// rank.
std::vector<std::int64_t> PointNumbers::surface_keys() const {
  const mesh::Topology& t = mesh_.topology;
  exchange::IdNumbers counted;  // order 1 has no points inside faces
  if (order_ == 1) counted = {flat(t.faces), t.global_faces};
  const exchange::IdNumbers& numbers = order_ == 1 ? counted : entities_[faces].numbers;
  std::vector<std::uint8_t> elements(numbers.size());  // of the rank at each face
#pragma omp parallel for
  for (std::int64_t e = 0; e < mesh_.elements(); ++e)
    for (const std::int64_t face : t.faces[e])
      std::atomic_ref(elements[numbers[face]]).fetch_add(1, std::memory_order_relaxed);
  std::vector<std::int64_t> keys;
#pragma omp parallel
  {
    std::vector<std::int64_t> mine;
#pragma omp for nowait
    for (std::int64_t e = 0; e < mesh_.elements(); ++e)
      for (int side = 0; side < 6; ++side)
        if (elements[numbers[t.faces[e][side]]] == 1)
          each_on_side(e, side, [&](Kind kind, std::int64_t id) { mine.push_back(entities_[kind].first_key + id); });
#pragma omp critical
    keys.insert(keys.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(keys);
  const auto rest = std::ranges::unique(keys);
  keys.erase(rest.begin(), rest.end());
  return keys;
}

// Leaves out the entities that sides of this rank's elements have on the chosen boundaries.
void PointNumbers::leave_out(std::span<const std::uint8_t> chosen) {
  for (Entities& entities : entities_) entities.left_out.assign(entities.numbers.size(), 0);
  for (std::int64_t e = 0; e < mesh_.elements(); ++e)
    for (int side = 0; side < 6; ++side)
      if (chosen[mesh_.boundaries[e][side]] != 0)
        each_on_side(e, side,
                     [&](Kind kind, std::int64_t id) { entities_[kind].left_out[entities_[kind].numbers[id]] = 1; });
}

// Leaves out those that sides of other ranks' elements have there. (collective)
void PointNumbers::leave_out_everywhere(std::span<const std::int64_t> shared_keys) {
  const auto flag = [&](std::int64_t key) -> std::uint8_t& {
    const auto [kind, id] = of_key(key);
    return entities_[kind].left_out[entities_[kind].numbers[id]];
  };
  std::vector<std::int32_t> flags(shared_keys.size());
  std::ranges::transform(shared_keys, flags.begin(), flag);
  const auto host = device::open("host");
  exchange::GatherScatter<std::int32_t> combine(shared_keys, mesh_.comm, host, exchange::Choice{});
  device::Stream stream(host);
  combine.gather_scatter(flags.data(), exchange::Op::max, stream);
  stream.synchronize();
  for (std::size_t i = 0; i < flags.size(); ++i) flag(shared_keys[i]) = static_cast<std::uint8_t>(flags[i]);
}

// keys: the shared keys, which of_keys.positions refers to.
void PointNumbers::share_points(std::span<const std::int64_t> keys, const exchange::Sharing& of_keys) {
  for (std::size_t s = 0; s < keys.size(); ++s) {
    const auto [kind, id] = of_key(keys[s]);
    const Entities& entities = entities_[kind];
    const std::int32_t first = entities.first_point(id);
    if (first < 0) continue;
    for (std::int64_t q = 0; q < entities.points; ++q) {
      sharing_.positions.push_back(static_cast<std::int32_t>(first + q));
      shared_ids_.push_back(entities.first_id + id * entities.points + q);
      sharing_.holders.insert(sharing_.holders.end(), of_keys.holders.begin() + of_keys.begin[s],
                              of_keys.holders.begin() + of_keys.begin[s + 1]);
      sharing_.begin.push_back(std::ssize(sharing_.holders));
    }
  }
}

void PointNumbers::of_element(std::int64_t e, std::int32_t* numbers) const {
  const std::int64_t n = order_ + 1, inside = order_ - 1, each = n * n * n;
  if (!given_.empty()) {
    std::copy_n(given_.begin() + e * each, each, numbers);
    return;
  }
  const mesh::Topology& t = mesh_.topology;
  mesh::FirstNumbers<std::int32_t> first{};
  for (int c = 0; c < 8; ++c) first.vertices[c] = entities_[vertices].first_point(t.vertices[e][c]);
  if (inside > 0) {
    for (int d = 0; d < 12; ++d) first.edges[d] = entities_[edges].first_point(t.edges[e][d]);
    for (int f = 0; f < 6; ++f) first.faces[f] = entities_[faces].first_point(t.faces[e][f]);
    first.inside = static_cast<std::int32_t>(first_inside_ + e * inside * inside * inside);
  }
  mesh::number_points(mesh_, order_, e, first, numbers);
}

}  // namespace weft::space
