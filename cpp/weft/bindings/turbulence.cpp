#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/bindings/options.hpp"
#include "weft/turbulence/memory.hpp"
#include "weft/turbulence/solver.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

// The modes of one field, or of all velocity components, as a view that keeps the solver alive.
template <class T>
nb::any modes_view(turbulence::Solver<T>& solver, std::complex<T>* data, bool velocity) {
  const turbulence::SpectralPart& part = solver.state().part;
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  std::vector<std::size_t> shape{size(part.z.count), size(part.box.sizes[1]), size(part.x.count)};
  if (velocity) shape.insert(shape.begin(), 3);
  const auto& device = *solver.plan().device();
  const nb::object owner = nb::find(solver);
  if (device.is_host())
    return nb::cast<nb::any>(
        nb::cast(nb::ndarray<nb::numpy, std::complex<T>>(data, shape.size(), shape.data(), owner)));
  return nb::cast<nb::any>(nb::cast(nb::ndarray<nb::array_api, std::complex<T>>(
      data, shape.size(), shape.data(), owner, nullptr, nb::dtype<std::complex<T>>(), dlpack_device(device),
      device.info().ordinal)));
}

// A spectrum, given as a Python function of an array of wavenumbers.
using Spectrum = nb::typed<nb::callable, nb::any(Numpy<double, 1>)>;
turbulence::Spectrum spectrum_of(const Spectrum& function) {
  return [function](std::span<const double> k, std::span<double> energy) {
    const nb::object values =
        function(nb::cast(nb::ndarray<nb::numpy, const double>(k.data(), {k.size()}), nb::rv_policy::copy));
    const auto found = nb::cast<nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(
        nb::module_::import_("numpy").attr("ascontiguousarray")(values, "float64"));
    if (found.size() != k.size())
      throw std::invalid_argument("turbulence: the spectrum gives " + std::to_string(found.size()) + " values for " +
                                  std::to_string(k.size()) + " wavenumbers");
    std::copy_n(found.data(), k.size(), energy.begin());
  };
}

template <class T>
void bind_initial_fields(nb::class_<turbulence::Solver<T>>& c) {
  using S = turbulence::Solver<T>;
  const auto box = [](S& self) -> const turbulence::Box& { return self.options().box; };
  c.def(
       "set_taylor_green",
       [box](S& self, double velocity, bool two) {
         self.set_velocity(two ? turbulence::taylor_green_2d(box(self), velocity)
                               : turbulence::taylor_green(box(self), velocity));
       },
       "velocity"_a, "two_dimensional"_a)
      .def(
          "set_abc",
          [box](S& self, std::array<double, 3> amplitudes, int index) {
            self.set_velocity(turbulence::abc(box(self), amplitudes, index));
          },
          "amplitudes"_a, "index"_a)
      .def(
          "set_random_velocity",
          [](S& self, const Spectrum& spectrum, std::uint64_t seed) {
            self.set_velocity(turbulence::random_velocity(self.truncation(), spectrum_of(spectrum), seed));
          },
          "spectrum"_a, "seed"_a)
      .def(
          "set_random_scalar",
          [](S& self, int number, const Spectrum& spectrum, std::uint64_t seed) {
            self.set_scalar(number, turbulence::random_scalar(self.truncation(), spectrum_of(spectrum), seed, number));
          },
          "number"_a, "spectrum"_a, "seed"_a);
}

// Copies values at points to and from the device.
template <class T>
void bind_values(nb::class_<turbulence::Solver<T>>& c) {
  using S = turbulence::Solver<T>;
  using Values = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
  const auto upload = [](S& self, const Values& values, std::int64_t fields) {
    const std::int64_t expected = fields * self.plan().decomposition().physical().size();
    if (static_cast<std::int64_t>(values.size()) != expected)
      throw std::invalid_argument("turbulence: " + std::to_string(expected) + " values are needed on this rank, not " +
                                  std::to_string(values.size()));
    return device::Array<T>(self.plan().device(), std::span<const T>(values.data(), values.size()));
  };
  const auto download = [](S& self, int fields, const auto& fill) {
    const fft::Box points = self.plan().decomposition().physical();
    const nb::gil_scoped_release release;
    device::Array<T> on_device(self.plan().device(), static_cast<std::size_t>(fields * points.size()));
    fill(on_device.data());
    return on_device.download();
  };
  const auto side = [](S& self, int axis) {
    return static_cast<std::size_t>(self.plan().decomposition().physical().count[axis]);
  };
  c.def(
       "set_velocity",
       [upload](S& self, const Values& values) {
         const device::Array<T> on_device = upload(self, values, 3);
         nb::gil_scoped_release release;
         self.set_velocity(on_device.data());
       },
       "values"_a.noconvert())
      .def(
          "set_scalar",
          [upload](S& self, int number, const Values& values) {
            const device::Array<T> on_device = upload(self, values, 1);
            nb::gil_scoped_release release;
            self.set_scalar(number, on_device.data());
          },
          "number"_a, "values"_a.noconvert())
      .def("velocity",
           [download, side](S& self) {
             return to_numpy(download(self, 3, [&](T* to) { self.velocity(to); }),
                             {3, side(self, 2), side(self, 1), side(self, 0)});
           })
      .def(
          "scalar",
          [download, side](S& self, int number) {
            return to_numpy(download(self, 1, [&](T* to) { self.scalar(number, to); }),
                            {side(self, 2), side(self, 1), side(self, 0)});
          },
          "number"_a);
}

template <class T>
void bind_state(nb::class_<turbulence::Solver<T>>& c) {
  using S = turbulence::Solver<T>;
  c.def_prop_rw(
       "time", [](S& self) { return self.state().time; }, [](S& self, double time) { self.state().time = time; })
      .def_prop_rw(
          "steps", [](S& self) { return self.state().step; },
          [](S& self, std::int64_t step) { self.state().step = step; })
      .def_prop_ro("dt", [](S& self) { return self.state().dt; })
      .def_prop_ro("courant", [](S& self) { return self.state().courant; })
      .def_prop_ro("energy_input", [](S& self) { return self.state().energy_input; })
      .def_prop_rw(
          "forcing_memory", [](S& self) { return self.forcing().memory(); },
          [](S& self, const std::vector<double>& values) { self.forcing().set_memory(values); })
      .def("velocity_modes", [](S& self) { return modes_view(self, self.state().velocity[0], true); })
      .def(
          "scalar_modes",
          [](S& self, int number) {
            return modes_view(self, self.state().scalars.at(static_cast<std::size_t>(number)), false);
          },
          "number"_a)
      .def("clean", &S::clean, nb::call_guard<nb::gil_scoped_release>())
      .def("kept", [](S& self) { return turbulence::kept_modes(self.state().part, self.truncation()); })
      .def_prop_ro("largest_wavenumber", [](S& self) { return self.truncation().largest_wavenumber(); });
}

template <class T>
void bind_plan(nb::class_<turbulence::Solver<T>>& c) {
  using S = turbulence::Solver<T>;
  c.def_prop_ro("pointwise_seconds", &S::pointwise_seconds)
      .def_prop_ro("memory_bytes", &S::memory_bytes)
      .def_prop_ro("process_grid",
                   [](S& self) {
                     const fft::Grid grid = self.plan().decomposition().grid();
                     return std::pair(grid.rows, grid.columns);
                   })
      .def_prop_ro("batch", [](S& self) { return *self.options().batch; })
      .def_prop_ro("tuning",
                   [](S& self) { return self.tuning() ? to_dict(*self.tuning()) : nb::cast<AnyDict>(nb::dict()); })
      .def_prop_ro("row_choice", [](S& self) { return exchange::name(self.plan().row_choice()); })
      .def_prop_ro("column_choice", [](S& self) { return exchange::name(self.plan().column_choice()); })
      .def(
          "message_bytes",
          [](S& self, int variables) {
            return std::array<std::int64_t, 2>{self.plan().row_message_bytes(variables),
                                               self.plan().column_message_bytes(variables)};
          },
          "variables"_a)
      .def_prop_ro(
          "points",
          [](S& self) {
            const fft::Box b = self.plan().decomposition().physical();
            return std::pair(b.first, b.count);
          },
          "This rank's points: first index and count along x, y, z.")
      .def_prop_ro(
          "modes",
          [](S& self) {
            const fft::Box b = self.plan().decomposition().spectral();
            return std::pair(b.first, b.count);
          },
          "This rank's modes: first index and count along kx, ky, kz, in the order of the transform.");
}

template <class T>
void bind(nb::module_& m, const char* name) {
  using S = turbulence::Solver<T>;
  nb::class_<S> c(m, name);
  c.def(
       "__init__",
       [](S* self, const turbulence::Options& options, const Communicator& comm) {
         const mpi::Comm ranks = to_comm(comm);
         nb::gil_scoped_release release;
         new (self) S(options, ranks);
       },
       "options"_a, "comm"_a.none())
      .def(
          "step",
          [](S& self, std::int64_t steps, double end) {
            for (std::int64_t i = 0; i < steps; ++i) {
              {
                nb::gil_scoped_release release;
                self.step(1, end);
              }
              if (PyErr_CheckSignals() != 0) throw nb::python_error();
            }
          },
          "steps"_a, "end"_a);
  bind_initial_fields<T>(c);
  bind_values<T>(c);
  bind_state<T>(c);
  bind_plan<T>(c);
}

}  // namespace

void bind_turbulence(nb::module_& m) {
  using namespace turbulence;
  nb::module_ t = m.def_submodule("turbulence", "Pseudo-spectral turbulence; use weft.turbulence");
  bind_options<ForcingOptions>(
      t, "Forcing", "turbulence: forcing.",
      "Forcing of the modes with 0 < abs(k) <= ``radius``.\n\n``stochastic``: solenoidal accelerations that follow "
      "Uhlenbeck-Ornstein processes with correlation time T = ``time`` and, for each real number, variance sigma^2; "
      "``amplitude`` = sigma^2 T (epsilon* of Eswaran & Pope 1988). ``band``: after every step, the energy of each "
      "shell "
      "round(abs(k) / unit) is set to its value in ``energies``, by default its value after the first step (Donzis & "
      "Yeung 2010).");
  bind_options<ScalarOptions>(t, "Scalar", "turbulence: scalar.",
                              "The fluctuation of a passive scalar about a uniform mean ``gradient``.");
  bind_options<Box>(t, "Box", "turbulence: ", "Numbers of points and lengths along x, y, z.");
  bind_options<fft::Grid>(t, "Grid", "turbulence: process grid ", "Pr x Pc ranks.");
  bind_options<Options>(t, "Options", "turbulence: ", "The options of `weft.turbulence.Solver`.");
  t.def("predicted_bytes", &predicted_bytes, "options"_a, "ranks"_a, "bytes_of_real"_a,
        "Memory that a solver with these options takes, in bytes per rank.");
  bind<double>(t, "SolverDouble");
  bind<float>(t, "SolverSingle");
  t.attr("BlownUp") = nb::steal(PyErr_NewExceptionWithDoc(
      "weft._weft.turbulence.BlownUp",
      "The Courant number is above the limit; ``step`` and ``courant`` say when and how large.",
      m.attr("mpi").attr("CollectiveError").ptr(), nullptr));
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* type) {
        try {
          std::rethrow_exception(pointer);
        } catch (const turbulence::BlownUp& error) {
          const nb::handle kind(static_cast<PyObject*>(type));
          const nb::object value = kind(error.what());
          value.attr("step") = error.step;
          value.attr("courant") = error.courant;
          PyErr_SetObject(kind.ptr(), value.ptr());
        }
      },
      t.attr("BlownUp").ptr());
}

}  // namespace weft::bindings
