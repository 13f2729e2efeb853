#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/turbulence/checkpoint.hpp"
#include "weft/turbulence/solver.hpp"
#include "weft/turbulence/spectra.hpp"
#include "weft/turbulence/statistics.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

AnyDict to_dict(const turbulence::Spectra& s) {
  nb::dict d;
  d["width"] = s.width;
  d["modes"] = to_numpy(std::vector(s.modes));
  d["energy"] = to_numpy(std::vector(s.energy));
  d["dissipation"] = to_numpy(std::vector(s.dissipation));
  nb::list variance, dissipation;
  for (const auto& values : s.scalar_variance) variance.append(to_numpy(std::vector(values)));
  for (const auto& values : s.scalar_dissipation) dissipation.append(to_numpy(std::vector(values)));
  d["scalar_variance"] = variance;
  d["scalar_dissipation"] = dissipation;
  d["square"] = nb::cast(s.square);
  d["gradient_square"] = nb::cast(s.gradient_square);
  d["enstrophy"] = s.enstrophy;
  d["helicity"] = s.helicity;
  d["energy_over_wavenumber"] = s.energy_over_wavenumber;
  d["divergence"] = s.divergence;
  d["kmax"] = s.kmax;
  return d;
}

template <class T>
AnyDict to_dict(const turbulence::Statistics<T>& s) {
  nb::list distributions;
  for (const turbulence::Distribution& found : s.distributions) {
    nb::dict d;
    d["name"] = found.name;
    d["scaled_by"] = found.scaled_by;
    d["scale"] = found.scale;
    d["points"] = found.points;
    d["moments"] = nb::cast(found.moments);
    d["smallest"] = found.smallest;
    d["largest"] = found.largest;
    d["logarithmic"] = found.logarithmic;
    d["lower"] = found.lower;
    d["upper"] = found.upper;
    d["counts"] = to_numpy(std::vector(found.counts));
    distributions.append(d);
  }
  nb::dict d;
  d["distributions"] = distributions;
  d["transfer"] = to_numpy(std::vector(s.transfer));
  const turbulence::Slice& slice = s.enstrophy;
  d["slice"] = to_numpy(std::vector(slice.values),
                        {static_cast<std::size_t>(slice.rows), static_cast<std::size_t>(slice.columns)});
  d["slice_first_row"] = slice.first_row;
  d["slice_stride"] = slice.stride;
  d["extra_bytes"] = s.extra_bytes;
  return d;
}

AnyDict to_dict(const turbulence::Checkpoint& checkpoint) {
  const turbulence::CheckpointHeader& h = checkpoint.header();
  nb::dict d;
  d["path"] = checkpoint.path();
  d["bytes"] = checkpoint.bytes();
  d["sizes"] = nb::cast(h.box.sizes);
  d["lengths"] = nb::cast(h.box.lengths);
  d["dealiasing"] = turbulence::name(h.dealiasing);
  d["precision"] = h.value_bytes == 4 ? "single" : "double";
  d["scalars"] = h.scalars;
  d["step"] = h.step;
  d["time"] = h.time;
  d["text"] = h.text;
  return d;
}

template <class T>
void bind(nb::module_& m, const char* name) {
  using S = turbulence::Solver<T>;
  m.def(
      "spectra", [](S& solver) { return to_dict(unlocked([&] { return turbulence::spectra(solver.state()); })); },
      "solver"_a);
  m.def("shell_width", [](S& solver) { return turbulence::shell_width(solver.options().box); }, "solver"_a);
  m.def(
      "statistics",
      [](S& solver, bool points, bool pressure, bool transfer, std::int64_t slice, std::int64_t slice_points) {
        turbulence::Statistics<T> found;
        {
          nb::gil_scoped_release release;
          turbulence::State<T> state = solver.state();
          found = turbulence::statistics(state, {.points = points,
                                                 .pressure = pressure,
                                                 .transfer = transfer,
                                                 .slice = slice,
                                                 .slice_points = slice_points});
        }
        return to_dict(found);
      },
      "solver"_a, "points"_a, "pressure"_a, "transfer"_a, "slice"_a, "slice_points"_a);
  m.def(
      "pressure",
      [](S& solver) {
        std::vector<T> values;
        {
          nb::gil_scoped_release release;
          turbulence::State<T> state = solver.state();
          values = turbulence::statistics(state, {.points = false, .keep_pressure = true, .transfer = false}).pressure;
        }
        const fft::Box mine = solver.plan().decomposition().physical();
        const auto side = [&](int axis) { return static_cast<std::size_t>(mine.count[axis]); };
        return to_numpy(std::move(values), {side(2), side(1), side(0)});
      },
      "solver"_a);
  nb::borrow<nb::class_<S>>(m.attr(name))
      .def(
          "save",
          [](S& solver, const std::string& folder, const std::string& text, int ranks_per_file, int turns, int keep) {
            nb::gil_scoped_release release;
            return turbulence::save(solver, {folder, ranks_per_file, turns, keep}, text);
          },
          "folder"_a, "text"_a, "ranks_per_file"_a, "turns"_a, "keep"_a)
      .def(
          "restore",
          [](S& solver, const std::string& path) {
            return to_dict(unlocked([&] { return turbulence::restore(solver, path); }));
          },
          "path"_a);
}

}  // namespace

void bind_turbulence_output(nb::module_& m) {
  nb::module_ t = nb::cast<nb::module_>(m.attr("turbulence"));
  bind<double>(t, "SolverDouble");
  bind<float>(t, "SolverSingle");
  t.def(
      "checkpoint",
      [](const std::string& path, const Communicator& comm) {
        const mpi::Comm all = to_comm(comm);
        return to_dict(unlocked([&] { return turbulence::Checkpoint(path, all); }));
      },
      "path"_a, "comm"_a.none());
}

}  // namespace weft::bindings
