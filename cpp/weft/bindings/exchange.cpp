#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/device/device.hpp"
#include "weft/exchange/gather_scatter.hpp"
#include "weft/mpi/finalized.hpp"
#include "weft/mpi/same.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::bindings {
namespace {

namespace ex = weft::exchange;

using AnyGatherScatter = std::variant<ex::GatherScatter<double>, ex::GatherScatter<float>,
                                      ex::GatherScatter<std::int32_t>, ex::GatherScatter<std::int64_t>>;
enum class Type { f64, f32, i32, i64 };

Type type_of(const nb::dlpack::dtype& type) {
  if (type == nb::dtype<double>()) return Type::f64;
  if (type == nb::dtype<float>()) return Type::f32;
  if (type == nb::dtype<std::int32_t>()) return Type::i32;
  if (type == nb::dtype<std::int64_t>()) return Type::i64;
  throw nb::type_error("arrays must be of type float64, float32, int32 or int64");
}

// The properties of an array passed to a call: its location and type.
struct Values {
  nb::ndarray<> array;
  Type type = Type::f64;
  std::shared_ptr<device::Device> device;
};

ex::Op check_op(nb::handle op) {
  std::string text;
  if (!nb::try_cast(op, text)) throw nb::type_error("op must be a text: add, mul, min or max");
  return ex::parse_op(text);
}

enum class Access { read, write };

Values check_values(nb::handle object, const char* what, Access access, std::int64_t entries, int fields,
                    ex::Layout layout) {
  Values values;
  nb::ndarray<nb::ro> readable;
  const bool known =
      access == Access::write ? nb::try_cast(object, values.array, false) : nb::try_cast(object, readable, false);
  if (!known) {
    throw nb::type_error((std::string(what) + " must be " + (access == Access::write ? "a writable" : "an") +
                          " array of numbers, in the machine's byte order, of NumPy, CuPy or another library with "
                          "DLPack")
                             .c_str());
  }
  if (access == Access::read) values.array = nb::ndarray<>(readable);
  const nb::ndarray<>& a = values.array;
  values.type = type_of(a.dtype());
  const std::string name = what;
  const auto expected = static_cast<std::size_t>(entries) * static_cast<std::size_t>(fields);
  const bool last = layout == ex::Layout::points_major;
  if (a.size() != expected ||
      (fields > 1 && a.ndim() > 1 && a.shape(last ? a.ndim() - 1 : 0) != static_cast<std::size_t>(fields))) {
    throw nb::value_error(
        (name + " has the shape " + shape_text(a) + "; expected " + std::to_string(entries) + " entries" +
         (fields > 1 ? " of " + std::to_string(fields) + " fields (the " + (last ? "last" : "first") + " dimension)"
                     : ""))
            .c_str());
  }
  require_contiguous(a, name);
  values.device = device_of(a.device_type(), a.device_id(), name);
  return values;
}

bool overlap(const nb::ndarray<>& a, const nb::ndarray<>& b) {
  const auto begin_of = [](const nb::ndarray<>& x) { return reinterpret_cast<std::uintptr_t>(x.data()); };
  return begin_of(a) < begin_of(b) + b.nbytes() && begin_of(b) < begin_of(a) + a.nbytes();
}

// weft.GatherScatter: one C++ object per device and type, created when the first such array is passed.
class PyGatherScatter {
 public:
  using IdArray = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

  PyGatherScatter(const IdArray& ids, const Communicator& comm, int fields, const std::string& layout,
                  std::string exchange, bool cache, bool check)
      : comm_(to_comm(comm)), fields_(fields), exchange_(std::move(exchange), cache), check_(check) {
    const nb::gil_scoped_release release;
    agree([&] { layout_ = ex::parse_layout(layout); });
    mpi::require_same(
        comm_, "a gather-scatter",
        std::to_string(fields) + " field(s), check " + (check ? "on" : "off") + (cache ? ", cached" : ""));
    connectivity_ = std::make_shared<const ex::Connectivity>(std::span(ids.data(), ids.size()), comm_);
    ex::choose(exchange_.text, *device::open("host"), comm_);  // rejects unknown names
  }

  PyGatherScatter(const PyGatherScatter&) = delete;
  PyGatherScatter& operator=(const PyGatherScatter&) = delete;

  void gather_scatter(nb::handle points, nb::handle op) {
    const Use use(busy_);
    begin(points, op);
    complete();
  }
  void start(nb::handle points, nb::handle op) {
    const Use use(busy_);
    begin(points, op);
  }
  void finish() {
    const Use use(busy_);
    complete();
  }
  void gather(nb::handle points, nb::handle dofs, nb::handle op) {
    move(1, Access::read, points, dofs, op,
         [](auto& gs, auto* from, auto* to, ex::Op operation, device::Stream& stream) {
           gs.gather(from, to, operation, stream);
         });
  }
  void scatter(nb::handle dofs, nb::handle points) {
    move(2, Access::write, points, dofs, nb::str("add"),
         [](auto& gs, auto* to, auto* from, ex::Op, device::Stream& stream) { gs.scatter(from, to, stream); });
  }

  const ex::Assembly& assembly() {
    const Use use(busy_);
    return numbered();
  }
  std::int64_t points() const { return connectivity_->points; }
  std::int64_t shared_ids() const { return static_cast<std::int64_t>(connectivity_->sharing.positions.size()); }
  int fields() const { return fields_; }
  // The tuning for the type and device last used; if none was used yet, for float64 on the host. (collective in that
  // case)
  Tunings tuning() {
    const Use use(busy_);
    if (last_ == nullptr) {
      mpi::require_not_finalized();
      const nb::gil_scoped_release release;
      kind_of({.array = {}, .type = Type::f64, .device = device::open("host")});
    }
    Tunings tunings;
    std::visit(
        [&](const auto& gs) {
          tunings["gather_scatter"] = to_dict(gs.tuning());
          if (const ex::Tuning* halo = gs.halo_tuning()) tunings["halo"] = to_dict(*halo);
          if (const ex::Tuning* gather = gs.gather_tuning()) tunings["gather"] = to_dict(*gather);
        },
        last_->gs);
    return tunings;
  }

 private:
  // Allows one thread at a time: calls work without Python's lock, and the flag is only accessed with it.
  class Use {
   public:
    explicit Use(bool& busy) : busy_(busy) {
      if (busy) throw std::runtime_error("another thread uses this GatherScatter: give each thread one of its own");
      busy = true;
    }
    ~Use() { busy_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    bool& busy_;
  };

  void begin(nb::handle points, nb::handle op) {
    Values values;
    ex::Op operation{};
    agree_on_call(0, [&] {
      if (running_) throw nb::value_error("a gather-scatter is already started: finish it first");
      operation = check_op(op);
      values = check_values(points, "points", Access::write, connectivity_->points, fields_, layout_);
      return kind_of_call(values, operation);
    });
    const nb::gil_scoped_release release;
    Kind& kind = kind_of(values);
    after_default_stream(kind.stream);
    std::visit(
        [&](auto& gs) {
          gs.start(pointer(gs, values), operation, kind.stream);
          gs.depart();  // callers overlap the messages with their own work, on streams unknown to weft
        },
        kind.gs);
    running_.emplace(std::move(values), &kind);
  }

  void complete() {
    if (!running_) throw nb::value_error("no gather-scatter is started");
    mpi::require_not_finalized();
    {
      const nb::gil_scoped_release release;
      Kind& kind = *running_->second;
      std::visit([&](auto& gs) { gs.finish(kind.stream); }, kind.gs);
      kind.stream.synchronize();
    }
    running_.reset();
  }

  const ex::Assembly& numbered() {
    const nb::gil_scoped_release release;
    if (!assembly_) {
      mpi::require_not_finalized();
      assembly_ = std::make_shared<ex::Assembly>(connectivity_->points, connectivity_->by_id, connectivity_->sharing,
                                                 std::max<std::int64_t>(connectivity_->points, 1), comm_);
    }
    return *assembly_;
  }

  struct Kind {
    AnyGatherScatter gs;
    device::Stream stream;
  };

  template <class GS>
  static GS* pointer(const ex::GatherScatter<GS>&, const Values& values) {
    return static_cast<GS*>(values.array.data());
  }

  void agree(const std::function<void()>& work) const { comm_.size() == 1 ? work() : comm_.together(work); }

  // Checks a call's arguments, and that all ranks make the same call with the same type and operation, before any rank
  // sends anything. The check costs one reduction. The number returned is below 64, and different for every operation,
  // type and backend.
  static int kind_of_call(const Values& values, ex::Op operation) {
    return 16 * static_cast<int>(values.device->backend()) + 4 * static_cast<int>(values.type) +
           static_cast<int>(operation);
  }
  void agree_on_call(int call, const std::function<int()>& check) const {
    mpi::require_not_finalized();
    if (!check_) {
      check();
      return;
    }
    bindings::agree_on_call(
        comm_, [&] { return 64 * call + check(); },
        "the ranks made different calls: operation, type and kind of device must be the same on all ranks");
  }

  Kind& kind_of(const Values& values) {
    const auto key = std::pair(values.device.get(), values.type);
    auto found = kinds_.find(key);
    if (found == kinds_.end()) found = kinds_.emplace(key, make_kind(values)).first;
    last_ = &found->second;
    return found->second;
  }
  Kind make_kind(const Values& values) {
    std::optional<device::Stream> stream;
    agree([&] { stream.emplace(values.device); });
    const auto make = [&]<class T>(std::in_place_type_t<T>) {
      return Kind{AnyGatherScatter(std::in_place_type<ex::GatherScatter<T>>, connectivity_, values.device, exchange_,
                                   fields_, layout_),
                  std::move(*stream)};
    };
    switch (values.type) {
      case Type::f64:
        return make(std::in_place_type<double>);
      case Type::f32:
        return make(std::in_place_type<float>);
      case Type::i32:
        return make(std::in_place_type<std::int32_t>);
      case Type::i64:
        break;
    }
    return make(std::in_place_type<std::int64_t>);
  }

  template <class F>
  void move(int call, Access of_points, nb::handle points, nb::handle dofs, nb::handle op, F&& work) {
    const Use use(busy_);
    const std::int64_t local = numbered().local;
    Values at_points, at_dofs;
    ex::Op operation{};
    agree_on_call(call, [&] {
      operation = check_op(op);
      if (points.is_none() || dofs.is_none()) throw nb::type_error("give out= for arrays that are not NumPy's");
      at_points = check_values(points, "points", of_points, connectivity_->points, fields_, layout_);
      at_dofs = check_values(dofs, "dofs", Access::write, local + 1, fields_, layout_);
      if (at_points.type != at_dofs.type || at_points.device != at_dofs.device) {
        throw nb::type_error("points and dofs must be of one type, on one device");
      }
      if (overlap(at_points.array, at_dofs.array)) {
        throw nb::value_error("points and dofs share memory: give out= an array of its own");
      }
      return kind_of_call(at_points, operation);
    });
    const nb::gil_scoped_release release;
    Kind& kind = kind_of(at_points);
    after_default_stream(kind.stream);
    std::visit([&](auto& gs) { work(gs, pointer(gs, at_points), pointer(gs, at_dofs), operation, kind.stream); },
               kind.gs);
    kind.stream.synchronize();
  }

  mpi::Comm comm_;
  int fields_;
  ex::Layout layout_ = ex::Layout::points_major;
  ex::Asked exchange_;
  bool check_;
  std::shared_ptr<const ex::Connectivity> connectivity_;
  std::shared_ptr<ex::Assembly> assembly_;
  std::map<std::pair<device::Device*, Type>, Kind> kinds_;
  const Kind* last_ = nullptr;  // last used
  bool busy_ = false;           // a thread is inside a call
  std::optional<std::pair<Values, Kind*>> running_;
};

}  // namespace

TuningDict to_dict(const ex::Tuning& tuning) {
  nb::list timings;
  for (const ex::Timing& timing : tuning.timings) {
    nb::dict row;
    row["exchange"] = ex::name(timing.choice);
    row["median_seconds"] = timing.median_seconds;
    row["repetitions"] = timing.repetitions;
    row["stopped_early"] = timing.stopped_early;
    row["failure"] = timing.failure;
    timings.append(row);
  }
  TuningDict d;
  d["chosen"] = ex::name(tuning.chosen);
  d["reason"] = tuning.chosen.reason;
  d["cached"] = tuning.cached;
  d["reused"] = tuning.reused;
  d["tuning_seconds"] = tuning.seconds;
  d["timings"] = timings;
  return d;
}

void bind_exchange(nb::module_& m) {
  nb::module_ e = m.def_submodule("exchange", "Exchanges between ranks: paths, gather-scatter");
  e.def(
      "paths",
      [](const std::shared_ptr<device::Device>& device, const Communicator& comm) {
        const mpi::Comm own = to_comm(comm);
        const nb::gil_scoped_release release;
        std::vector<std::tuple<std::string, bool, std::string>> rows;
        for (const ex::PathState& state : ex::path_states(*device, own))
          rows.emplace_back(ex::name(state.path), state.usable, state.reason);
        return rows;
      },
      "device"_a, "comm"_a.none(), "Rows (path, usable, reason): which paths work on all ranks (collective).");
  nb::class_<PyGatherScatter>(e, "GatherScatter")
      .def(nb::init<const PyGatherScatter::IdArray&, const Communicator&, int, const std::string&, std::string, bool,
                    bool>(),
           "ids"_a.noconvert(), "comm"_a.none(), "fields"_a, "layout"_a, "exchange"_a, "cache"_a, "check"_a)
      .def("gather_scatter", &PyGatherScatter::gather_scatter, "points"_a.none(), "op"_a.none())
      .def("start", &PyGatherScatter::start, "points"_a.none(), "op"_a.none())
      .def("finish", &PyGatherScatter::finish)
      .def("gather", &PyGatherScatter::gather, "points"_a.none(), "dofs"_a.none(), "op"_a.none())
      .def("scatter", &PyGatherScatter::scatter, "dofs"_a.none(), "points"_a.none())
      .def_prop_ro("points", &PyGatherScatter::points)
      .def_prop_ro("fields", &PyGatherScatter::fields)
      .def_prop_ro("shared_ids", &PyGatherScatter::shared_ids)
      .def_prop_ro("owned", [](PyGatherScatter& self) { return self.assembly().owned; })
      .def_prop_ro("local", [](PyGatherScatter& self) { return self.assembly().local; })
      .def_prop_ro("global_dofs", [](PyGatherScatter& self) { return self.assembly().global; })
      .def_prop_ro(
          "dof_ids",
          [](PyGatherScatter& self) {
            const auto& ids = self.assembly().dof_ids;
            return Numpy<const std::int64_t, 1>(ids.data(), {ids.size()}, nb::find(self));
          },
          nb::rv_policy::reference_internal)
      .def_prop_ro("tuning", &PyGatherScatter::tuning);
}

}  // namespace weft::bindings
