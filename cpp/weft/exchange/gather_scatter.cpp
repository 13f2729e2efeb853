#include "weft/exchange/gather_scatter.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/exchange/groups.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

// The pattern of a gather-scatter. Its vector holds this rank's contribution to every shared id at [0, R), ordered by
// id, followed by the contributions of the other holders. Every holder sends its contribution to all others, and all
// combine them in the order of ranks. So all get the same bits after one round of messages; assembling at an owner
// would take two.
struct Parts {
  Pattern pattern;
  GroupList all;  // per shared id the places of all contributions, by rank
};

Parts parts_of(const Sharing& sharing, int rank) {
  Parts parts;
  std::map<int, std::vector<std::int32_t>> with;  // by rank: the shared ids that it also holds
  const auto shared = static_cast<std::int32_t>(sharing.positions.size());
  const auto holders = [&](std::int32_t s) {
    return std::span(sharing.holders)
        .subspan(static_cast<std::size_t>(sharing.begin[static_cast<std::size_t>(s)]),
                 static_cast<std::size_t>(sharing.begin[static_cast<std::size_t>(s) + 1] -
                                          sharing.begin[static_cast<std::size_t>(s)]));
  };
  for (std::int32_t s = 0; s < shared; ++s) {
    for (const std::int32_t holder : holders(s)) {
      if (holder != rank) with[holder].push_back(s);
    }
  }
  parts.pattern.halo_first = shared;
  std::map<int, std::int64_t> next;  // by rank: the place of its next contribution
  std::int64_t place = shared;
  for (const auto& [neighbor, ids] : with) {
    const auto count = static_cast<std::int64_t>(ids.size());
    parts.pattern.neighbors.push_back({neighbor, count, count});
    parts.pattern.owned_index.insert(parts.pattern.owned_index.end(), ids.begin(), ids.end());
    next[neighbor] = place;
    place += count;
  }
  if (place > std::numeric_limits<std::int32_t>::max()) {
    throw std::length_error("a rank shares " + std::to_string(place) +
                            " values, more than a 32-bit index can address: use more ranks");
  }
  parts.pattern.entries = place;
  std::vector<std::int32_t> places;
  for (std::int32_t s = 0; s < shared; ++s) {
    places.clear();
    for (const std::int32_t holder : holders(s)) {
      places.push_back(holder == rank ? s : static_cast<std::int32_t>(next[holder]++));
    }
    parts.all.add(s, places);
  }
  return parts;
}

// The order in which a kernel should visit the groups: by their first point.
std::vector<std::int32_t> by_first_point(const PointsById& by_id, std::int64_t points) {
  std::vector<std::int32_t> at(static_cast<std::size_t>(points), -1);
  for (std::size_t g = 0; g < by_id.ids.size(); ++g)
    at[static_cast<std::size_t>(points_of(by_id, g).front())] = static_cast<std::int32_t>(g);
  std::erase(at, -1);
  return at;
}

}  // namespace

// The indices that the kernels of a gather-scatter read, independent of the type of the values.
struct LocalIndex {
  Pattern pattern;                                  // of the contributions
  std::shared_ptr<const GroupIndex> own_points;     // two or more points of an id that only this rank holds
  std::shared_ptr<const GroupIndex> shared_points;  // points of a shared id -> place of its contribution
  std::shared_ptr<const GroupIndex> parts_all;      // all ranks' contributions to a shared id

  LocalIndex(const PointsById& by_id, const Sharing& sharing, std::int64_t points, int rank,
             const std::shared_ptr<device::Device>& device) {
    Parts parts = parts_of(sharing, rank);
    pattern = std::move(parts.pattern);
    pattern.worked_on = points;
    parts_all = std::make_shared<const GroupIndex>(parts.all, device);
    std::vector<std::int32_t> shared_as(by_id.ids.size(), -1);
    for (std::size_t s = 0; s < sharing.positions.size(); ++s) {
      shared_as[static_cast<std::size_t>(sharing.positions[s])] = static_cast<std::int32_t>(s);
    }
    GroupList to_parts, own;
    for (const std::int32_t group : by_first_point(by_id, points)) {
      const auto g = static_cast<std::size_t>(group);
      const auto members = points_of(by_id, g);
      if (shared_as[g] >= 0) {
        to_parts.add(shared_as[g], members);
      } else if (members.size() > 1) {
        own.add(0, members);
      }
    }
    shared_points = std::make_shared<const GroupIndex>(to_parts, device);
    own_points = std::make_shared<const GroupIndex>(own, device, false);
  }
  std::size_t bytes() const {
    return own_points->bytes() + shared_points->bytes() + parts_all->bytes() +
           pattern.owned_index.size() * sizeof(std::int32_t) + pattern.neighbors.size() * sizeof(Pattern::Neighbor);
  }
};

template <class T>
struct GatherScatter<T>::State {
  State(std::shared_ptr<const Connectivity> known, std::shared_ptr<device::Device> device_in, Asked asked_in,
        int fields_count, Layout layout_in)
      : connectivity(std::move(known)),
        comm(connectivity->comm),
        points(connectivity->points),
        by_id(connectivity->by_id),
        sharing(connectivity->sharing),
        device(std::move(device_in)),
        asked(std::move(asked_in)),
        fields(fields_count),
        layout(layout_in) {
    comm.together([&] {
      if (fields < 1) throw std::invalid_argument("fields must be at least 1, not " + std::to_string(fields));
      local = connectivity->local(device);
      const auto entries = static_cast<std::size_t>(local->pattern.halo_first + local->pattern.halo());
      values = device::Array<T>(device, entries * static_cast<std::size_t>(fields));
      own_points = Groups<T>(local->own_points);
      shared_points = Groups<T>(local->shared_points);
      parts_all = Groups<T>(local->parts_all);
    });
    exchange.emplace(local->pattern, device, comm, asked, fields, Layout::points_major, Directions::halo);
  }

  std::shared_ptr<const Connectivity> connectivity;
  const mpi::Comm& comm;
  std::int64_t points;
  const PointsById& by_id;
  const Sharing& sharing;
  std::shared_ptr<device::Device> device;
  Asked asked;
  int fields;
  Layout layout;

  std::shared_ptr<const LocalIndex> local;
  Groups<T> own_points, shared_points, parts_all;
  device::Array<T> values;              // this rank's contributions, then the others'
  std::optional<Exchange<T>> exchange;  // of the contributions
  bool active = false;                  // between start and finish
  std::vector<T*> pending;              // one array of all fields, or one per field
  Op pending_op = Op::add;

  // Calls each(number of fields, points, their places in `values`) for every array that is being processed.
  template <class F>
  void for_each_array(F&& each) {
    if (pending.size() == 1) {
      each(fields, of_points(pending.front()), next_to_each_other(values.data(), fields));
      return;
    }
    for (std::size_t f = 0; f < pending.size(); ++f) {
      each(1, View<T>{pending[f]}, View<T>{values.data() + f, fields});
    }
  }

  void start(std::span<T* const> arrays, Op op, device::Stream& stream);

  template <class U>
  View<U> of_points(U* x) const {
    return view(layout, x, fields, points);
  }

  // Needed by gather and scatter only; the first of these calls creates it.
  struct Assembled {
    Assembled(const State& s, const mpi::Comm& comm)
        : assembly(s.points, s.by_id, s.sharing, std::max<std::int64_t>(s.points, 1), comm) {
      comm.together([&] {
        to_points = Packing<T>(assembly.index, s.device);
        GroupList list;
        list.reserve(s.by_id.ids.size(), s.by_id.points.size());
        for (const std::int32_t g : by_first_point(s.by_id, s.points)) {
          const auto members = points_of(s.by_id, static_cast<std::size_t>(g));
          list.add(assembly.index[static_cast<std::size_t>(members.front())], members);
        }
        to_dofs = Groups<T>(list, s.device);
      });
      exchange.emplace(assembly.pattern, s.device, comm, s.asked, s.fields, s.layout);
    }
    View<T> of_dofs(const State& s, T* x) const { return view(s.layout, x, s.fields, assembly.local + 1); }
    // Zeroes the slot for ids <= 0.
    void clear_last(const State& s, T* dofs, device::Stream& stream) const {
      const View<T> x = of_dofs(s, dofs);
      const int pieces = s.layout == Layout::points_major ? 1 : s.fields;
      for (int f = 0; f < pieces; ++f) {
        s.device->fill_zero(x.data + assembly.local * x.entry + f * x.field,
                            sizeof(T) * static_cast<std::size_t>(s.fields / pieces), stream);
      }
    }
    Assembly assembly;
    Packing<T> to_points;
    Groups<T> to_dofs;
    std::optional<Exchange<T>> exchange;
  };
  std::optional<Assembled> assembled;
  Assembled& with_dofs() {
    connectivity->check_points();
    if (!assembled) assembled.emplace(*this, comm);
    return *assembled;
  }
};

Connectivity::Connectivity(std::span<const std::int64_t> ids, const mpi::Comm& comm_in)
    : comm(comm_in), points(static_cast<std::int64_t>(ids.size())) {
  comm.together([&] { by_id = points_by_id(ids); });
  sharing = find_sharing(by_id.ids, comm);
}

std::shared_ptr<const LocalIndex> Connectivity::local(const std::shared_ptr<device::Device>& device) const {
  for (const auto& [where, index] : local_) {
    if (where == device) return index;
  }
  check_points();
  return local_.emplace_back(device, std::make_shared<const LocalIndex>(by_id, sharing, points, comm.rank(), device))
      .second;
}

void Connectivity::check_points() const {
  if (forgotten_) throw std::logic_error("the points of this gather-scatter were freed by forget_points");
}

void Connectivity::forget_points() {
  by_id = {};
  sharing = {};
  forgotten_ = true;
}

std::size_t Connectivity::index_bytes() const {
  const auto of = [](const auto& values) { return values.capacity() * sizeof(values[0]); };
  std::size_t bytes = of(by_id.ids) + of(by_id.begin) + of(by_id.points) + of(sharing.positions) + of(sharing.begin) +
                      of(sharing.holders);
  for (const auto& [device, index] : local_) bytes += index->bytes();
  return bytes;
}

template <class T>
GatherScatter<T>::GatherScatter(std::span<const std::int64_t> ids, const mpi::Comm& comm,
                                std::shared_ptr<device::Device> device, const Asked& asked, int fields, Layout layout)
    : GatherScatter(std::make_shared<const Connectivity>(ids, comm), std::move(device), asked, fields, layout) {}
template <class T>
GatherScatter<T>::GatherScatter(std::shared_ptr<const Connectivity> connectivity,
                                std::shared_ptr<device::Device> device, const Asked& asked, int fields, Layout layout)
    : state_(std::make_unique<State>(std::move(connectivity), std::move(device), asked, fields, layout)) {}
template <class T>
GatherScatter<T>::~GatherScatter() = default;
template <class T>
GatherScatter<T>::GatherScatter(GatherScatter&&) noexcept = default;
template <class T>
GatherScatter<T>& GatherScatter<T>::operator=(GatherScatter&&) noexcept = default;

template <class T>
void GatherScatter<T>::gather_scatter(T* points, Op op, device::Stream& stream) {
  const trace::Span span("gather-scatter", trace::Category::cpu);
  start(points, op, stream);
  finish(stream);
}

template <class T>
void GatherScatter<T>::start(T* points, Op op, device::Stream& stream) {
  state_->start({&points, 1}, op, stream);
}

template <class T>
void GatherScatter<T>::start(std::span<T* const> arrays, Op op, device::Stream& stream) {
  if (arrays.size() != static_cast<std::size_t>(state_->fields)) {
    throw std::invalid_argument(std::to_string(arrays.size()) + " arrays for a gather-scatter of " +
                                std::to_string(state_->fields) + " fields");
  }
  state_->start(arrays, op, stream);
}

template <class T>
void GatherScatter<T>::State::start(std::span<T* const> arrays, Op op, device::Stream& stream) {
  if (active) throw std::logic_error("the gather-scatter is already started: finish it first");
  pending.assign(arrays.begin(), arrays.end());
  pending_op = op;
  for_each_array([&](int count, View<T> points, View<T> parts) {
    shared_points.gather(op, count, false, points.read_only(), parts, stream);
  });
  exchange->start_halo(values.data(), stream);
  // This work overlaps with the messages.
  if (pending.size() == 1) {
    own_points.combine(op, fields, of_points(pending.front()), stream);
  } else {
    own_points.combine(op, pending, stream);
  }
  active = true;
}

template <class T>
void GatherScatter<T>::depart() {
  state_->exchange->depart_halo();
}

template <class T>
void GatherScatter<T>::finish(device::Stream& stream) {
  State& s = *state_;
  if (!s.active) throw std::logic_error("the gather-scatter was not started");
  s.exchange->finish_halo(s.values.data(), stream);
  s.parts_all.gather(s.pending_op, s.fields, false, s.values.data(), s.values.data(), stream);
  s.for_each_array([&](int count, View<T> points, View<T> parts) {
    s.shared_points.scatter(count, parts.read_only(), points, stream);
  });
  s.active = false;
}

template <class T>
void GatherScatter<T>::gather(const T* points, T* dofs, Op op, device::Stream& stream) {
  State& s = *state_;
  auto& a = s.with_dofs();
  a.to_dofs.gather(op, s.fields, false, s.of_points(points), a.of_dofs(s, dofs), stream);
  a.clear_last(s, dofs, stream);
  a.exchange->start_gather(dofs, stream);
  a.exchange->finish_gather(dofs, op, stream);
}

template <class T>
void GatherScatter<T>::scatter(T* dofs, T* points, device::Stream& stream) {
  State& s = *state_;
  auto& a = s.with_dofs();
  a.exchange->start_halo(dofs, stream);
  a.clear_last(s, dofs, stream);
  a.exchange->finish_halo(dofs, stream);
  a.to_points(s.fields, a.of_dofs(s, dofs).read_only(), s.of_points(points), stream);
}

template <class T>
const Assembly& GatherScatter<T>::assembly() {
  return state_->with_dofs().assembly;
}
template <class T>
std::int64_t GatherScatter<T>::points() const {
  return state_->points;
}
template <class T>
int GatherScatter<T>::fields() const {
  return state_->fields;
}
template <class T>
Layout GatherScatter<T>::layout() const {
  return state_->layout;
}
template <class T>
const Tuning& GatherScatter<T>::tuning() const {
  return state_->exchange->halo_tuning();
}
template <class T>
const Tuning* GatherScatter<T>::halo_tuning() const {
  return state_->assembled ? &state_->assembled->exchange->halo_tuning() : nullptr;
}
template <class T>
const Tuning* GatherScatter<T>::gather_tuning() const {
  return state_->assembled ? &state_->assembled->exchange->gather_tuning() : nullptr;
}
template <class T>
std::int64_t GatherScatter<T>::bytes_sent() const {
  return state_->exchange->bytes_sent();
}
template <class T>
std::int64_t GatherScatter<T>::messages() const {
  return state_->exchange->messages();
}
template <class T>
std::size_t GatherScatter<T>::index_bytes() const {
  return state_->local->pattern.owned_index.size() * sizeof(std::int32_t);  // of the exchange, on the device
}

template class GatherScatter<double>;
template class GatherScatter<float>;
template class GatherScatter<std::int32_t>;
template class GatherScatter<std::int64_t>;

}  // namespace weft::exchange
