#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/fft/gpu_library.hpp"
#include "weft/fft/library.hpp"
#include "weft/fft/plan.hpp"
#include "weft/fft/tuner.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

using Three = std::array<std::int64_t, 3>;

// An array passed to a call: fields stored one after the other.
template <class... A>
struct Fields {
  nb::ndarray<A...> array;
  std::int64_t variables = 0;

  template <class V>
  std::vector<V*> pointers(std::int64_t size) const {
    std::vector<V*> all;
    for (std::int64_t v = 0; v < variables; ++v) all.push_back(static_cast<V*>(array.data()) + v * size);
    return all;
  }
};

// [variables][z][y][x], or a single variable without the first dimension, with `bits` per value, on the plan's device.
template <class... A>
Fields<A...> check_fields(nb::handle object, const char* what, const Three& shape, bool complex, int bits,
                          const device::Device& device) {
  Fields<A...> fields;
  const std::string name = what;
  constexpr bool written = sizeof...(A) == 0;
  if (!nb::try_cast(object, fields.array, false)) {
    throw nb::type_error(
        (name + " must be " + (written ? "a writable" : "an") + " array of NumPy, CuPy or another library with DLPack")
            .c_str());
  }
  const auto& a = fields.array;
  const auto code = complex ? nb::dlpack::dtype_code::Complex : nb::dlpack::dtype_code::Float;
  const int value_bits = complex ? 2 * bits : bits;
  if (a.dtype().code != static_cast<std::uint8_t>(code) || a.dtype().bits != value_bits || a.dtype().lanes != 1) {
    throw nb::type_error(
        (name + " must be of type " + (complex ? "complex" : "float") + std::to_string(value_bits)).c_str());
  }
  const std::size_t leading = a.ndim() == 4 ? 1 : 0;
  bool same = a.ndim() == 3 || a.ndim() == 4;
  for (std::size_t d = 0; same && d < 3; ++d) same = a.shape(d + leading) == static_cast<std::size_t>(shape[d]);
  if (!same) {
    const std::string expected =
        std::to_string(shape[0]) + " x " + std::to_string(shape[1]) + " x " + std::to_string(shape[2]);
    throw nb::value_error((name + " has the shape " + shape_text(a) + "; expected " + expected +
                           " (this rank's part), or several such parts one after the other")
                              .c_str());
  }
  require_contiguous(a, name);
  if (device_of(a.device_type(), a.device_id(), name).get() != &device) {
    throw nb::type_error((name + " is not on the plan's device, the " + device.info().name).c_str());
  }
  fields.variables = leading == 1 ? static_cast<std::int64_t>(a.shape(0)) : 1;
  return fields;
}

void put(nb::dict& d, const fft::Setting& setting) {
  d["process_grid"] = fft::name(setting.grid);
  d["batch"] = setting.batch;
  d["row_exchange"] = setting.grid.rows > 1 ? exchange::name(setting.row) : "";
  d["column_exchange"] = setting.grid.columns > 1 ? exchange::name(setting.column) : "";
  if (setting.library >= 0) d["library"] = fft::host_library(setting.library).name;
  if (setting.ways) {
    d["forward"] = fft::name(setting.ways->forward);
    d["backward"] = fft::name(setting.ways->backward);
    d["overwriting"] = fft::name(setting.ways->overwriting);
  }
}

fft::Norm norm_named(const std::string& text) {
  if (text == "backward") return fft::Norm::backward;
  if (text == "forward") return fft::Norm::forward;
  if (text == "ortho") return fft::Norm::ortho;
  throw std::invalid_argument("norm is '" + text + "'; allowed: backward, forward, ortho");
}

// weft.fft.Plan: one plan of one precision on one device.
class PyPlan {
 public:
  PyPlan(const Three& sizes, const Communicator& comm, const std::string& grid, int batch, int variables, bool single,
         const std::string& exchange, const std::string& norm, std::int64_t modes_x,
         std::shared_ptr<device::Device> device)
      : comm_(to_comm(comm)), device_(std::move(device)), stream_(device_) {
    const nb::gil_scoped_release release;
    fft::Wanted wanted;
    comm_.together([&] {
      wanted.options = {.sizes = {.x = sizes[2], .y = sizes[1], .z = sizes[0]},
                        .modes_x = modes_x,
                        .grid = {},
                        .row = exchange,
                        .column = exchange,
                        .norm = norm_named(norm)};
      wanted.any_grid = grid == "auto";
      if (!wanted.any_grid) wanted.options.grid = fft::parse_grid(grid);
      if (!wanted.any_grid) fft::check_grid(wanted.options.grid, comm_.size());
      wanted.any_batch = batch == 0;
      wanted.options.batch = batch == 0 ? 1 : batch;
      wanted.variables = variables;
    });
    if (single)
      make<float>(wanted);
    else
      make<double>(wanted);
  }

  void forward(nb::handle physical, nb::handle spectral) {
    std::visit([&](auto& plan) { run_forward(*plan, physical, spectral); }, plan_);
  }
  void backward(nb::handle spectral, nb::handle physical, bool overwrite) {
    std::visit(
        [&]<class T>(const std::unique_ptr<fft::Plan<T>>& plan) {
          if (overwrite) {
            run_backward<T>(spectral, physical, Fields<>(),
                            [&](const auto& from, const auto& to) { plan->backward_overwriting(from, to, stream_); });
          } else {
            run_backward<T>(spectral, physical, Fields<nb::ro>(),
                            [&](const auto& from, const auto& to) { plan->backward(from, to, stream_); });
          }
        },
        plan_);
  }

  const fft::Decomposition& decomposition() const {
    return std::visit([](const auto& plan) -> const fft::Decomposition& { return plan->decomposition(); }, plan_);
  }
  // In the order of an array's dimensions.
  static Three in_array_order(const Three& xyz) { return {xyz[2], xyz[1], xyz[0]}; }
  Three physical_shape() const { return in_array_order(decomposition().physical().count); }
  Three physical_offset() const { return in_array_order(decomposition().physical().first); }
  Three spectral_shape() const { return in_array_order(decomposition().spectral().count); }
  Three spectral_offset() const { return in_array_order(decomposition().spectral().first); }
  std::string grid() const { return fft::name(decomposition().grid()); }
  std::map<std::string, std::int64_t> memory_bytes() const {
    return std::visit([](const auto& plan) { return plan->memory_bytes(); }, plan_);
  }
  AnyDict tuning() const { return to_dict(tuning_); }
  std::shared_ptr<device::Device> device() const { return device_; }

 private:
  template <class T>
  void make(const fft::Wanted& wanted) {
    auto tuned = fft::tuned_plan<T>(wanted, device_, comm_);
    plan_ = std::move(tuned.plan);
    tuning_ = std::move(tuned.tuning);
  }

  template <class T>
  void run_forward(fft::Plan<T>& plan, nb::handle physical, nb::handle spectral) {
    Fields<nb::ro> from;
    Fields<> to;
    agree(0, [&] {
      from = check_fields<nb::ro>(physical, "physical", physical_shape(), false, 8 * sizeof(T), *device_);
      to = check_fields<>(spectral, "spectral", spectral_shape(), true, 8 * sizeof(T), *device_);
      require_same_variables(from.variables, to.variables);
      return to.variables;
    });
    const nb::gil_scoped_release release;
    after_default_stream(stream_);
    plan.forward(from.template pointers<const T>(decomposition().physical().size()),
                 to.template pointers<std::complex<T>>(decomposition().spectral().size()), stream_);
    stream_.synchronize();
  }
  template <class T, class... A, class Run>
  void run_backward(nb::handle spectral, nb::handle physical, Fields<A...> from, const Run& run) {
    using Value = std::conditional_t<sizeof...(A) == 0, std::complex<T>, const std::complex<T>>;
    Fields<> to;
    agree(1, [&] {
      from = check_fields<A...>(spectral, "spectral", spectral_shape(), true, 8 * sizeof(T), *device_);
      to = check_fields<>(physical, "physical", physical_shape(), false, 8 * sizeof(T), *device_);
      require_same_variables(from.variables, to.variables);
      return to.variables;
    });
    const nb::gil_scoped_release release;
    after_default_stream(stream_);
    run(from.template pointers<Value>(decomposition().spectral().size()),
        to.template pointers<T>(decomposition().physical().size()));
    stream_.synchronize();
  }

  static void require_same_variables(std::int64_t from, std::int64_t to) {
    if (from == to) return;
    throw nb::value_error(("the arrays hold " + std::to_string(from) + " and " + std::to_string(to) +
                           " variables: they must hold equally many")
                              .c_str());
  }
  void agree(int call, const std::function<std::int64_t()>& check) const {
    agree_on_call(
        comm_, [&] { return 2 * check() + call; },
        "the ranks made different calls: direction and number of variables must be the same on all ranks");
  }

  mpi::Comm comm_;
  std::shared_ptr<device::Device> device_;
  device::Stream stream_;
  std::variant<std::unique_ptr<fft::Plan<double>>, std::unique_ptr<fft::Plan<float>>> plan_;
  fft::PlanTuning tuning_;
};

std::map<std::string, std::string> library_of(const std::string& name, const std::string& version,
                                              const std::string& path, const std::string& problem) {
  return {{"name", name}, {"version", version}, {"path", path}, {"problem", problem}};
}

}  // namespace

AnyDict to_dict(const fft::PlanTuning& tuning) {
  nb::list timings;
  for (const fft::SettingTiming& timing : tuning.timings) {
    nb::dict row;
    row["race"] = timing.what;
    put(row, timing.setting);
    row["median_seconds"] = timing.median_seconds;
    row["repetitions"] = timing.repetitions;
    row["stopped_early"] = timing.stopped_early;
    row["failure"] = timing.failure;
    timings.append(row);
  }
  nb::dict d;
  put(d, tuning.chosen);
  d["reason"] = tuning.reason;
  d["tuning_seconds"] = tuning.seconds;
  d["timings"] = timings;
  return d;
}

void bind_fft(nb::module_& m) {
  nb::module_ f = m.def_submodule("fft", "Distributed Fourier transforms; use the module weft.fft");
  f.def(
      "libraries",
      [](const std::string& backend) {
        std::vector<std::map<std::string, std::string>> found;
        if (backend == "host") {
          for (int which = 0; which < std::max(1, fft::host_libraries()); ++which) {
            const fft::HostLibrary& library = fft::host_library(which);
            if (library.measured || library.own) continue;
            found.push_back(library_of(library.name, library.version, library.path, library.problem));
          }
        } else {
          const fft::GpuLibrary& library =
              fft::gpu_library(backend == "hip" ? device::Backend::hip : device::Backend::cuda);
          found.push_back(library_of(library.name, library.version, "", library.problem));
        }
        return found;
      },
      "backend"_a,
      "The FFT libraries for host, cuda or hip: name, version and path of each, and why it cannot be used, if so.");
  nb::class_<PyPlan>(f, "Plan")
      .def(nb::init<const Three&, const Communicator&, const std::string&, int, int, bool, const std::string&,
                    const std::string&, std::int64_t, std::shared_ptr<device::Device>>(),
           "sizes"_a, "comm"_a.none(), "grid"_a, "batch"_a, "variables"_a, "single"_a, "exchange"_a, "norm"_a,
           "modes_x"_a, "device"_a)
      .def("forward", &PyPlan::forward, "physical"_a, "spectral"_a)
      .def("backward", &PyPlan::backward, "spectral"_a, "physical"_a, "overwrite"_a)
      .def_prop_ro("physical_shape", &PyPlan::physical_shape)
      .def_prop_ro("physical_offset", &PyPlan::physical_offset)
      .def_prop_ro("spectral_shape", &PyPlan::spectral_shape)
      .def_prop_ro("spectral_offset", &PyPlan::spectral_offset)
      .def_prop_ro("grid", &PyPlan::grid)
      .def_prop_ro("memory_bytes", &PyPlan::memory_bytes)
      .def_prop_ro("tuning", &PyPlan::tuning)
      .def_prop_ro("device", &PyPlan::device);
}

}  // namespace weft::bindings
