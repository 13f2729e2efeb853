#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/bindings/bindings.hpp"
#include "weft/bindings/flow.hpp"
#include "weft/flow/forces.hpp"
#include "weft/flow/statistics.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

std::map<std::string, double> to_map(const flow::FieldStatistics& s) {
  std::map<std::string, double> d;
  d["mean"] = s.mean;
  d["mean_square"] = s.mean_square;
  d["smallest"] = s.smallest;
  d["largest"] = s.largest;
  return d;
}

// Statistics of a flow's fields, with the geometry they need.
template <class T>
class FlowStatistics {
 public:
  FlowStatistics(Flow<T>& flow, const std::vector<std::string>& boundaries)
      : solver_(flow.solver()), statistics_(solver_.space()), forces_(solver_.space(), boundaries) {}

  std::map<std::string, double> velocity() {
    flow::VelocityStatistics found;
    {
      nb::gil_scoped_release release;
      found = statistics_.velocity(solver_.state().velocity(), solver_.stream());
    }
    std::map<std::string, double> d;
    d["energy"] = found.energy;
    d["enstrophy"] = found.enstrophy;
    d["strain"] = found.strain;
    d["gradient"] = found.gradient;
    d["divergence"] = found.divergence;
    d["largest_divergence"] = found.largest_divergence;
    return d;
  }
  double courant_rate() {
    nb::gil_scoped_release release;
    return statistics_.courant_rate(solver_.state().velocity(), solver_.stream());
  }
  // For a fluid at rest, with the values that boundaries currently prescribe.
  double courant_rate_of_boundaries() {
    nb::gil_scoped_release release;
    const std::vector<T> rest(3 * static_cast<std::size_t>(solver_.space().entries()));
    device::Array<T> u(solver_.space().device(), std::span<const T>(rest));
    solver_.prescribe(u.data());
    return statistics_.courant_rate(u.data(), solver_.stream());
  }
  // Statistics of u, v, w, the scalars and the pressure.
  std::vector<std::map<std::string, double>> fields() {
    std::vector<flow::FieldStatistics> found;
    {
      nb::gil_scoped_release release;
      auto& state = solver_.state();
      found = statistics_.fields(state.fields(), state.components(), solver_.stream());
      found.push_back(statistics_.fields(state.pressure(), 1, solver_.stream())[0]);
    }
    std::vector<std::map<std::string, double>> list;
    for (const flow::FieldStatistics& field : found) list.push_back(to_map(field));
    return list;
  }
  // Forces on each boundary, in order of name; moments are about `centre`.
  std::vector<std::map<std::string, double>> forces(const std::array<double, 3>& centre) {
    std::vector<flow::Force> found;
    {
      nb::gil_scoped_release release;
      auto& state = solver_.state();
      found =
          forces_.compute(state.velocity(), state.pressure(), solver_.options().viscosity, centre, solver_.stream());
    }
    std::vector<std::map<std::string, double>> list;
    for (const flow::Force& force : found) {
      auto& d = list.emplace_back();
      for (int c = 0; c < 3; ++c) {
        const std::string axis(1, "xyz"[c]);
        d["force_pressure_" + axis] = force.pressure[c];
        d["force_viscous_" + axis] = force.viscous[c];
        d["moment_pressure_" + axis] = force.pressure_moment[c];
        d["moment_viscous_" + axis] = force.viscous_moment[c];
      }
      d["shear"] = force.mean_shear;
      d["largest_shear"] = force.largest_shear;
      d["y_plus"] = force.mean_y_plus;
      d["largest_y_plus"] = force.largest_y_plus;
    }
    return list;
  }
  std::int64_t bytes() const { return statistics_.bytes(); }

 private:
  flow::Solver<T>& solver_;
  flow::Statistics<T> statistics_;
  flow::Forces<T> forces_;
};

template <class T>
void bind(nb::module_& m, const char* name) {
  using S = FlowStatistics<T>;
  nb::class_<S>(m, name)
      .def(
          "__init__",
          [](S* self, Flow<T>& flow, const std::vector<std::string>& boundaries) {
            nb::gil_scoped_release release;
            new (self) S(flow, boundaries);
          },
          "flow"_a, "boundaries"_a, nb::keep_alive<1, 2>())
      .def("velocity", &S::velocity)
      .def("courant_rate", &S::courant_rate)
      .def("courant_rate_of_boundaries", &S::courant_rate_of_boundaries)
      .def("fields", &S::fields)
      .def("forces", &S::forces, "centre"_a)
      .def_prop_ro("bytes", &S::bytes);
}

}  // namespace

void bind_flow_statistics(nb::module_& m) {
  nb::module_ p = nb::cast<nb::module_>(m.attr("flow"));
  bind<double>(p, "StatisticsDouble");
  bind<float>(p, "StatisticsSingle");
}

}  // namespace weft::bindings
