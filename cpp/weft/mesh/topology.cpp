// Derives vertices, edges and faces from corners and periodic pairs, by sorting.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "weft/mesh/reference.hpp"
#include "weft/mesh/whole.hpp"

namespace weft::mesh {
namespace {

std::string face_text(std::int64_t element, int face) {
  return "face " + std::string(face_names[face]) + " of element " + std::to_string(element) + " (counting from 0)";
}

// Disjoint sets with orientation: each member knows whether its direction is that of its root (0) or the opposite (1).
class OrientedSets {
 public:
  explicit OrientedSets(std::int64_t size) : parent_(size), against_(size, 0) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  struct Root {
    std::int64_t id;
    bool against;
  };
  Root find(std::int64_t member) {
    Root root{member, false};
    while (parent_[root.id] != root.id) {
      root.against ^= against_[root.id];
      root.id = parent_[root.id];
    }
    // Path compression: all members on the path now point to the root directly.
    bool against = root.against;
    for (std::int64_t at = member; at != root.id;) {
      const std::int64_t next = parent_[at];
      const bool step = against_[at];
      parent_[at] = root.id;
      against_[at] = against;
      against ^= step;
      at = next;
    }
    return root;
  }
  // False if a and b are already joined with the opposite orientation.
  bool join(std::int64_t a, std::int64_t b, bool against) {
    Root ra = find(a), rb = find(b);
    const bool between = ra.against ^ rb.against ^ against;
    if (ra.id == rb.id) return !between;
    if (rb.id < ra.id) std::swap(ra, rb);  // the smallest id is the root: numbers do not depend on the order of joins
    parent_[rb.id] = ra.id;
    against_[rb.id] = between;
    return true;
  }
  // Numbers the roots 0, 1, ... in ascending order. Returns the number of roots, and in `numbers` that of every
  // member's root.
  std::int64_t number(std::vector<std::int64_t>& numbers) {
    numbers.assign(parent_.size(), -1);
    std::int64_t count = 0;
    for (std::int64_t m = 0; m < std::ssize(parent_); ++m) {
      if (find(m).id == m) numbers[m] = count++;
    }
    for (std::int64_t m = 0; m < std::ssize(parent_); ++m) numbers[m] = numbers[find(m).id];
    return count;
  }

 private:
  std::vector<std::int64_t> parent_;
  std::vector<std::uint8_t> against_;
};

template <std::size_t N>
struct Keyed {
  std::array<std::int64_t, N> key;
  std::int64_t where;
  bool operator<(const Keyed& other) const { return key != other.key ? key < other.key : where < other.where; }
};

// Vertices, edges and faces that periodic pairs identify with each other.
struct Sets {
  OrientedSets vertices, edges, faces;
};

std::array<std::int64_t, 4> labels_of(const WholeMesh& mesh, std::int64_t element, int face) {
  std::array<std::int64_t, 4> labels;
  for (int m = 0; m < 4; ++m) labels[m] = mesh.vertices[element][face_corners[face][m]];
  return labels;
}

// The number of vertices, after checking those of every element.
std::int64_t checked_vertices(const WholeMesh& mesh) {
  std::int64_t vertices = 0;
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    auto sorted = mesh.vertices[e];
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      throw std::runtime_error("element " + std::to_string(e) +
                               " (counting from 0) has the same vertex at two corners: it is collapsed, but weft needs "
                               "hexahedra with eight different corners");
    }
    if (sorted.front() < 0) throw std::runtime_error("element " + std::to_string(e) + " has a negative vertex id");
    vertices = std::max(vertices, sorted.back() + 1);
  }
  return vertices;
}

// Numbers the edges, before periodic identification, sorted by their two ends; an edge runs from the smaller end to the
// larger. Returns the number of edges.
std::int64_t number_edges(const WholeMesh& mesh, Topology& t) {
  const std::int64_t count = mesh.elements();
  std::vector<std::array<std::int64_t, 12>> numbers(count);
  std::vector<std::uint16_t> flips(count, 0);
  std::int64_t edges = 0;
  std::vector<Keyed<2>> keys(12 * count);
  for (std::int64_t e = 0; e < count; ++e) {
    for (int d = 0; d < 12; ++d) {
      std::int64_t a = mesh.vertices[e][edge_corners[d][0]], b = mesh.vertices[e][edge_corners[d][1]];
      if (a > b) {
        std::swap(a, b);
        flips[e] |= 1u << d;
      }
      keys[12 * e + d] = {{a, b}, 12 * e + d};
    }
  }
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0 && keys[i].key != keys[i - 1].key) ++edges;
    numbers[keys[i].where / 12][keys[i].where % 12] = edges;
  }
  if (!keys.empty()) ++edges;
  t.edges = std::move(numbers);
  t.edge_flips = std::move(flips);
  return edges;
}

// Numbers the faces, sorted by their four corners, and finds the neighbours of the elements. Returns the number of
// faces.
std::int64_t number_faces(const WholeMesh& mesh, WholeTopology& result) {
  const std::int64_t count = mesh.elements();
  std::vector<std::array<std::int64_t, 6>> numbers(count);
  std::vector<std::array<std::uint8_t, 6>> orientations(count);
  result.neighbors.assign(count, {-1, -1, -1, -1, -1, -1});
  std::int64_t faces = 0;
  std::vector<Keyed<4>> keys(6 * count);
  for (std::int64_t e = 0; e < count; ++e) {
    for (int f = 0; f < 6; ++f) {
      auto labels = labels_of(mesh, e, f);
      orientations[e][f] = static_cast<std::uint8_t>(orientation_from_labels(labels));
      std::sort(labels.begin(), labels.end());
      keys[6 * e + f] = {labels, 6 * e + f};
    }
  }
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 0; i < keys.size();) {
    std::size_t end = i + 1;
    while (end < keys.size() && keys[end].key == keys[i].key) ++end;
    if (end - i > 2) {
      throw std::runtime_error(std::to_string(end - i) + " elements share one face, but at most two may: " +
                               face_text(keys[i].where / 6, keys[i].where % 6) + ", " +
                               face_text(keys[i + 1].where / 6, keys[i + 1].where % 6) + " and " +
                               face_text(keys[i + 2].where / 6, keys[i + 2].where % 6));
    }
    for (std::size_t k = i; k < end; ++k) numbers[keys[k].where / 6][keys[k].where % 6] = faces;
    if (end - i == 2) {
      result.neighbors[keys[i].where / 6][keys[i].where % 6] = keys[i + 1].where;
      result.neighbors[keys[i + 1].where / 6][keys[i + 1].where % 6] = keys[i].where;
    }
    ++faces;
    i = end;
  }
  result.topology.faces = std::move(numbers);
  result.topology.face_orientations = std::move(orientations);
  return faces;
}

std::runtime_error torn(const PeriodicPair& pair, const std::string& why) {
  return std::runtime_error("inconsistent periodic boundary: " + face_text(pair.element_a, pair.face_a) + " and " +
                            face_text(pair.element_b, pair.face_b) + " " + why);
}

// Joins the edges of a periodic pair of faces. back[m]: the corner of face a that meets corner m of face b.
void join_edges(const PeriodicPair& pair, const std::array<int, 4>& back, const Topology& t, OrientedSets& edges) {
  for (int d = 0; d < 4; ++d) {
    const auto [p, q] = face_edge_corners[d];
    for (int other = 0; other < 4; ++other) {  // the edge of face b with the same ends
      const int u = back[face_edge_corners[other][0]], v = back[face_edge_corners[other][1]];
      if ((u != p || v != q) && (u != q || v != p)) continue;
      const int da = face_edges[pair.face_a][d], db = face_edges[pair.face_b][other];
      const bool flip_a = t.edge_flips[pair.element_a] >> da & 1, flip_b = t.edge_flips[pair.element_b] >> db & 1;
      if (!edges.join(t.edges[pair.element_a][da], t.edges[pair.element_b][db], (u != p) ^ flip_a ^ flip_b)) {
        throw torn(pair, "join an edge with its own reverse: the periodic pairs contradict each other");
      }
    }
  }
}

// Joins the corners of a periodic pair of faces, their edges including their direction, and the faces themselves; the
// second face takes over the frame of the first.
void join(const PeriodicPair& pair, const WholeMesh& mesh, WholeTopology& result, Sets& sets) {
  Topology& t = result.topology;
  for (auto [e, f] : {std::pair{pair.element_a, pair.face_a}, {pair.element_b, pair.face_b}}) {
    if (e < 0 || e >= mesh.elements() || f < 0 || f > 5)
      throw torn(pair, "are paired, but one of these faces does not exist");
    if (result.neighbors[e][f] >= 0)
      throw torn(pair, "are paired, but " + face_text(e, f) + " has a neighbour already");
    if (mesh.boundaries[e][f] != 0) throw torn(pair, "are paired, but " + face_text(e, f) + " is also a boundary");
  }
  const std::int64_t a = 6 * pair.element_a + pair.face_a, b = 6 * pair.element_b + pair.face_b;
  if (a == b) throw torn(pair, "are the same face");
  result.neighbors[pair.element_a][pair.face_a] = b;
  result.neighbors[pair.element_b][pair.face_b] = a;

  const auto labels_a = labels_of(mesh, pair.element_a, pair.face_a),
             labels_b = labels_of(mesh, pair.element_b, pair.face_b);
  std::array<std::int64_t, 4> carried;
  std::array<int, 4> back{-1, -1, -1, -1};
  for (int m = 0; m < 4; ++m) {
    const int at = pair.corners[m];
    if (at < 0 || at > 3 || back[at] >= 0) throw torn(pair, "do not match corner by corner");
    back[at] = m;
    carried[at] = labels_a[m];
    sets.vertices.join(labels_a[m], labels_b[at], false);
  }
  if ((back[0] ^ back[3]) != 3) throw torn(pair, "do not match: the pairing of their corners twists the face");
  t.face_orientations.change()[pair.element_b][pair.face_b] =
      static_cast<std::uint8_t>(orientation_from_labels(carried));
  sets.faces.join(t.faces[pair.element_a][pair.face_a], t.faces[pair.element_b][pair.face_b], false);
  join_edges(pair, back, t, sets.edges);
}

// Checks that every face either has a neighbour or is a boundary, and that none is both.
void check_faces(const WholeMesh& mesh, const WholeTopology& result) {
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    for (int f = 0; f < 6; ++f) {
      const std::int32_t boundary = mesh.boundaries[e][f];
      const std::int64_t other = result.neighbors[e][f];
      if (other < 0 && boundary == 0) {
        throw std::runtime_error("torn face: " + face_text(e, f) +
                                 " has no neighbour, no boundary condition and no periodic partner; its corners may "
                                 "miss those of the neighbour it should have");
      }
      if (other >= 0 && boundary != 0) {
        throw std::runtime_error(face_text(e, f) + " is a boundary (" + mesh.boundary_names[boundary - 1] +
                                 ") and at the same time " + face_text(other / 6, other % 6) +
                                 ": a face inside the mesh cannot be a boundary");
      }
    }
  }
}

// Replaces the numbers before periodic identification by those after it.
void renumber(const WholeMesh& mesh, Sets& sets, Topology& t) {
  std::vector<std::int64_t> vertex_numbers, edge_numbers, face_numbers;
  t.global_vertices = sets.vertices.number(vertex_numbers);
  t.global_edges = sets.edges.number(edge_numbers);
  t.global_faces = sets.faces.number(face_numbers);
  t.vertices = mesh.vertices;
  auto& vertices = t.vertices.change();
  auto& faces = t.faces.change();
  auto& edges = t.edges.change();
  auto& flips = t.edge_flips.change();
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    for (auto& v : vertices[e]) v = vertex_numbers[v];
    for (int d = 0; d < 12; ++d) {
      if (sets.edges.find(edges[e][d]).against) flips[e] ^= 1u << d;
      edges[e][d] = edge_numbers[edges[e][d]];
    }
    for (auto& f : faces[e]) f = face_numbers[f];
  }
}

}  // namespace

WholeTopology build_topology(const WholeMesh& mesh) {
  const std::int64_t vertices = checked_vertices(mesh);
  WholeTopology result;
  const std::int64_t edges = number_edges(mesh, result.topology), faces = number_faces(mesh, result);
  Sets sets{OrientedSets(vertices), OrientedSets(edges), OrientedSets(faces)};
  for (const PeriodicPair& pair : mesh.periodic) join(pair, mesh, result, sets);
  check_faces(mesh, result);
  renumber(mesh, sets, result.topology);
  return result;
}

}  // namespace weft::mesh
