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
#include "weft/bindings/one_of.hpp"
#include "weft/flow/solver.hpp"
#include "weft/program/program.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

// A Python function of NumPy arrays ([3][n], t) that gives [components][n], evaluated on the host.
template <class T>
flow::Function<T> host_function(nb::object callable, int components, const std::shared_ptr<device::Device>& device) {
  // Released with Python's lock, whoever lets go of the function.
  const std::shared_ptr<nb::object> held(new nb::object(std::move(callable)), [](nb::object* object) {
    nb::gil_scoped_acquire acquire;
    delete object;
  });
  return [held, components, device](const T* places, std::int64_t stride, std::int64_t n, double time, T* values,
                                    device::Stream& stream) {
    std::vector<T> at(3 * n);
    for (int c = 0; c < 3; ++c)
      device->copy(at.data() + c * n, places + c * stride, n * sizeof(T), device::CopyKind::device_to_host, stream);
    stream.synchronize();
    std::vector<T> result(components * n);
    {
      nb::gil_scoped_acquire acquire;
      const auto count = static_cast<std::size_t>(n);
      const nb::object given =
          (*held)(nb::ndarray<nb::numpy, T>(at.data(), {3, count}).cast(nb::rv_policy::copy), time);
      const auto array = nb::cast<nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(given);
      if (array.shape(0) != static_cast<std::size_t>(components) || array.shape(1) != count)
        throw std::invalid_argument("flow: a function gave [" + std::to_string(array.shape(0)) + "][" +
                                    std::to_string(array.shape(1)) + "] values instead of [" +
                                    std::to_string(components) + "][" + std::to_string(n) + "]");
      std::copy_n(array.data(), result.size(), result.begin());
    }
    for (int c = 0; c < components; ++c)
      device->copy(values + c * stride, result.data() + c * n, n * sizeof(T), device::CopyKind::host_to_device, stream);
    stream.synchronize();
  };
}

// None, a list of programs (weft.program.compiled), one a component, or a callable.
template <class T>
flow::Function<T> function_of(const nb::object& given, int components, const std::shared_ptr<device::Device>& device,
                              bool* steady = nullptr) {
  if (steady != nullptr) *steady = true;
  if (given.is_none()) return {};
  if (!nb::isinstance<nb::list>(given)) {
    if (steady != nullptr) *steady = false;
    return host_function<T>(given, components, device);
  }
  std::vector<std::shared_ptr<program::Program<T>>> programs;
  for (const nb::handle code : nb::cast<nb::list>(given)) {
    programs.push_back(std::make_shared<program::Program<T>>(nb::cast<program::Code>(code), device));
    if (steady != nullptr) *steady = *steady && !programs.back()->code().depends_on_time();
  }
  return
      [programs](const T* places, std::int64_t stride, std::int64_t n, double time, T* values, device::Stream& stream) {
        for (std::size_t c = 0; c < programs.size(); ++c)
          programs[c]->evaluate(places, stride, n, time, values + static_cast<std::int64_t>(c) * stride, stream);
      };
}

template <class T>
class Flow {
 public:
  using HostFields = nb::ndarray<const T, nb::ndim<5>, nb::c_contig, nb::device::cpu>;
  using HostField = nb::ndarray<const T, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

  Flow(const mesh::Mesh& mesh, const poisson::Options& space, const flow::Options<T>& options)
      : solver_(mesh, space, options) {}
  flow::Solver<T>& solver() { return solver_; }

  void set_velocity(const HostFields& values, int level) {
    check(values.ndim(), [&](std::size_t axis) { return values.shape(axis); }, level);
    set(std::span<const T>(values.data(), values.size()), 3, solver_.state().velocity(level));
  }
  nb::object velocity(int level) {
    check_level(level);
    return get(3, solver_.state().velocity(level));
  }
  void set_scalar(int number, const HostField& values, int level) {
    check(values.ndim(), [&](std::size_t axis) { return values.shape(axis); }, level);
    set(std::span<const T>(values.data(), values.size()), 1, solver_.state().scalar(number, level));
  }
  nb::object scalar(int number, int level) {
    check_level(level);
    return get(1, solver_.state().scalar(number, level));
  }
  void set_pressure(const HostField& values) {
    check(values.ndim(), [&](std::size_t axis) { return values.shape(axis); }, 0);
    set(std::span<const T>(values.data(), values.size()), 1, solver_.state().pressure());
  }
  nb::object pressure() { return get(1, solver_.state().pressure()); }

  // A function of place and time at the points, as fields.
  nb::object evaluate(const nb::object& given, int components, double time) {
    const auto& space = solver_.space();
    const flow::Function<T> function = function_of<T>(given, components, space.device());
    device::Array<T> values(space.device(), static_cast<std::size_t>(components * space.entries()));
    {
      nb::gil_scoped_release release;
      values.zero();
      function(space.coordinates(), space.entries(), space.unknowns(), time, values.data(), solver_.stream());
      solver_.stream().synchronize();
    }
    return get(components, values.data());
  }

 private:
  void check_level(int level) {
    if (level < 0 || level >= solver_.state().order)
      throw std::invalid_argument("flow: there are levels 0 to " + std::to_string(solver_.state().order - 1) +
                                  ", not " + std::to_string(level));
  }
  template <class Shape>
  void check(std::size_t dimensions, const Shape& shape, int level) {
    check_level(level);
    const auto n = static_cast<std::size_t>(solver_.space().order() + 1);
    const auto elements = static_cast<std::size_t>(solver_.space().mesh().elements());
    bool right = dimensions == 4 || shape(0) == 3;
    right = right && shape(dimensions - 4) == elements;
    for (std::size_t axis = dimensions - 3; axis < dimensions; ++axis) right = right && shape(axis) == n;
    if (right) return;
    const std::string side = "[" + std::to_string(n) + "]";
    throw std::invalid_argument(std::string("flow: values are ") + (dimensions == 5 ? "[3]" : "") + "[" +
                                std::to_string(elements) + "]" + side + side + side + " on this rank");
  }
  void set(std::span<const T> values, int fields, T* vectors) {
    nb::gil_scoped_release release;
    solver_.stream().synchronize();
    solver_.space().to_vectors(values, fields, vectors);
  }
  nb::object get(int fields, const T* vectors) {
    auto copy = std::make_unique<std::vector<T>>();
    {
      nb::gil_scoped_release release;
      solver_.stream().synchronize();
      *copy = solver_.space().to_points(vectors, fields);
    }
    const auto n = static_cast<std::size_t>(solver_.space().order() + 1);
    const auto elements = static_cast<std::size_t>(solver_.space().mesh().elements());
    T* data = copy->data();
    nb::capsule keeper(copy.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    if (fields == 1) return nb::cast(nb::ndarray<nb::numpy, T>(data, {elements, n, n, n}, keeper));
    return nb::cast(nb::ndarray<nb::numpy, T>(data, {static_cast<std::size_t>(fields), elements, n, n, n}, keeper));
  }

  flow::Solver<T> solver_;
};

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
          [](F* self, const mesh::Mesh& mesh, int order, double viscosity, int time_order,
             const std::map<std::string, ConditionTuple>& boundaries, const std::vector<ScalarTuple>& scalars,
             const nb::object& force, const std::vector<BuoyancyTuple>& buoyancy,
             std::optional<std::tuple<std::array<double, 3>, double>> flow_rate, bool skew_symmetric,
             std::tuple<int, double> filter, const PressureTuple& pressure, std::array<double, 3> tolerances,
             const std::string& geometry, const std::string& kernels, const std::string& exchange, bool exchange_cache,
             std::shared_ptr<device::Device> device) {
            using namespace poisson;
            poisson::Options space;
            space.order = order;
            space.geometry = one_of("flow", "geometry", geometry, {Geometry::stored, Geometry::trilinear});
            space.kernels = one_of("flow", "kernels", kernels, {Kernels::portable, Kernels::simd});
            space.exchange = exchange::Asked(exchange, exchange_cache);
            space.device = device;
            flow::Options<T> options;
            options.time_order = time_order;
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
          "mesh"_a, "order"_a, "viscosity"_a, "time_order"_a, "boundaries"_a, "scalars"_a, "force"_a.none(),
          "buoyancy"_a, "flow_rate"_a.none(), "skew_symmetric"_a, "filter"_a, "pressure"_a, "tolerances"_a,
          "geometry"_a, "kernels"_a, "exchange"_a, "exchange_cache"_a, "device"_a)
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
           [](F& self) {
             poisson::Triplets matrix;
             {
               nb::gil_scoped_release release;
               if (self.solver().pressure().orders().size() > 1) matrix = self.solver().pressure().coarse_matrix();
             }
             nb::dict d = to_dict(std::move(matrix));
             d["singular"] = self.solver().pressure().singular();
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
      .def("forget_solutions", [](F& self) { self.solver().pressure().reset(); })
      .def_prop_ro("pressure_orders", [](F& self) { return self.solver().pressure().orders(); })
      .def_prop_ro("largest_eigenvalues", [](F& self) { return self.solver().pressure().largest_eigenvalues(); })
      .def("memory_bytes", [](F& self) { return self.solver().memory_bytes(); })
      .def_prop_ro("time", [](F& self) { return self.solver().state().time; })
      .def_prop_ro("steps", [](F& self) { return self.solver().state().step; })
      .def_prop_ro("pressure_singular", [](F& self) { return self.solver().boundaries().pressure_singular(); })
      .def_prop_ro("figures",
                   [](F& self) {
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
        nb::dict tunings;
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
