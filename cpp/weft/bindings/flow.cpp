#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
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
#include "weft/bindings/one_of.hpp"
#include "weft/flow/solver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

using ConditionTuple = std::tuple<std::string, nb::object>;
using ScalarTuple = std::tuple<std::string, double, std::map<std::string, ConditionTuple>, nb::object>;
// orders, degree, single, method, restart, projection, max_iterations
using PressureTuple = std::tuple<std::vector<int>, int, bool, std::string, int, int, int>;
using BuoyancyTuple = std::tuple<int, std::array<double, 3>, double>;

template <class T>
void bind(nb::module_& m, const char* name) {
  using F = Flow<T>;
  nb::class_<F>(m, name)
      .def(
          "__init__",
          [](F* self, const mesh::Mesh& mesh, int order, double viscosity, int time_order, int first_step_halvings,
             const std::map<std::string, ConditionTuple>& boundaries, const std::vector<ScalarTuple>& scalars,
             const nb::object& force, const std::vector<BuoyancyTuple>& buoyancy,
             std::optional<std::tuple<std::array<double, 3>, double>> flow_rate, bool skew_symmetric,
             std::tuple<int, double> filter, const PressureTuple& pressure, std::array<double, 3> tolerances,
             const std::string& geometry, const std::string& kernels, const std::string& exchange, bool exchange_cache,
             std::shared_ptr<device::Device> device) {
            using namespace poisson;
            poisson::Options space;
            space.order = order;
            space.geometry = one_of<Geometry>("flow: geometry", geometry);
            space.kernels = one_of<Kernels>("flow: kernels", kernels);
            space.exchange = exchange::Asked(exchange, exchange_cache);
            space.device = device;
            flow::Options<T> options;
            options.time_order = time_order;
            options.first_step_halvings = first_step_halvings;
            options.viscosity = viscosity;
            for (const auto& [boundary, given] : boundaries) {
              flow::Condition<T>& condition = options.boundaries[boundary];
              condition.kind = flow::parse_kind(std::get<0>(given));
              condition.velocity = function_of<T>(std::get<1>(given), 3, device, &condition.steady);
            }
            for (const auto& [scalar, diffusivity, conditions, source] : scalars) {
              flow::ScalarOptions<T>& own = options.scalars.emplace_back();
              own.name = scalar;
              own.diffusivity = diffusivity;
              own.source = function_of<T>(source, 1, device);
              for (const auto& [boundary, given] : conditions) {
                flow::ScalarCondition<T>& condition = own.boundaries[boundary];
                condition.kind = flow::parse_scalar_kind(std::get<0>(given));
                condition.values = function_of<T>(std::get<1>(given), 1, device, &condition.steady);
              }
            }
            options.force = function_of<T>(force, 3, device);
            for (const auto& [scalar, vector, reference] : buoyancy)
              options.buoyancy.push_back({scalar, vector, reference});
            if (flow_rate) options.flow_rate = flow::FlowRate{std::get<0>(*flow_rate), std::get<1>(*flow_rate)};
            options.convection = skew_symmetric ? flow::Convection::skew_symmetric : flow::Convection::over_integrated;
            options.filter = {std::get<0>(filter), std::get<1>(filter)};
            const auto& [orders, degree, single, method, restart, projection, max_iterations] = pressure;
            options.pressure = {.orders = orders,
                                .degree = degree,
                                .single = single,
                                .method = method == "cg" ? poisson::Method::cg : poisson::Method::gmres,
                                .restart = restart,
                                .projection = projection,
                                .max_iterations = max_iterations};
            options.pressure_tolerance = tolerances[0];
            options.velocity_tolerance = tolerances[1];
            options.scalar_tolerance = tolerances[2];
            nb::gil_scoped_release release;
            new (self) F(mesh, space, options);
          },
          "mesh"_a, "order"_a, "viscosity"_a, "time_order"_a, "first_step_halvings"_a, "boundaries"_a, "scalars"_a,
          "force"_a.none(), "buoyancy"_a, "flow_rate"_a.none(), "skew_symmetric"_a, "filter"_a, "pressure"_a,
          "tolerances"_a, "geometry"_a, "kernels"_a, "exchange"_a, "exchange_cache"_a, "device"_a)
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
      // The pressure's coarse level, as of the Poisson operator's multigrid.
      .def("coarse_matrix",
           [](F& self) -> AnyDict {
             poisson::Triplets matrix;
             {
               nb::gil_scoped_release release;
               if (self.solver().pressure().orders().size() > 1) matrix = self.solver().pressure().coarse_matrix();
             }
             nb::dict d = to_dict(std::move(matrix));
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
      .def_prop_ro("exchange", [](F& self) {
        Tunings tunings;
        for (const auto& [use, tuning] : self.solver().tunings()) tunings[use.c_str()] = to_dict(tuning);
        return tunings;
      });
}

}  // namespace

void bind_flow(nb::module_& m) {
  nb::module_ p = m.def_submodule("flow", "Incompressible flow on spectral elements; use weft.flow.Solver");
  bind<double>(p, "FlowDouble");
  bind<float>(p, "FlowSingle");
  p.attr("BlownUp") = nb::steal(PyErr_NewExceptionWithDoc(
      "weft._weft.flow.BlownUp", "A run one of whose fields is no longer finite; step and field tell where.",
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
