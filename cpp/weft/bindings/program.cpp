#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/program/program.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

template <class T>
Numpy<T, 1> evaluate(const program::Code& code, const nb::ndarray<const T, nb::ndim<2>, nb::c_contig>& points,
                     double time, const std::shared_ptr<device::Device>& device) {
  if (points.shape(0) != 3) throw nb::value_error("points: expected 3 x n coordinates");
  const std::size_t n = points.shape(1);
  std::vector<T> result;
  {
    nb::gil_scoped_release release;
    const program::Program<T> compiled(code, device);
    const device::Array<T> places(device, std::span<const T>(points.data(), 3 * n));
    device::Array<T> values(device, n);
    device::Stream stream(device);
    compiled.evaluate(places.data(), static_cast<std::int64_t>(n), static_cast<std::int64_t>(n), time, values.data(),
                      stream);
    stream.synchronize();
    result = values.download();
  }
  return to_numpy(std::move(result));
}

}  // namespace

void bind_program(nb::module_& m) {
  nb::module_ p = m.def_submodule("program", "Expressions as programs in postfix order");
  nb::dict codes;
  for (const program::Operation& operation : program::operations()) codes[operation.name.c_str()] = codes.size();
  p.attr("operations") = codes;
  nb::class_<program::Code>(p, "Code", "A checked program, created by weft.program.compiled.")
      .def(nb::init<std::vector<std::int32_t>, std::vector<double>>(), "operations"_a, "constants"_a)
      .def_prop_ro("operations", &program::Code::operations)
      .def_prop_ro("constants", &program::Code::constants)
      .def_prop_ro("depth", &program::Code::depth)
      .def_prop_ro("depends_on_time", &program::Code::depends_on_time);
  p.def("evaluate", &evaluate<double>, "code"_a, "points"_a, "time"_a, "device"_a);
  p.def("evaluate", &evaluate<float>, "code"_a, "points"_a, "time"_a, "device"_a);
}

}  // namespace weft::bindings
