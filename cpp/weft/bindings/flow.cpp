#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/bindings/coarse.hpp"
#include "weft/bindings/flow.hpp"
#include "weft/bindings/options.hpp"
#include "weft/flow/solver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

// The classes that a flow is made from.
template <class T>
void bind_options_of(nb::module_& m, const std::string& precision) {
  const auto named = [&](const char* what) { return what + precision; };
  nb::class_<flow::Function<T>>(m, named("Function").c_str())
      .def_static(
          "of",
          [](const nb::object& given, int components, const std::shared_ptr<device::Device>& device) {
            bool steady = true;
            auto function = function_of<T>(given, components, device, &steady);
            return std::pair(std::move(function), steady);
          },
          "given"_a.none(), "components"_a, "device"_a,
          "Converts a function for the options; also returns whether it is steady.");
  bind_options<flow::Condition<T>>(m, named("Condition").c_str(), "flow: condition.",
                                   "Boundary condition of the velocity.");
  bind_options<flow::ScalarCondition<T>>(m, named("ScalarCondition").c_str(), "flow: condition.",
                                         "Boundary condition of a scalar.");
  bind_options<flow::ScalarOptions<T>>(m, named("Scalar").c_str(), "flow: scalar.",
                                       "A scalar transported by the flow.");
  bind_options<flow::Options<T>>(m, named("Options").c_str(), "flow: ", "The options of `weft.flow.Solver`.");
}

template <class T>
void bind(nb::module_& m, const std::string& precision) {
  using F = Flow<T>;
  bind_options_of<T>(m, precision);
  nb::class_<F>(m, ("Flow" + precision).c_str())
      .def(
          "__init__",
          [](F* self, const mesh::Mesh& mesh, const poisson::Options& stiffness, const flow::Options<T>& options) {
            nb::gil_scoped_release release;
            new (self) F(mesh, stiffness, options);
          },
          "mesh"_a, "space"_a, "options"_a)
      .def("set_velocity", &F::set_velocity, "values"_a.noconvert(), "level"_a)
      .def("velocity", &F::velocity, "level"_a)
      .def("set_scalar", &F::set_scalar, "number"_a, "values"_a.noconvert(), "level"_a)
      .def("scalar", &F::scalar, "number"_a, "level"_a)
      .def("set_pressure", &F::set_pressure, "values"_a.noconvert())
      .def("pressure", &F::pressure)
      .def("evaluate", &F::evaluate, "function"_a, "components"_a, "time"_a)
      .def(
          "start",
          [](F& self, const std::vector<double>& times, std::int64_t step) {
            nb::gil_scoped_release release;
            self.solver().start(times, step);
          },
          "times"_a, "step"_a)
      .def(
          "step",
          [](F& self, double dt) {
            nb::gil_scoped_release release;
            self.solver().step(dt);
          },
          "dt"_a)
      // The pressure's coarse level, as in the multigrid of the Poisson operator.
      .def("coarse_matrix",
           [](F& self) -> AnyDict {
             poisson::Triplets matrix;
             {
               nb::gil_scoped_release release;
               if (self.solver().pressure().algebraic()) matrix = self.solver().pressure().coarse_matrix();
             }
             nb::dict d = to_dict(std::move(matrix));
             d["algebraic"] = self.solver().pressure().algebraic();
             d["singular"] = self.solver().pressure().singular();
             d["smoother"] = poisson::name(self.solver().pressure().smoothing());
             d["unknowns"] = self.solver().pressure().coarse_unknowns();
             return d;
           })
      .def(
          "set_coarse",
          [](F& self, const nb::list& levels, const DenseMatrix& coarsest) {
            solver::Amg hierarchy = amg_of(levels, coarsest, self.solver().pressure().singular());
            nb::gil_scoped_release release;
            self.solver().pressure().set_coarse(std::move(hierarchy));
          },
          "levels"_a, "coarsest"_a.noconvert())
      .def_prop_ro("pressure_orders", [](F& self) { return self.solver().pressure().orders(); })
      .def_prop_ro("largest_eigenvalues", [](F& self) { return self.solver().pressure().largest_eigenvalues(); })
      .def("memory_bytes", [](F& self) { return self.solver().memory_bytes(); })
      .def_prop_ro("time", [](F& self) { return self.solver().state().time; })
      .def_prop_ro("last_dt", [](F& self) { return self.solver().state().dt[0]; })
      .def_prop_ro("steps", [](F& self) { return self.solver().state().step; })
      .def_prop_ro("pressure_singular", [](F& self) { return self.solver().boundaries().pressure_singular(); })
      .def_prop_ro("figures",
                   [](F& self) -> AnyDict {
                     const flow::StepFigures& figures = self.solver().figures();
                     nb::dict d;
                     d["pressure_iterations"] = figures.pressure.iterations;
                     d["pressure_residuals"] =
                         nb::make_tuple(figures.pressure.unprojected, figures.pressure.first, figures.pressure.last);
                     nb::list velocity, scalars;
                     for (const auto& result : figures.velocity) velocity.append(result.iterations);
                     for (const auto& result : figures.scalars) scalars.append(result.iterations);
                     d["velocity_iterations"] = velocity;
                     d["scalar_iterations"] = scalars;
                     d["flow_rate_forcing"] = figures.forcing;
                     return d;
                   })
      // Bytes and flops of a term on this rank (docs/flow-terms.md); the fields of convection begin with the velocity.
      .def(
          "work",
          [](F& self, const std::string& term, int fields) {
            for (const auto known : {flow::Term::convect, flow::Term::convect_skew, flow::Term::gradient,
                                     flow::Term::weak_divergence, flow::Term::divergence, flow::Term::curl})
              if (flow::name(known) == term) {
                const flow::Work work = self.solver().terms().work(known, fields, true);
                return std::pair(work.bytes, work.flops);
              }
            throw std::invalid_argument("flow: there is no term \"" + term + "\"");
          },
          "term"_a, "fields"_a)
      .def_prop_ro("unknowns", [](F& self) { return self.solver().space().unknowns(); })
      .def_prop_ro("elements_by_shape", [](F& self) { return self.solver().stiffness().elements_by_shape(); })
      .def_prop_ro("exchange", [](F& self) {
        Tunings tunings;
        for (const auto& [use, tuning] : self.solver().tunings()) tunings[use.c_str()] = to_dict(tuning);
        return tunings;
      });
}

}  // namespace

void bind_flow(nb::module_& m) {
  nb::module_ p = m.def_submodule("flow", "Incompressible flow on spectral elements; use weft.flow.Solver");
  using namespace flow;
  bind_options<Buoyancy>(p, "Buoyancy", "flow: buoyancy.",
                         "The force ``vector`` (s - ``reference``) due to the scalar s called ``scalar`` (Boussinesq "
                         "approximation).");
  bind_options<FlowRate>(p, "FlowRate", "flow: flow_rate.",
                         "A uniform force along ``direction`` that keeps the volume average of u . direction equal to "
                         "``mean``.");
  bind_options<FilterOptions>(
      p, "Filter", "flow: filter.",
      "A filter of the ``modes`` highest modes of each element, applied after each step. The highest mode "
      "loses the fraction ``strength``.");
  bind_options<PressureOptions>(
      p, "Pressure", "flow: pressure.",
      "The solver of the pressure: a Krylov method preconditioned by a p-multigrid cycle; the initial guess is made of "
      "earlier solutions.\n\n"
      "``orders``: the orders of the levels, decreasing to 1; by default N, N / 2, ..., 1. ``degree``: degree of the "
      "Chebyshev smoother. (Boxes are smoothed by one step of the Schwarz method instead.) ``single``: run the cycle "
      "in "
      "single precision. ``method``: ``cg`` (flexible), or ``gmres`` with ``restart`` directions. ``projection``: "
      "number "
      "of earlier solutions used for the initial guess (Fischer 1998); 0: none.");
  bind<double>(p, "Double");
  bind<float>(p, "Single");
  p.attr("BlownUp") = nb::steal(PyErr_NewExceptionWithDoc(
      "weft._weft.flow.BlownUp", "A field is no longer finite; ``step`` and ``field`` say when and which.",
      m.attr("mpi").attr("CollectiveError").ptr(), nullptr));
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* type) {
        try {
          std::rethrow_exception(pointer);
        } catch (const flow::BlownUp& error) {
          const nb::handle kind(static_cast<PyObject*>(type));
          const nb::object value = kind(error.what());
          value.attr("step") = error.step;
          value.attr("field") = error.field;
          PyErr_SetObject(kind.ptr(), value.ptr());
        }
      },
      p.attr("BlownUp").ptr());
}

}  // namespace weft::bindings
