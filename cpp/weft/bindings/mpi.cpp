#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>

#include "weft/bindings/bindings.hpp"
#include "weft/mpi/error_text.hpp"
#include "weft/mpi/free_memory.hpp"
#include "weft/mpi/gpu_aware.hpp"

namespace nb = nanobind;

namespace weft::bindings {

mpi::Comm to_comm(nb::handle comm) {
  nb::module_::import_("weft.mpi");  // checks that both use one MPI library
  const MPI_Comm* given = nullptr;
  if (!comm.is_none()) {
    const nb::object module = nb::module_::import_("mpi4py.MPI");
    if (!nb::isinstance(comm, module.attr("Intracomm"))) {
      throw nb::type_error("comm must be an intracommunicator of mpi4py, or None for MPI.COMM_WORLD");
    }
    given = reinterpret_cast<const MPI_Comm*>(nb::cast<std::uintptr_t>(module.attr("_addressof")(comm)));
  }
  const nb::gil_scoped_release release;
  return given == nullptr ? mpi::Comm() : mpi::Comm(*given);
}

Communicator from_comm(const mpi::Comm& comm) {
  nb::module_::import_("weft.mpi");
  return nb::cast<Communicator>(
      nb::module_::import_("mpi4py.MPI").attr("Comm").attr("f2py")(static_cast<int>(MPI_Comm_c2f(comm.get()))));
}

void bind_mpi(nb::module_& m) {
  nb::module_ mpi = m.def_submodule("mpi", "Communicators and the MPI library");
  nb::exception<weft::mpi::CollectiveError>(mpi, "CollectiveError", PyExc_RuntimeError).doc() =
      "An error that every rank raises with the same text.";
  mpi.def("library_version", &weft::mpi::library_version, "Name and version of the MPI library, e.g. 'MPICH 5.0.2'.");
  // Compared with mpi4py's values at import; all three may be called before MPI_Init.
  mpi.def("library_text", [] {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    return std::string(text.data(), static_cast<std::size_t>(length));
  });
  mpi.def("error_text", &weft::mpi::error_text, nb::arg("code"), "The message of an MPI error code, as one line.");
  mpi.def("handle_bytes", [] { return sizeof(MPI_Comm); });
  mpi.def("is_initialized", [] {
    int flag = 0;
    MPI_Initialized(&flag);
    return flag != 0;
  });
  mpi.def(
      "duplicate", [](const Communicator& comm) { return from_comm(to_comm(comm)); },
      nb::arg("comm").none() = nb::none(),
      "weft's own duplicate of an mpi4py communicator (collective the first time).");
  mpi.def(
      "agree",
      [](const Communicator& comm, const std::optional<std::string>& failure) {
        const weft::mpi::Comm own = to_comm(comm);
        const nb::gil_scoped_release release;
        own.together([&] {
          if (failure) throw std::runtime_error(*failure);
        });
      },
      nb::arg("comm").none(), nb::arg("failure").none(),
      "Raises CollectiveError on every rank if any rank passes a failure (collective).");

  nb::class_<weft::mpi::GpuAware>(mpi, "GpuAware", "Whether MPI accepts pointers to a device's memory.")
      .def_ro("usable", &weft::mpi::GpuAware::usable)
      .def_ro("asked", &weft::mpi::GpuAware::asked)
      .def_ro("reason", &weft::mpi::GpuAware::reason);
  mpi.def(
      "free_bytes_per_rank",
      [](const device::Device& device, const Communicator& comm) {
        const weft::mpi::Comm own = to_comm(comm);
        const nb::gil_scoped_release release;
        return weft::mpi::free_bytes_per_rank(device, own);
      },
      nb::arg("device"), nb::arg("comm").none());
  mpi.def(
      "gpu_aware", [](const device::Device& device) { return weft::mpi::gpu_aware(device); }, nb::arg("device"),
      nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace weft::bindings
