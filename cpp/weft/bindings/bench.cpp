#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/bench/all_to_all.hpp"
#include "weft/bench/exchange_timing.hpp"
#include "weft/bench/lines.hpp"
#include "weft/bench/ping_pong.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/exchange/choice.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

using DevicePointer = std::shared_ptr<device::Device>;

bench::Operation operation_named(const std::string& text) {
  if (text == "halo") return bench::Operation::halo;
  if (text == "gather") return bench::Operation::gather;
  if (text == "gather-scatter") return bench::Operation::gather_scatter;
  throw std::invalid_argument("unknown operation '" + text + "'; known: halo, gather, gather-scatter");
}

void bind_transfers(nb::module_& b) {
  nb::class_<bench::Timed>(b, "Timed", "One kind of communication, to be timed by itself. All calls are collective.")
      .def("check", &bench::Timed::check, nb::call_guard<nb::gil_scoped_release>(),
           "Sends known values; CollectiveError if others arrive.")
      .def("run", &bench::Timed::run, "repetitions"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Seconds per repetition on this rank; 0 on ranks that do not take part.");

  b.def(
      "candidates",
      [](const Communicator& comm_in, const DevicePointer& device, const std::string& text,
         const std::vector<std::int64_t>& message_bytes) {
        const mpi::Comm comm = to_comm(comm_in);
        const nb::gil_scoped_release release;
        std::vector<std::string> names;
        for (const exchange::Choice& choice : exchange::candidates(text, *device, comm, message_bytes)) {
          names.push_back(exchange::name(choice));
        }
        return names;
      },
      "comm"_a.none(), "device"_a, "text"_a = "auto", "message_bytes"_a = std::vector<std::int64_t>(),
      "The choices that a text allows and that work on all ranks, for messages of these sizes. (collective)");

  b.def(
      "ping_pong",
      [](const Communicator& comm_in, const DevicePointer& device, int partner, bool leads, std::size_t bytes,
         const std::optional<std::string>& choice) {
        const mpi::Comm comm = to_comm(comm_in);
        const nb::gil_scoped_release release;
        std::optional<exchange::Choice> chosen;
        if (choice) chosen = exchange::choose(*choice, *device, comm);
        return bench::ping_pong(comm, device, {partner, leads}, bytes, chosen);
      },
      "comm"_a.none(), "device"_a, "partner"_a, "leads"_a, "bytes"_a, "choice"_a.none(),
      "A round trip through the exchange layer, or by plain MPI if choice is None.");

  b.def(
      "mpi_all_to_all",
      [](const Communicator& comm_in, const DevicePointer& device, const std::string& memory, std::size_t bytes,
         const std::string& method) {
        const mpi::Comm comm = to_comm(comm_in);
        const nb::gil_scoped_release release;
        return bench::mpi_all_to_all(comm, device, memory == "host" ? bench::Memory::host : bench::Memory::device,
                                     bytes, method);
      },
      "comm"_a.none(), "device"_a, "memory"_a, "bytes"_a, "method"_a);
  b.def(
      "channel_all_to_all",
      [](const Communicator& comm_in, const DevicePointer& device, std::size_t bytes, const std::string& choice) {
        const mpi::Comm comm = to_comm(comm_in);
        const nb::gil_scoped_release release;
        return bench::channel_all_to_all(comm, device, bytes, exchange::choose(choice, *device, comm));
      },
      "comm"_a.none(), "device"_a, "bytes"_a, "choice"_a);
  b.def(
      "copies",
      [](const Communicator& comm_in, const DevicePointer& device, std::size_t bytes) {
        const mpi::Comm comm = to_comm(comm_in);
        const nb::gil_scoped_release release;
        return bench::copies(comm, device, bytes);
      },
      "comm"_a.none(), "device"_a, "bytes"_a);
}

void bind_lines(nb::module_& b) {
  b.def(
      "lines_ways", [](const DevicePointer& device) { return bench::lines_ways(*device); }, "device"_a,
      "The methods of transforming lines that are not contiguous in memory.");
  b.def(
      "lines",
      [](const Communicator& comm_in, const DevicePointer& device, const std::string& way, int n, std::int64_t width,
         std::int64_t planes, bool single) {
        const mpi::Comm comm = to_comm(comm_in);
        const nb::gil_scoped_release release;
        return single ? bench::lines<float>(comm, device, bench::lines_way(way), n, width, planes)
                      : bench::lines<double>(comm, device, bench::lines_way(way), n, width, planes);
      },
      "comm"_a.none(), "device"_a, "way"_a, "n"_a, "width"_a, "planes"_a, "single"_a,
      "Forward transforms along n of planes [n][width], without communication.");
}

void bind_exchanges(nb::module_& b) {
  using IdArray = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  nb::class_<bench::ExchangeTiming>(b, "ExchangeTiming", "The exchanges of one set of points.")
      .def(
          "__init__",
          [](bench::ExchangeTiming* self, const Communicator& comm_in, const DevicePointer& device, const IdArray& ids,
             int fields) {
            const mpi::Comm comm = to_comm(comm_in);
            const nb::gil_scoped_release release;
            new (self) bench::ExchangeTiming(std::span(ids.data(), ids.size()), comm, device, fields);
          },
          "comm"_a.none(), "device"_a, "ids"_a.noconvert(), "fields"_a)
      .def(
          "messages",
          [](const bench::ExchangeTiming& self, const std::string& operation) {
            std::vector<std::pair<int, std::int64_t>> rows;
            for (const auto& message : self.messages(operation_named(operation))) {
              rows.emplace_back(message.rank, message.bytes);
            }
            return rows;
          },
          "operation"_a, "(rank, bytes) of the messages that this rank sends.")
      .def(
          "tuned",
          [](bench::ExchangeTiming& self, const std::string& operation) {
            const bench::Operation which = operation_named(operation);
            const nb::gil_scoped_release release;
            return exchange::name(self.tuned(which));
          },
          "operation"_a, "The choice of the tuner. (collective)")
      .def(
          "timed",
          [](bench::ExchangeTiming& self, const Communicator& comm_in, const DevicePointer& device,
             const std::string& operation, const std::string& choice) {
            const mpi::Comm comm = to_comm(comm_in);
            const bench::Operation which = operation_named(operation);
            const nb::gil_scoped_release release;
            return self.timed(which, exchange::choose(choice, *device, comm));
          },
          "comm"_a.none(), "device"_a, "operation"_a, "choice"_a);
}

}  // namespace

void bind_bench(nb::module_& m) {
  nb::module_ b = m.def_submodule("bench", "Timing loops; use `weft bench`");
  bind_transfers(b);
  bind_lines(b);
  bind_exchanges(b);
}

}  // namespace weft::bindings
