// Divides a whole mesh into parts, and sends each rank its part.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/mesh/whole.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::mesh {
namespace {

using Point = std::array<double, 3>;

std::vector<Point> centres(const WholeMesh& mesh) {
  const int q1 = mesh.node_order + 1, points = q1 * q1 * q1;
  std::vector<Point> result(mesh.elements(), Point{});
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    for (int c = 0; c < 8; ++c) {
      const int corner = mesh.node_order * ((c & 1) + q1 * ((c >> 1 & 1) + q1 * (c >> 2)));
      for (int d = 0; d < 3; ++d) result[e][d] += 0.125 * mesh.nodes[3 * (e * points + corner) + d];
    }
  }
  return result;
}

struct Bounds {
  Point lower{}, upper{};
  int longest() const {
    int axis = 0;
    for (int d = 1; d < 3; ++d) {
      if (upper[d] - lower[d] > upper[axis] - lower[axis]) axis = d;
    }
    return axis;
  }
};

Bounds bounds(const std::vector<Point>& points, std::span<const std::int64_t> which) {
  Bounds box;
  box.lower.fill(std::numeric_limits<double>::infinity());
  box.upper.fill(-std::numeric_limits<double>::infinity());
  for (std::int64_t e : which) {
    for (int d = 0; d < 3; ++d) {
      box.lower[d] = std::min(box.lower[d], points[e][d]);
      box.upper[d] = std::max(box.upper[d], points[e][d]);
    }
  }
  return box;
}

// Rank 0 holds `all`, ordered by rank; every rank returns its own `counts[rank]` values.
template <class T>
std::vector<T> scatter(const std::vector<T>& all, std::span<const std::int64_t> counts, std::int64_t per_item,
                       const mpi::Comm& comm) {
  constexpr int tag = 1;
  MPI_Datatype item;  // so that MPI counts elements, which allows parts beyond 2 GiB
  mpi::check(MPI_Type_contiguous(static_cast<int>(per_item * sizeof(T)), MPI_BYTE, &item), "MPI_Type_contiguous");
  mpi::check(MPI_Type_commit(&item), "MPI_Type_commit");
  std::vector<T> mine(counts[comm.rank()] * per_item);
  trace::Span span("mesh scatter", trace::Category::mpi, std::ssize(mine) * static_cast<std::int64_t>(sizeof(T)));
  if (comm.rank() == 0) {
    std::copy_n(all.begin(), mine.size(), mine.begin());
    std::int64_t offset = counts[0] * per_item;
    for (int r = 1; r < comm.size(); ++r) {
      mpi::check(MPI_Send(all.data() + offset, static_cast<int>(counts[r]), item, r, tag, comm.get()), "MPI_Send");
      offset += counts[r] * per_item;
    }
  } else {
    mpi::check(
        MPI_Recv(mine.data(), static_cast<int>(counts[comm.rank()]), item, 0, tag, comm.get(), MPI_STATUS_IGNORE),
        "MPI_Recv");
  }
  MPI_Type_free(&item);
  return mine;
}

template <class T>
void broadcast(std::vector<T>& values, const mpi::Comm& comm) {
  std::int64_t size = std::ssize(values);
  mpi::check(MPI_Bcast(&size, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  values.resize(size);
  mpi::check(MPI_Bcast(values.data(), static_cast<int>(size * sizeof(T)), MPI_BYTE, 0, comm.get()), "MPI_Bcast");
}

void broadcast(std::string& text, const mpi::Comm& comm) {
  std::vector<char> letters(text.begin(), text.end());
  broadcast(letters, comm);
  text.assign(letters.begin(), letters.end());
}

template <class T>
std::vector<T> pick(const std::vector<T>& from, std::span<const std::int64_t> order, std::int64_t per_item = 1) {
  std::vector<T> to;
  to.reserve(order.size() * per_item);
  for (std::int64_t e : order) to.insert(to.end(), from.begin() + e * per_item, from.begin() + (e + 1) * per_item);
  return to;
}

}  // namespace

// The transposed index of J. Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707 (2004).
std::uint64_t hilbert_index(Point unit) {
  constexpr int bits = 16;
  std::array<std::uint32_t, 3> x;
  for (int d = 0; d < 3; ++d) {
    x[d] = static_cast<std::uint32_t>(std::clamp(unit[d], 0.0, 1.0) * ((1u << bits) - 1));
  }
  for (std::uint32_t q = 1u << (bits - 1); q > 1; q >>= 1) {
    for (int d = 0; d < 3; ++d) {
      if (x[d] & q) {
        x[0] ^= q - 1;
      } else {
        const std::uint32_t swap = (x[0] ^ x[d]) & (q - 1);
        x[0] ^= swap;
        x[d] ^= swap;
      }
    }
  }
  for (int d = 1; d < 3; ++d) x[d] ^= x[d - 1];
  std::uint32_t turn = 0;
  for (std::uint32_t q = 1u << (bits - 1); q > 1; q >>= 1) {
    if (x[2] & q) turn ^= q - 1;
  }
  std::uint64_t index = 0;
  for (int b = bits - 1; b >= 0; --b) {
    for (int d = 0; d < 3; ++d) index = index << 1 | ((x[d] ^ turn) >> b & 1);
  }
  return index;
}

std::vector<std::int32_t> recursive_bisection(const WholeMesh& mesh, int parts) {
  const auto points = centres(mesh);
  std::vector<std::int64_t> order(mesh.elements());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::int32_t> result(mesh.elements());
  auto first_of = [&](std::int64_t part) { return mesh.elements() * part / parts; };
  // Parts [first, last) hold elements order[first_of(first) .. first_of(last)).
  auto split = [&](auto&& self, std::int64_t first, std::int64_t last) -> void {
    const std::int64_t begin = first_of(first), end = first_of(last);
    if (last - first == 1) {
      for (std::int64_t i = begin; i < end; ++i) result[order[i]] = static_cast<std::int32_t>(first);
      return;
    }
    const std::int64_t middle = (first + last) / 2;
    const int axis = bounds(points, std::span(order).subspan(begin, end - begin)).longest();
    std::nth_element(order.begin() + begin, order.begin() + first_of(middle), order.begin() + end,
                     [&](std::int64_t a, std::int64_t b) {
                       return points[a][axis] != points[b][axis] ? points[a][axis] < points[b][axis] : a < b;
                     });
    self(self, first, middle);
    self(self, middle, last);
  };
  split(split, 0, parts);
  return result;
}

int natural_geometry_order(const WholeMesh& mesh) {
  for (const Curve& c : mesh.curves) {
    if (c.kind != Curve::midpoint) return 7;
  }
  if (!mesh.curves.empty()) return 2;
  if (mesh.node_order == 1) return 1;
  // If the second-order nodes of an element are those of a trilinear element, up to rounding, the element is trilinear.
  const auto down = element::interpolation(element::gll(2).points, element::gll(1).points);
  const auto up = element::interpolation(element::gll(1).points, element::gll(2).points);
  for (std::int64_t e = 0; e < mesh.elements(); ++e) {
    const double* nodes = mesh.nodes.data() + e * 81;
    for (int d = 0; d < 3; ++d) {
      double size = 0;
      for (int c = 0; c < 8; ++c) {
        size = std::max(size, std::abs(nodes[3 * (2 * (c & 1) + 6 * (c >> 1 & 1) + 18 * (c >> 2)) + d] - nodes[d]));
      }
      for (int p = 0; p < 27; ++p) {
        double trilinear = 0;
        for (int c = 0; c < 8; ++c) {
          trilinear += up[2 * (p % 3) + (c & 1)] * up[2 * (p / 3 % 3) + (c >> 1 & 1)] * up[2 * (p / 9) + (c >> 2)] *
                       nodes[3 * (2 * (c & 1) + 6 * (c >> 1 & 1) + 18 * (c >> 2)) + d];
        }
        if (std::abs(nodes[3 * p + d] - trilinear) > 1e-12 * (size + std::abs(trilinear))) return 2;
      }
    }
  }
  return 1;
}

Mesh distribute(const WholeMesh& whole, const WholeTopology& topology, std::span<const std::int32_t> parts,
                int geometry_order, const mpi::Comm& comm) {
  const bool root = comm.rank() == 0;
  std::vector<std::int64_t> order;  // elements by rank, then along the Hilbert curve
  std::vector<std::int64_t> counts(comm.size(), 0), curve_counts(comm.size(), 0);
  comm.together([&] {
    if (!root) return;
    if (comm.size() > whole.elements()) {
      throw std::invalid_argument(std::to_string(comm.size()) + " ranks are more than the " +
                                  std::to_string(whole.elements()) + " elements of " + whole.source +
                                  "; use fewer ranks");
    }
    if (std::ssize(parts) != whole.elements()) throw std::invalid_argument("distribute: give one part per element");
    if (geometry_order == 0) geometry_order = natural_geometry_order(whole);
    element::gll(geometry_order);
    for (std::int32_t part : parts) {
      if (part < 0 || part >= comm.size())
        throw std::invalid_argument("distribute: every part must be the number of a rank");
      ++counts[part];
    }
    if (std::ranges::min(counts) == 0) throw std::invalid_argument("distribute: every rank must get an element");
  });

  // The data that rank 0 sends, ordered by rank.
  std::vector<Curve> curves;
  if (root) {
    order.resize(whole.elements());
    std::iota(order.begin(), order.end(), 0);
    const auto points = centres(whole);
    const Bounds box = bounds(points, order);
    const double size = box.upper[box.longest()] - box.lower[box.longest()];
    std::vector<std::uint64_t> along(whole.elements());
    for (std::int64_t e = 0; e < whole.elements(); ++e) {
      Point unit{};
      for (int d = 0; d < 3 && size > 0; ++d) unit[d] = (points[e][d] - box.lower[d]) / size;
      along[e] = hilbert_index(unit);
    }
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      if (parts[a] != parts[b]) return parts[a] < parts[b];
      return along[a] != along[b] ? along[a] < along[b] : a < b;
    });
    std::vector<std::int64_t> place(whole.elements());  // position within the rank
    std::int64_t first = 0;
    for (int r = 0; r < comm.size(); first += counts[r++]) {
      for (std::int64_t i = 0; i < counts[r]; ++i) place[order[first + i]] = i;
    }
    curves = whole.curves;
    std::stable_sort(curves.begin(), curves.end(),
                     [&](const Curve& a, const Curve& b) { return parts[a.element] < parts[b.element]; });
    for (Curve& c : curves) {
      ++curve_counts[parts[c.element]];
      c.element = place[c.element];
    }
  }
  std::vector<std::int64_t> numbers{geometry_order,
                                    whole.node_order,
                                    whole.elements(),
                                    topology.topology.global_vertices,
                                    topology.topology.global_edges,
                                    topology.topology.global_faces,
                                    std::ssize(whole.boundary_names)};
  broadcast(numbers, comm);
  broadcast(counts, comm);
  broadcast(curve_counts, comm);

  Mesh mesh{.comm = comm,
            .global_elements = numbers[2],
            .element_ids = {},
            .topology = {},
            .geometry_order = static_cast<int>(numbers[0]),
            .nodes = {},
            .boundaries = {},
            .boundary_names = whole.boundary_names,
            .coefficient = {},
            .source = whole.source};
  mesh.topology.global_vertices = numbers[3];
  mesh.topology.global_edges = numbers[4];
  mesh.topology.global_faces = numbers[5];
  broadcast(mesh.source, comm);
  mesh.boundary_names.resize(numbers[6]);
  for (std::string& name : mesh.boundary_names) broadcast(name, comm);

  // One array at a time, so that rank 0 never holds a second copy of the whole mesh.
  const Topology& t = topology.topology;
  auto deal = [&](const auto& all, std::int64_t per_item = 1) {
    return scatter(root ? pick(all, order, per_item) : all, counts, per_item, comm);
  };
  mesh.element_ids = scatter(order, counts, 1, comm);
  mesh.topology.vertices = deal(t.vertices.get());
  mesh.topology.edges = deal(t.edges.get());
  mesh.topology.edge_flips = deal(t.edge_flips.get());
  mesh.topology.faces = deal(t.faces.get());
  mesh.topology.face_orientations = deal(t.face_orientations.get());
  mesh.boundaries = deal(whole.boundaries);
  const int node_order = static_cast<int>(numbers[1]);
  const std::int64_t per_element = 3 * (node_order + 1) * (node_order + 1) * (node_order + 1);
  mesh.nodes = deal(whole.nodes, per_element);
  curves = scatter(curves, curve_counts, 1, comm);
  comm.together([&] {
    try {
      if (node_order != mesh.geometry_order || !curves.empty()) {
        mesh.nodes = curved_nodes(mesh.nodes, node_order, curves, mesh.geometry_order, mesh.element_ids);
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(mesh.source + ": " + error.what());
    }
  });
  return mesh;
}

}  // namespace weft::mesh
