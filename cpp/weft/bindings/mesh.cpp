#include "weft/mesh/mesh.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/element/gll.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/whole.hpp"

namespace nb = nanobind;

namespace weft::bindings {
namespace {

template <class T, class... Shape>
using In = nb::ndarray<const T, nb::shape<Shape::value...>, nb::c_contig, nb::device::cpu>;
template <nb::ssize_t N>
using Dim = std::integral_constant<nb::ssize_t, N>;

// A read-only view of values held by the mesh, which the array keeps alive: of single values, or of rows of `per_item`.
template <class T, class Array>
Numpy<const T, 1> view(const Array& values, nb::handle owner) {
  return Numpy<const T, 1>(values.data(), {values.size()}, owner);
}
template <class T, class Array>
Numpy<const T, 2> view(const Array& values, std::size_t per_item, nb::handle owner) {
  return Numpy<const T, 2>(reinterpret_cast<const T*>(values.data()), {values.size(), per_item}, owner);
}

template <class T, std::size_t N, class Array>
std::vector<std::array<T, N>> rows(const Array& array) {
  std::vector<std::array<T, N>> result(array.shape(0));
  if (!result.empty()) std::memcpy(result.data(), array.data(), result.size() * sizeof(result[0]));
  return result;
}

struct Whole {
  mesh::WholeMesh mesh;
  mesh::WholeTopology topology;
};

Whole make_whole(const In<std::int64_t, Dim<-1>, Dim<8>>& vertices, const In<double, Dim<-1>, Dim<-1>, Dim<3>>& nodes,
                 const In<std::int32_t, Dim<-1>, Dim<6>>& boundaries, std::vector<std::string> boundary_names,
                 const In<std::int64_t, Dim<-1>, Dim<8>>& periodic,
                 const In<std::int64_t, Dim<-1>, Dim<3>>& curve_sides, const In<double, Dim<-1>, Dim<5>>& curve_values,
                 std::string source) {
  Whole whole;
  mesh::WholeMesh& m = whole.mesh;
  m.vertices = rows<std::int64_t, 8>(vertices);
  m.boundaries = rows<std::int32_t, 6>(boundaries);
  m.boundary_names = std::move(boundary_names);
  m.node_order = nodes.shape(1) == 27 ? 2 : 1;
  m.nodes.assign(nodes.data(), nodes.data() + nodes.size());
  m.source = std::move(source);
  const std::size_t count = vertices.shape(0);
  if (nodes.shape(0) != count || boundaries.shape(0) != count || (nodes.shape(1) != 8 && nodes.shape(1) != 27) ||
      curve_sides.shape(0) != curve_values.shape(0)) {
    throw std::invalid_argument("WholeMesh: the arrays do not have matching shapes");
  }
  for (const auto& element : m.boundaries) {
    for (std::int32_t b : element) {
      if (b < 0 || b > std::ssize(m.boundary_names))
        throw std::invalid_argument("WholeMesh: every boundary must have a name");
    }
  }
  for (std::size_t p = 0; p < periodic.shape(0); ++p) {
    const std::int64_t* row = periodic.data() + 8 * p;
    m.periodic.push_back(
        {row[0],
         static_cast<int>(row[1]),
         row[2],
         static_cast<int>(row[3]),
         {static_cast<int>(row[4]), static_cast<int>(row[5]), static_cast<int>(row[6]), static_cast<int>(row[7])}});
  }
  for (std::size_t c = 0; c < curve_sides.shape(0); ++c) {
    const std::int64_t* row = curve_sides.data() + 3 * c;
    const auto kind = static_cast<mesh::Curve::Kind>(row[1]);
    if (row[0] < 0 || row[0] >= m.elements() || row[1] < 0 || row[1] > 2 || row[2] < 0 ||
        row[2] >= (kind == mesh::Curve::sphere ? 6 : 12)) {
      throw std::invalid_argument("WholeMesh: a curve refers to a side that does not exist");
    }
    mesh::Curve curve{row[0], kind, static_cast<int>(row[2]), {}};
    std::copy_n(curve_values.data() + 5 * c, 5, curve.values.begin());
    m.curves.push_back(curve);
  }
  nb::gil_scoped_release release;
  whole.topology = mesh::build_topology(m);
  return whole;
}

std::size_t points_of(int order) { return static_cast<std::size_t>(order + 1) * (order + 1) * (order + 1); }

void bind_reference_element(nb::module_& sub) {
  sub.def(
      "gll",
      [](int order) {
        const auto& g = element::gll(order);
        const std::size_t n1 = g.points.size();
        return std::tuple(to_numpy(std::vector(g.points)), to_numpy(std::vector(g.weights)),
                          to_numpy(std::vector(g.derivative), {n1, n1}));
      },
      nb::arg("order"), "GLL points [n1], weights [n1] and derivative matrix [n1][n1] of an order; n1 = order + 1.");
  sub.def(
      "interpolation",
      [](const In<double, Dim<-1>>& from, const In<double, Dim<-1>>& to) {
        return to_numpy(element::interpolation({from.data(), from.size()}, {to.data(), to.size()}),
                        {to.size(), from.size()});
      },
      nb::arg("from_points"), nb::arg("to_points"),
      "Matrix [to][from] that interpolates from from_points to to_points by Lagrange polynomials.");
}

// Values at the points of an order, and other meshes with the same elements.
void bind_points(nb::class_<mesh::Mesh>& part) {
  part.def(
          "global_points", [](const mesh::Mesh& s, int order) { return mesh::global_points(s, order); },
          nb::arg("order"))
      .def(
          "with_coefficient",
          [](const mesh::Mesh& s, int order, const nb::ndarray<const double, nb::c_contig, nb::device::cpu>& values) {
            if (values.size() != s.element_ids.size() * points_of(order))
              throw std::invalid_argument("mesh: a coefficient has one value per point of the order");
            mesh::Mesh copy = s;
            copy.coefficient = std::vector<double>(values.data(), values.data() + values.size());
            copy.coefficient_order = order;
            return copy;
          },
          nb::arg("order"), nb::arg("values"))
      .def(
          "point_ids",
          [](const mesh::Mesh& s, int order) {
            std::vector<std::int64_t> ids;
            {
              nb::gil_scoped_release release;
              ids = mesh::point_ids(s, order);
            }
            return to_numpy(std::move(ids), {s.element_ids.size(), points_of(order)});
          },
          nb::arg("order"))
      .def(
          "point_coordinates",
          [](const mesh::Mesh& s, int order) {
            std::vector<double> x;
            {
              nb::gil_scoped_release release;
              x = mesh::point_coordinates(s, order);
            }
            return to_numpy(std::move(x), {s.element_ids.size(), points_of(order), 3});
          },
          nb::arg("order"))
      .def(
          "points_on_boundary",
          [](const mesh::Mesh& s, int order) {
            return to_numpy(mesh::points_on_boundary(s, order), {s.element_ids.size(), points_of(order)});
          },
          nb::arg("order"))
      .def(
          "geometric_factors",
          [](const mesh::Mesh& s, int order) {
            mesh::GeometricFactors f;
            {
              nb::gil_scoped_release release;
              f = mesh::geometric_factors(s, order);
            }
            const std::size_t elements = s.element_ids.size(), points = points_of(order);
            return std::tuple(to_numpy(std::move(f.g), {elements, points, 6}),
                              to_numpy(std::move(f.mass), {elements, points}));
          },
          nb::arg("order"))
      .def(
          "mass_matrix",
          [](const mesh::Mesh& s, int order) {
            std::vector<double> mass;
            {
              nb::gil_scoped_release release;
              mass = mesh::mass_matrix(s, order);
            }
            return to_numpy(std::move(mass), {s.element_ids.size(), points_of(order)});
          },
          nb::arg("order"))
      .def(
          "with_nodes",
          [](const mesh::Mesh& s, int order, const In<double, Dim<-1>, Dim<-1>, Dim<3>>& nodes) {
            element::gll(order);  // checks the range
            if (nodes.shape(0) != s.element_ids.size() || nodes.shape(1) != points_of(order)) {
              throw std::invalid_argument("Mesh.with_nodes: the nodes are not those of the elements at this order");
            }
            mesh::Mesh moved = s;
            moved.geometry_order = order;
            moved.nodes = std::vector<double>(nodes.data(), nodes.data() + nodes.size());
            return moved;
          },
          nb::arg("order"), nb::arg("nodes").noconvert(),
          "The same elements with another geometry: nodes [E][(order+1)^3][3] at the GLL points of the order.")
      .def(
          "permuted",
          [](const mesh::Mesh& s, const In<std::int64_t, Dim<-1>>& order) {
            return s.permuted({order.data(), order.size()});
          },
          nb::arg("order"));
}

void bind_part(nb::module_& sub) {
  nb::class_<mesh::Mesh> part(sub, "Mesh");
  part.def_prop_ro("elements", &mesh::Mesh::elements)
      .def_ro("global_elements", &mesh::Mesh::global_elements)
      .def_prop_ro("straight", &mesh::Mesh::straight)
      .def_ro("geometry_order", &mesh::Mesh::geometry_order)
      .def_ro("boundary_names", &mesh::Mesh::boundary_names)
      .def_ro("source", &mesh::Mesh::source)
      .def_prop_ro("comm", [](const mesh::Mesh& s) { return from_comm(s.comm); })
      .def_prop_ro("global_vertices", [](const mesh::Mesh& s) { return s.topology.global_vertices; })
      .def_prop_ro("global_edges", [](const mesh::Mesh& s) { return s.topology.global_edges; })
      .def_prop_ro("global_faces", [](const mesh::Mesh& s) { return s.topology.global_faces; })
      .def_prop_ro("element_ids",
                   [](nb::handle h) { return view<std::int64_t>(nb::cast<const mesh::Mesh&>(h).element_ids, h); })
      .def_prop_ro(
          "vertices",
          [](nb::handle h) { return view<std::int64_t>(nb::cast<const mesh::Mesh&>(h).topology.vertices, 8, h); })
      .def_prop_ro("faces",
                   [](nb::handle h) { return view<std::int64_t>(nb::cast<const mesh::Mesh&>(h).topology.faces, 6, h); })
      .def_prop_ro("boundaries",
                   [](nb::handle h) { return view<std::int32_t>(nb::cast<const mesh::Mesh&>(h).boundaries, 6, h); });
  bind_points(part);
}

void bind_box(nb::module_& sub) {
  sub.def(
      "make_box",
      [](std::array<std::int64_t, 3> counts, std::array<double, 3> lower, std::array<double, 3> upper,
         std::array<bool, 3> periodic, std::string deformation, std::optional<double> parameter,
         const Communicator& comm) {
        const mpi::Comm c = to_comm(comm);
        const mesh::BoxOptions options{.counts = counts,
                                       .lower = lower,
                                       .upper = upper,
                                       .periodic = periodic,
                                       .deformation = std::move(deformation),
                                       .deformation_parameter = parameter};
        nb::gil_scoped_release release;
        return mesh::make_box(options, c);
      },
      nb::arg("counts"), nb::arg("lower"), nb::arg("upper"), nb::arg("periodic"), nb::arg("deformation"),
      nb::arg("parameter").none(), nb::arg("comm").none());
}

void bind_whole(nb::module_& sub) {
  nb::class_<Whole>(sub, "WholeMesh", "A whole mesh on the rank that reads it: connected, not yet distributed.")
      .def(
          "__init__",
          [](Whole* self, const In<std::int64_t, Dim<-1>, Dim<8>>& vertices,
             const In<double, Dim<-1>, Dim<-1>, Dim<3>>& nodes, const In<std::int32_t, Dim<-1>, Dim<6>>& boundaries,
             std::vector<std::string> names, const In<std::int64_t, Dim<-1>, Dim<8>>& periodic,
             const In<std::int64_t, Dim<-1>, Dim<3>>& curve_sides, const In<double, Dim<-1>, Dim<5>>& curve_values,
             std::string source) {
            new (self) Whole(make_whole(vertices, nodes, boundaries, std::move(names), periodic, curve_sides,
                                        curve_values, std::move(source)));
          },
          nb::arg("vertices").noconvert(), nb::arg("nodes").noconvert(), nb::arg("boundaries").noconvert(),
          nb::arg("boundary_names"), nb::arg("periodic").noconvert(), nb::arg("curve_sides").noconvert(),
          nb::arg("curve_values").noconvert(), nb::arg("source"))
      .def_prop_ro("neighbors",
                   [](nb::handle h) { return view<std::int64_t>(nb::cast<const Whole&>(h).topology.neighbors, 6, h); })
      .def(
          "recursive_bisection",
          [](const Whole& w, int parts) {
            std::vector<std::int32_t> result = mesh::recursive_bisection(w.mesh, parts);
            return to_numpy(std::move(result));
          },
          nb::arg("parts"));
  // whole and parts: given on rank 0, None on the others.
  sub.def(
      "distribute",
      [](const Whole* whole, std::optional<In<std::int32_t, Dim<-1>>> parts, int geometry_order,
         const Communicator& comm) {
        const mpi::Comm c = to_comm(comm);
        static const Whole nothing;
        const Whole& w = whole != nullptr ? *whole : nothing;
        std::span<const std::int32_t> where;
        if (parts) where = {parts->data(), parts->size()};
        nb::gil_scoped_release release;
        return mesh::distribute(w.mesh, w.topology, where, geometry_order, c);
      },
      nb::arg("whole").none(), nb::arg("parts").noconvert().none(), nb::arg("geometry_order"), nb::arg("comm").none());
}

}  // namespace

void bind_mesh(nb::module_& m) {
  nb::module_ sub = m.def_submodule("mesh", "Meshes of hexahedra; use weft.Mesh");
  bind_reference_element(sub);
  bind_part(sub);
  bind_box(sub);
  bind_whole(sub);
}

}  // namespace weft::bindings
