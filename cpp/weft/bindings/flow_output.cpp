#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "weft/bindings/bindings.hpp"
#include "weft/bindings/element_file.hpp"
#include "weft/bindings/flow.hpp"
#include "weft/device/vector.hpp"
#include "weft/flow/checkpoint.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

// Converts vectors [fields][entries] to [fields][E][n][n][n].
template <class T>
Numpy<T, 5> at_points(flow::Solver<T>& solver, const T* vectors, int fields) {
  std::vector<T> points;
  {
    nb::gil_scoped_release release;
    solver.stream().synchronize();
    points = solver.space().to_points(vectors, fields);
  }
  const auto n = static_cast<std::size_t>(solver.space().order() + 1);
  const auto elements = static_cast<std::size_t>(solver.space().mesh().elements());
  return to_numpy(std::move(points), {static_cast<std::size_t>(fields), elements, n, n, n});
}

// A term of the equations for the current velocity and pressure, projected: its weak form divided by the mass matrix.
template <class T>
Numpy<T, 5> term(flow::Solver<T>& solver, const std::string& name) {
  space::Space<T>& space = solver.space();
  flow::State<T>& state = solver.state();
  const int components = name == "divergence" ? 1 : 3;
  device::Array<T> weak(space.device(), static_cast<std::size_t>(components * space.entries()));
  {
    nb::gil_scoped_release release;
    weak.zero();
    flow::Terms<T>& terms = solver.terms();
    if (name == "vorticity") {
      terms.curl(state.velocity(), weak.data(), solver.stream());
    } else if (name == "divergence") {
      terms.divergence(state.velocity(), weak.data(), solver.stream());
    } else if (name == "pressure gradient") {
      terms.gradient(state.pressure(), weak.data(), solver.stream());
    } else if (name != "convection") {
      throw std::invalid_argument("flow: the term \"" + name +
                                  "\" is not one of: convection, pressure gradient, vorticity, divergence");
    } else if (solver.options().convection == flow::Convection::over_integrated) {
      terms.convect(state.velocity(), state.velocity(), 3, weak.data(), solver.stream());
    } else {
      terms.convect_skew(state.velocity(), state.velocity(), 3, weak.data(), solver.stream());
    }
    const std::int64_t n = space.entries();
    const device::Kernel<long, const T*, const T*, T*> multiply = device::vector_kernel<T>(*space.device(), "multiply");
    device::Array<T> projected(space.device(), weak.size());
    for (int c = 0; c < components; ++c)
      multiply(solver.stream(), device::vector_blocks(n), device::vector_shape, n, space.inverse_mass(),
               weak.data() + c * n, projected.data() + c * n);
    solver.stream().synchronize();
    weak = std::move(projected);
  }
  return at_points<T>(solver, weak.data(), components);
}

template <class T>
void bind(nb::module_& m, const char* name) {
  using F = Flow<T>;
  nb::borrow<nb::class_<F>>(m.attr(name))
      .def(
          "save",
          [](F& self, const std::string& folder, const std::string& text, int keep) {
            nb::gil_scoped_release release;
            return flow::save(self.solver(), {folder, keep, text});
          },
          "folder"_a, "text"_a, "keep"_a)
      .def(
          "restore",
          [](F& self, const std::string& path) {
            return to_dict(unlocked([&] { return flow::restore(self.solver(), path); }));
          },
          "path"_a);
  m.def("term", [](F& self, const std::string& name) { return term(self.solver(), name); }, "solver"_a, "name"_a);
  m.def("start_averages", [](F& self, int every) { self.solver().average(every); }, "solver"_a, "every"_a);
  m.def(
      "averages",
      [](F& self) -> std::optional<AnyDict> {
        flow::Averages<T>* averages = self.solver().averages();
        if (averages == nullptr) return std::nullopt;
        AnyDict d;
        d["since"] = averages->since();
        d["until"] = averages->until();
        d["samples"] = averages->samples();
        d["values"] = at_points<T>(self.solver(), averages->data(), averages->components());
        return d;
      },
      "solver"_a);
}

}  // namespace

void bind_flow_output(nb::module_& m) {
  nb::module_ f = nb::cast<nb::module_>(m.attr("flow"));
  bind<double>(f, "FlowDouble");
  bind<float>(f, "FlowSingle");
  f.def(
      "checkpoint",
      [](const std::string& path, const Communicator& comm) {
        const mpi::Comm all = to_comm(comm);
        return to_dict(unlocked([&] { return mesh::ElementFile(path, flow::checkpoint_kind, all); }));
      },
      "path"_a, "comm"_a.none());
}

}  // namespace weft::bindings
