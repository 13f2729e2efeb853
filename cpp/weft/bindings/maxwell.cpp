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
#include "weft/bindings/options.hpp"
#include "weft/maxwell/operator.hpp"
#include "weft/maxwell/stepper.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

// An operator with its stepper.
template <class T>
class Maxwell {
 public:
  using HostFields = nb::ndarray<const T, nb::ndim<5>, nb::c_contig, nb::device::cpu>;

  Maxwell(const mesh::Mesh& mesh, const maxwell::Options& options)
      : device_(options.device), op_(mesh, options), stepper_(op_) {}

  maxwell::Operator<T>& op() { return op_; }
  maxwell::Stepper<T>& stepper() { return stepper_; }

  void set_fields(const HostFields& values) {
    check(values);
    stepper_.stream().synchronize();
    stepper_.fields().upload(std::span<const T>(values.data(), values.size()));
    op_.rest();
    stepper_.fields_changed();
  }

  std::pair<double, double> energy() {
    nb::gil_scoped_release release;
    return op_.energy(stepper_.fields().data(), stepper_.stream());
  }
  std::pair<double, double> divergence() {
    nb::gil_scoped_release release;
    if (device_->is_host())
      return op_.divergence(std::span<const T>(stepper_.fields().data(), stepper_.fields().size()));
    return op_.divergence(stepper_.fields().download());
  }

  // A copy of the rates of given fields; the stepper's own are left alone.
  Numpy<T, 5> rates(double time, const HostFields& values) {
    check(values);
    std::vector<T> result;
    {
      nb::gil_scoped_release release;
      const device::Array<T> fields(device_, std::span<const T>(values.data(), values.size()));
      device::Array<T> rates(device_, values.size());
      op_.apply(time, fields.data(), rates.data(), stepper_.stream());
      stepper_.stream().synchronize();
      result = rates.download();
    }
    return to_numpy(std::move(result), {shape(0), 6, shape(2), shape(3), shape(4)});
  }

  // The fields themselves: NumPy on the host, an array with __dlpack__ on a GPU. `owner` keeps them alive.
  nb::any view(nb::handle owner) {
    T* data = stepper_.fields().data();
    const auto device_type = dlpack_device(*device_);
    if (device_->is_host()) return nb::cast<nb::any>(nb::cast(own(owner)));
    return nb::cast<nb::any>(
        nb::cast(nb::ndarray<nb::array_api, T>(data, {shape(0), 6, shape(2), shape(3), shape(4)}, owner, {},
                                               nb::dtype<T>(), device_type, device_->info().ordinal)));
  }

  // The fields as NumPy has them: themselves on the host, a copy of a GPU's.
  Numpy<T, 5> host_fields(nb::handle owner) {
    if (device_->is_host()) return own(owner);
    std::vector<T> copy;
    {
      nb::gil_scoped_release release;
      stepper_.stream().synchronize();
      copy = stepper_.fields().download();
    }
    return to_numpy(std::move(copy), {shape(0), 6, shape(2), shape(3), shape(4)});
  }

  void step(std::int64_t count, double dt) {
    nb::gil_scoped_release release;
    stepper_.step(count, dt);
  }

  std::map<std::string, std::int64_t> memory_bytes() const {
    auto bytes = op_.memory_bytes();
    bytes.merge(stepper_.memory_bytes());
    return bytes;
  }

 private:
  Numpy<T, 5> own(nb::handle owner) {  // of the host
    return Numpy<T, 5>(stepper_.fields().data(), {shape(0), 6, shape(2), shape(3), shape(4)}, owner);
  }
  std::size_t shape(int axis) const {
    return axis == 0 ? static_cast<std::size_t>(op_.elements()) : static_cast<std::size_t>(op_.options().order + 1);
  }
  void check(const HostFields& values) const {
    bool right = values.shape(0) == shape(0) && values.shape(1) == 6;
    for (int axis = 2; axis < 5; ++axis) right = right && values.shape(axis) == shape(axis);
    if (right) return;
    const std::string n = std::to_string(shape(2));
    throw std::invalid_argument("maxwell: fields are [" + std::to_string(shape(0)) + "][6][" + n + "][" + n + "][" + n +
                                "] on this rank");
  }

  std::shared_ptr<device::Device> device_;
  maxwell::Operator<T> op_;
  maxwell::Stepper<T> stepper_;
};

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
             self.stepper().check();
           })
      .def("fields_changed", [](M& self) { self.stepper().fields_changed(); })
      .def("energy", &M::energy)
      .def("divergence", &M::divergence)
      .def("memory_bytes", &M::memory_bytes)
      .def_prop_rw(
          "time", [](M& self) { return self.stepper().time(); },
          [](M& self, double time) { self.stepper().set_time(time); })
      .def_prop_ro("steps", [](M& self) { return self.stepper().steps(); })
      .def_prop_ro("applications", [](M& self) { return self.stepper().applications(); })
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
  bind_options<Material>(p, "Material", "maxwell: material.",
                         "Of a region, relative to vacuum. ``sigma``: conductivity, in units of 1 / (free-space "
                         "impedance x length).");
  bind_options<Pulse>(
      p, "Pulse", "maxwell: pulse.",
      "f(t) = sin(2 pi frequency s + phase) with s = t - delay.\n\nTimes exp(-(s / width)^2) if width > "
      "0; switched on by sin^2 between s = 0 and s = ramp if ramp > 0.");
  bind_options<PlaneWave>(p, "PlaneWave", "maxwell: wave.",
                          "E = field f(t - direction . (x - origin) / c), in the medium eps, mu that it comes from; "
                          "``field`` is normal to ``direction``.");
  bind_options<Dipole>(p, "Dipole", "maxwell: dipole.", "The current density moment f(t) delta(x - position).");
  bind_options<Options>(p, "Options", "maxwell: ", "What `weft.maxwell.Solver` takes by name.");
  bind<double>(p, "MaxwellDouble");
  bind<float>(p, "MaxwellSingle");
}

}  // namespace weft::bindings
