#include <nanobind/stl/string.h>

#include "weft/bindings/bindings.hpp"
#include "weft/bindings/element_file.hpp"
#include "weft/bindings/maxwell.hpp"
#include "weft/maxwell/checkpoint.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

template <class T>
void bind(nb::module_& m, const char* name) {
  using M = Maxwell<T>;
  nb::borrow<nb::class_<M>>(m.attr(name))
      .def(
          "save",
          [](M& self, const std::string& folder, const std::string& text, int keep) {
            nb::gil_scoped_release release;
            return maxwell::save(self.solver(), {folder, keep, text});
          },
          "folder"_a, "text"_a, "keep"_a)
      .def(
          "restore",
          [](M& self, const std::string& path) {
            return to_dict(unlocked([&] { return maxwell::restore(self.solver(), path); }));
          },
          "path"_a);
}

}  // namespace

void bind_maxwell_output(nb::module_& m) {
  nb::module_ p = nb::cast<nb::module_>(m.attr("maxwell"));
  bind<double>(p, "MaxwellDouble");
  bind<float>(p, "MaxwellSingle");
  p.def(
      "checkpoint",
      [](const std::string& path, const Communicator& comm) {
        const mpi::Comm all = to_comm(comm);
        return to_dict(unlocked([&] { return mesh::ElementFile(path, maxwell::checkpoint_kind, all); }));
      },
      "path"_a, "comm"_a.none());
}

}  // namespace weft::bindings
