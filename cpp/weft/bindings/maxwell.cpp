#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/bindings/maxwell.hpp"
#include "weft/bindings/options.hpp"
#include "weft/maxwell/operator.hpp"
#include "weft/maxwell/solver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

template <class T>
void bind(nb::module_& m, const char* name) {
  using M = Maxwell<T>;
  nb::class_<M>(m, name)
      .def(
          "__init__",
          [](M* self, const mesh::Mesh& mesh, const maxwell::Options& options) {
            nb::gil_scoped_release release;
            new (self) M(mesh, options);
          },
          "mesh"_a, "options"_a)
      .def("set_fields", &M::set_fields, "values"_a.noconvert())
      .def("fields", [](nb::object self) { return nb::cast<M&>(self).view(self); })
      .def("host_fields", [](nb::object self) { return nb::cast<M&>(self).host_fields(self); })
      .def("rates", &M::rates, "time"_a, "values"_a.noconvert())
      .def("step", &M::step, "count"_a, "dt"_a)
      .def("check",
           [](M& self) {
             nb::gil_scoped_release release;
             self.solver().check();
           })
      .def(
          "start", [](M& self, double time, std::int64_t step) { self.solver().start(time, step); }, "time"_a, "step"_a)
      .def("fields_changed", [](M& self) { self.solver().fields_changed(); })
      .def("energy", &M::energy)
      .def("divergence", &M::divergence)
      .def("memory_bytes", &M::memory_bytes)
      .def_prop_rw(
          "time", [](M& self) { return self.solver().time(); },
          [](M& self, double time) { self.solver().set_time(time); })
      .def_prop_ro("steps", [](M& self) { return self.solver().steps(); })
      .def_prop_ro("applications", [](M& self) { return self.solver().applications(); })
      .def_prop_ro("dt_limit", [](M& self) { return self.op().dt_limit(); })
      .def_prop_ro("elements", [](M& self) { return self.op().elements(); })
      .def_prop_ro("paper_flops", [](M& self) { return self.op().paper_flops(); })
      .def_prop_ro("flops", [](M& self) { return self.op().flops(); })
      .def_prop_ro("bytes", [](M& self) { return self.op().bytes(); })
      .def_prop_ro("bytes_sent", [](M& self) { return self.op().bytes_sent(); })
      .def_prop_ro("messages", [](M& self) { return self.op().messages(); })
      .def_prop_ro("exchange", [](M& self) { return to_dict(self.op().tuning()); });
}

}  // namespace

void bind_maxwell(nb::module_& m) {
  nb::module_ p = m.def_submodule("maxwell", "Maxwell's equations; use weft.maxwell.Solver");
  using namespace maxwell;
  bind_options<Material>(
      p, "Material", "maxwell: material.",
      "The material of a region, relative to vacuum. ``sigma``: conductivity, in units of 1 / (free-space "
      "impedance x length).");
  bind_options<Pulse>(
      p, "Pulse", "maxwell: pulse.",
      "f(t) = sin(2 pi frequency s + phase) with s = t - delay.\n\nMultiplied by exp(-(s / width)^2) if "
      "width > 0, and switched on by sin^2 between s = 0 and s = ramp if ramp > 0.");
  bind_options<PlaneWave>(
      p, "PlaneWave", "maxwell: wave.",
      "E = field f(t - direction . (x - origin) / c). c is the speed in the medium with ``eps`` and "
      "``mu``, from which the wave comes; ``field`` is normal to ``direction``.");
  bind_options<Dipole>(p, "Dipole", "maxwell: dipole.",
                       "A point source with the current density ``moment`` f(t) delta(x - ``position``).");
  bind_options<Options>(p, "Options", "maxwell: ", "The options of `weft.maxwell.Solver`.");
  bind<double>(p, "MaxwellDouble");
  bind<float>(p, "MaxwellSingle");
}

}  // namespace weft::bindings
