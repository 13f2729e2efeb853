#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <omp.h>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/bindings/launched_kernels.hpp"
#include "weft/device/compiler.hpp"
#include "weft/device/device.hpp"
#include "weft/device/disk_cache.hpp"
#include "weft/device/graph.hpp"
#include "weft/device/host_memory.hpp"
#include "weft/device/kernel_texts.hpp"
#include "weft/device/limits.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

using device::Device;
using Defines = std::map<std::string, std::string>;

// Contiguous device memory of any of the types that kernels take.
struct DeviceArray {
  std::shared_ptr<Device> device;
  nb::dlpack::dtype type;
  std::vector<std::size_t> shape;
  device::Array<std::byte> bytes;

  // DLPack's number for the device that holds the memory.
  int dlpack_device() const { return bindings::dlpack_device(*device); }
};

using HostInput = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;

DeviceArray upload(const std::shared_ptr<Device>& device, const HostInput& values) {
  DeviceArray array{device, values.dtype(), {}, {device, values.nbytes()}};
  for (std::size_t i = 0; i < values.ndim(); ++i) array.shape.push_back(values.shape(i));
  nb::gil_scoped_release release;
  array.bytes.upload({static_cast<const std::byte*>(values.data()), values.nbytes()});
  return array;
}

nb::ndarray<nb::numpy> download(const DeviceArray& array) {
  auto* values = new std::vector<std::byte>;
  nb::capsule owner(values, [](void* p) noexcept { delete static_cast<std::vector<std::byte>*>(p); });
  {
    nb::gil_scoped_release release;
    *values = array.bytes.download();
  }
  return {values->data(), array.shape.size(), array.shape.data(), owner, nullptr, array.type};
}

device::KernelSpec spec(const std::string& file, const std::string& name, const Defines& defines) {
  device::KernelSpec result{file, name, {}};
  for (const auto& [key, value] : defines) result.defines.push_back({key, value});
  return result;
}

// Arguments: a DeviceArray passes its address; anything with NumPy's tobytes() (np.int64(5), np.float32(0.5)) its
// bytes.
void launch(const device::LoadedKernel& kernel, device::Stream& stream, std::int64_t blocks,
            std::tuple<unsigned, unsigned, unsigned> threads, const nb::args& arguments) {
  std::vector<std::string> storage;
  for (const nb::handle argument : arguments) {
    if (nb::isinstance<DeviceArray>(argument)) {
      const void* pointer = nb::cast<DeviceArray&>(argument).bytes.data();
      storage.emplace_back(reinterpret_cast<const char*>(&pointer), sizeof pointer);
    } else if (nb::hasattr(argument, "tobytes")) {
      const auto bytes = nb::cast<nb::bytes>(argument.attr("tobytes")());
      storage.emplace_back(bytes.c_str(), bytes.size());
    } else {
      throw nb::type_error("a kernel's arguments are device arrays and NumPy scalars, such as numpy.int64(5)");
    }
  }
  std::vector<void*> pointers;
  std::vector<std::size_t> sizes;
  for (std::string& value : storage) {
    pointers.push_back(value.data());
    sizes.push_back(value.size());
  }
  nb::gil_scoped_release release;
  const auto [x, y, z] = threads;
  kernel.check(sizes);
  kernel.launch(stream, blocks, {x, y, z}, pointers.data());
}

}  // namespace

CountDict to_dict(const device::KernelResources& r) {
  CountDict d;
  d["registers"] = r.registers;
  d["stack_bytes"] = r.stack_bytes;
  d["spill_bytes"] = r.spill_bytes;
  d["scalar_spills"] = r.scalar_spills;
  d["shared_bytes"] = r.shared_bytes;
  d["max_blocks_per_multiprocessor"] = r.max_blocks_per_multiprocessor;
  return d;
}

namespace {

void bind_devices(nb::module_& d) {
  d.def(
      "threads", [] { return omp_get_max_threads(); }, "Number of OpenMP threads of a parallel loop in this process.");
  d.def(
      "use_threads", [](int count) { omp_set_num_threads(count); }, "count"_a,
      "Sets the number of OpenMP threads of objects that are constructed from now on.");
  nb::class_<Device>(d, "Device", "A device of a backend, created by weft.device.open.")
      .def_prop_ro("backend", [](const Device& self) { return device::name(self.backend()); })
      .def_prop_ro("name", [](const Device& self) { return self.info().name; })
      .def_prop_ro("architecture", [](const Device& self) { return self.info().architecture; })
      .def_prop_ro("memory_bytes", [](const Device& self) { return self.info().memory_bytes; })
      .def_prop_ro(
          "free_bytes", [](const Device& self) { return self.free_bytes(); },
          "Bytes that can still be allocated; all processes on the machine share them.")
      .def_prop_ro(
          "multiprocessors", [](const Device& self) { return self.info().multiprocessors; },
          "Number of multiprocessors of a GPU; number of OpenMP threads of the host.")
      .def_prop_ro(
          "limits",
          [](const Device& self) {
            const device::Info& i = self.info();
            CountDict d;
            d["warp_size"] = i.warp_size;
            d["registers_per_multiprocessor"] = i.registers_per_multiprocessor;
            d["shared_bytes_per_multiprocessor"] = i.shared_bytes_per_multiprocessor;
            d["max_threads_per_multiprocessor"] = i.max_threads_per_multiprocessor;
            return d;
          },
          "Resources of one multiprocessor (SM or CU); registers have 4 bytes.")
      .def_prop_ro("ordinal", [](const Device& self) { return self.info().ordinal; })
      .def_prop_ro("is_host", &Device::is_host)
      .def_prop_ro("supports_graphs", &Device::supports_graphs)
      .def("array", &upload, "values"_a, "A copy of a contiguous NumPy array in device memory.")
      .def(
          "kernel",
          [](const std::shared_ptr<Device>& self, const std::string& file, const std::string& name,
             const Defines& defines) {
            nb::gil_scoped_release release;
            return self->kernel(spec(file, name, defines));
          },
          "file"_a, "name"_a, "defines"_a, "The kernel `name` of kernels/`file`.hpp, compiled with `defines`.")
      .def("__repr__", [](const Device& self) {
        return "<weft device " + device::name(self.backend()) + ": " + self.info().name + ">";
      });

  nb::class_<DeviceArray>(d, "Array", "Device memory, created by Device.array.")
      .def_prop_ro("shape",
                   [](const DeviceArray& self) {
                     return nb::typed<nb::tuple, nb::int_, nb::ellipsis>(nb::tuple(nb::cast(self.shape)));
                   })
      .def("numpy", &download, "A copy on the host.")
      .def(
          "view",
          [](nb::handle self) {
            auto& array = nb::cast<DeviceArray&>(self);
            return nb::ndarray<nb::array_api>(array.bytes.data(), array.shape.size(), array.shape.data(), self, nullptr,
                                              array.type, array.dlpack_device(), array.device->info().ordinal);
          },
          "A view of the memory, for numpy.from_dlpack or cupy.from_dlpack.");

  d.def("open", &device::open, "which"_a, "ordinal"_a = -1);
  d.def("available", [] {
    std::vector<std::tuple<std::string, bool, std::string>> rows;
    for (const device::Availability& a : device::available())
      rows.emplace_back(device::name(a.backend), a.available, a.reason);
    return rows;
  });
}

void bind_streams(nb::module_& d) {
  nb::class_<device::Stream>(d, "Stream", "A queue of work that is executed in order; asynchronous on GPUs.")
      .def(nb::init<std::shared_ptr<Device>>(), "device"_a)
      .def("synchronize", &device::Stream::synchronize, nb::call_guard<nb::gil_scoped_release>());

  nb::class_<device::Event>(d, "Event", "A mark in a stream.")
      .def(nb::init<std::shared_ptr<Device>>(), "device"_a)
      .def("record", &device::Event::record, "stream"_a)
      .def("synchronize", &device::Event::synchronize, nb::call_guard<nb::gil_scoped_release>())
      .def("wait_on", &device::Event::wait_on, "stream"_a, "Makes later work of `stream` wait for this event.")
      .def("seconds_since", &device::Event::seconds_since, "begin"_a);

  nb::class_<device::LoadedKernel>(d, "Kernel", "A loaded kernel, created by Device.kernel.")
      .def("__call__", &launch, "stream"_a, "blocks"_a, "threads"_a, "arguments"_a)
      .def_prop_ro("resources", [](const device::LoadedKernel& self) { return to_dict(self.resources()); });

  nb::class_<device::Graph>(d, "Graph", "Launches that are recorded once and replayed at the cost of a single launch.")
      .def(
          "__init__",
          [](device::Graph* self, device::Stream& stream, const nb::typed<nb::callable, void()>& work) {
            new (self) device::Graph(stream, [&] { work(); });
          },
          "stream"_a, "work"_a)
      .def("replay", &device::Graph::replay, "stream"_a);
}

void bind_compilers(nb::module_& d) {
  d.def(
      "compiler",
      [](const std::string& backend) {
        const auto a = device::compiler_availability(backend == "hip" ? device::Backend::hip : device::Backend::cuda);
        return std::tuple(a.available, a.reason);
      },
      "backend"_a);
  d.def(
      "compile_check",
      [](const std::string& file, const std::vector<std::string>& names, const Defines& defines,
         const std::string& architecture, const std::string& text) {
        std::vector<device::KernelResources> resources;
        {
          nb::gil_scoped_release release;
          resources = device::compile_check({file, names, spec(file, "", defines).defines}, architecture,
                                            text.empty() ? nullptr : text.c_str());
        }
        std::vector<decltype(to_dict(resources[0]))> result;
        for (const device::KernelResources& one : resources) result.push_back(to_dict(one));
        return result;
      },
      "file"_a, "names"_a, "defines"_a, "architecture"_a, "text"_a = "");
  d.def(
      "compilation_key",
      [](const std::string& file, const std::vector<std::string>& names, const Defines& defines,
         const std::string& architecture) {
        return device::compilation_key({file, names, spec(file, "", defines).defines}, architecture);
      },
      "file"_a, "names"_a, "defines"_a, "architecture"_a,
      "The compiler's version, the options and the texts: all that the result of `compile_check` depends on.");
  d.def(
      "launched_kernels",
      [] {
        std::vector<std::tuple<std::string, std::string, Defines, bool>> rows;
        for (const LaunchedKernel& kernel : launched_kernels()) {
          Defines defines;
          for (const device::Define& define : kernel.spec.defines) defines[define.name] = define.value;
          rows.emplace_back(kernel.spec.file, kernel.spec.name, defines, kernel.hot);
        }
        return rows;
      },
      "Rows (file, name, defines, hot) of the kernels that weft launches on GPUs, which the compile check compiles.");
  d.def(
      "kernel_names",
      [] {
        std::vector<std::pair<std::string, std::string>> rows;
        for (const device::KernelText& text : device::kernel_texts()) {
          for (const std::string& name : device::kernel_names(text)) rows.emplace_back(text.file, name);
        }
        return rows;
      },
      "Pairs (file, name) of every kernel under kernels/.");
  d.def("cache_directory", &device::cache_directory);
}

void bind_limits(nb::module_& d) {
  d.def(
      "free_host_bytes", [](const std::string& group) { return device::free_host_bytes(group); }, "group"_a,
      "Free bytes of the host, within the limit of the container with its control group in folder `group`.");
  d.def("measure_bandwidth", &device::measure_bandwidth, "device"_a, "bytes"_a = 0,
        nb::call_guard<nb::gil_scoped_release>());
  d.def("measure_irregular_read", &device::measure_irregular_read, "device"_a, "bytes"_a = 0,
        nb::call_guard<nb::gil_scoped_release>());
  d.def(
      "measure_copies",
      [](const std::shared_ptr<Device>& device, std::size_t bytes) {
        const device::CopyRates rates = device::measure_copies(device, bytes);
        return std::pair(rates.host_to_device, rates.device_to_host);
      },
      "device"_a, "bytes"_a = 0, nb::call_guard<nb::gil_scoped_release>());
  d.def(
      "measure_peak",
      [](const std::shared_ptr<Device>& device, const std::string& precision) {
        if (precision == "double") return device::measure_peak_flops<double>(device);
        if (precision == "single") return device::measure_peak_flops<float>(device);
        throw std::invalid_argument("precision \"" + precision + "\" is not known; use double or single");
      },
      "device"_a, "precision"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_device(nb::module_& m) {
  nb::module_ d = m.def_submodule("device", "Devices of backends: memory, streams, events, kernels");
  bind_devices(d);
  bind_streams(d);
  bind_compilers(d);
  bind_limits(d);
}

}  // namespace weft::bindings
