#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "weft/bindings/bindings.hpp"
#include "weft/trace/phases.hpp"
#include "weft/trace/recorder.hpp"

namespace nb = nanobind;

namespace weft::bindings {
namespace {

trace::Category category(const std::string& text) {
  for (int c = 0; c < trace::category_count; ++c) {
    if (text == trace::name(static_cast<trace::Category>(c))) return static_cast<trace::Category>(c);
  }
  throw std::invalid_argument("unknown category '" + text + "': use cpu, gpu, mpi, copy or launch");
}

}  // namespace

void bind_trace(nb::module_& m) {
  nb::module_ t = m.def_submodule("trace", "The recorder of a run's phases");
  t.def("enable", &trace::enable, nb::arg("on"));
  t.def("enabled", &trace::enabled);
  t.def("now_ns", &trace::now_ns);
  t.def("zero_ns", &trace::zero_ns);
  t.def("set_zero_ns", &trace::set_zero_ns, nb::arg("zero"));
  t.def(
      "record",
      [](const std::string& name, const std::string& kind, std::int64_t begin_ns, std::int64_t end_ns,
         std::int64_t bytes,
         bool device) { trace::record({trace::intern(name), category(kind), device, begin_ns, end_ns, bytes}); },
      nb::arg("name"), nb::arg("category"), nb::arg("begin_ns"), nb::arg("end_ns"), nb::arg("bytes") = 0,
      nb::arg("device") = false);
  t.def("intervals", [] {
    std::vector<std::tuple<std::string, std::string, bool, std::int64_t, std::int64_t, std::int64_t>> rows;
    for (const trace::Interval& i : trace::intervals()) {
      rows.emplace_back(i.name, std::string(trace::name(i.category)), i.device, i.begin_ns, i.end_ns, i.bytes);
    }
    return rows;
  });
  t.def("exclusive_seconds", &trace::exclusive_seconds);
  t.def("exclusive_seconds_by_name", &trace::exclusive_seconds_by_name);
  t.def("exclusive_seconds_by_phase", &trace::exclusive_seconds_by_phase, nb::arg("phases"));
  t.def("unmet_delays", &trace::unmet_delays);
  t.def("chrome_trace_events", &trace::chrome_trace_events, nb::arg("rank"));
}

}  // namespace weft::bindings
