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

std::span<const std::int32_t> points_of(const PointsById& by_id, std::size_t g) {
  return std::span(by_id.points)
      .subspan(static_cast<std::size_t>(by_id.begin[g]), static_cast<std::size_t>(by_id.begin[g + 1] - by_id.begin[g]));
}

// The pattern of a gather-scatter. Its vector holds this rank's part of every shared id at [0, R), ordered by id, and
// after them the other holders' parts: every holder sends its part to every other one, and all combine them in the
// order of ranks, so that all get the same bits after one round of messages (assembling at an owner would take two).
struct Parts {
  Pattern pattern;
  GroupList all;  // per shared id the places of all its parts, by rank
};

Parts parts_of(const Sharing& sharing, int rank) {
  Parts parts;
  std::map<int, std::vector<std::int32_t>> with;  // by rank: the shared ids it holds too
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
  std::map<int, std::int64_t> next;  // by rank: the place of its next part
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
                            " values, more than a 32-bit index can name: use more ranks");
  }
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

// The order in which a kernel should visit groups: by their first point.
std::vector<std::int32_t> by_first_point(const PointsById& by_id, std::int64_t points) {
  std::vector<std::int32_t> at(static_cast<std::size_t>(points), -1);
  for (std::size_t g = 0; g < by_id.ids.size(); ++g)
    at[static_cast<std::size_t>(points_of(by_id, g).front())] = static_cast<std::int32_t>(g);
  std::erase(at, -1);
  return at;
}

}  // namespace

template <class T>
struct GatherScatter<T>::State {
  State(std::shared_ptr<const Connectivity> known, std::shared_ptr<device::Device> device_in, Choice chosen,
        int fields_count)
      : connectivity(std::move(known)),
        comm(connectivity->comm),
        points(connectivity->points),
        by_id(connectivity->by_id),
        sharing(connectivity->sharing),
        device(std::move(device_in)),
        choice(std::move(chosen)),
        fields(fields_count) {
    comm.together([&] {
      if (fields < 1) throw std::invalid_argument("fields must be at least 1, not " + std::to_string(fields));
    });
    Parts parts;
    comm.together([&] {
      parts = parts_of(sharing, comm.rank());
      const auto width = static_cast<std::size_t>(fields);
      values =
          device::Array<T>(device, static_cast<std::size_t>(parts.pattern.halo_first + parts.pattern.halo()) * width);
      parts_all = Groups<T>(parts.all, device);

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
      shared_points = Groups<T>(to_parts, device);
      own_points = Groups<T>(own, device, false);
    });
    exchange.emplace(parts.pattern, device, comm, choice, fields);
  }

  std::shared_ptr<const Connectivity> connectivity;
  const mpi::Comm& comm;
  std::int64_t points;
  const PointsById& by_id;
  const Sharing& sharing;
  std::shared_ptr<device::Device> device;
  Choice choice;
  int fields;

  Groups<T> own_points;                 // points of one id that this rank alone holds, two or more
  Groups<T> shared_points;              // points of a shared id -> its place in `values`
  Groups<T> parts_all;                  // all ranks' parts of a shared id
  device::Array<T> values;              // this rank's parts, then the others'
  std::optional<Exchange<T>> exchange;  // of the parts
  bool active = false;                  // between start and finish, of these points
  T* pending = nullptr;
  Op pending_op = Op::add;

  // For gather and scatter, made by the first of them.
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
      exchange.emplace(assembly.pattern, s.device, comm, s.choice, s.fields);
    }
    Assembly assembly;
    Packing<T> to_points;
    Groups<T> to_dofs;
    std::optional<Exchange<T>> exchange;
  };
  std::optional<Assembled> assembled;
  Assembled& with_dofs() {
    if (!assembled) assembled.emplace(*this, comm);
    return *assembled;
  }
};

Connectivity::Connectivity(std::span<const std::int64_t> ids, const mpi::Comm& comm_in)
    : comm(comm_in), points(static_cast<std::int64_t>(ids.size())) {
  comm.together([&] { by_id = points_by_id(ids); });
  sharing = find_sharing(by_id.ids, comm);
}

template <class T>
GatherScatter<T>::GatherScatter(std::span<const std::int64_t> ids, const mpi::Comm& comm,
                                std::shared_ptr<device::Device> device, Choice choice, int fields)
    : GatherScatter(std::make_shared<const Connectivity>(ids, comm), std::move(device), std::move(choice), fields) {}
template <class T>
GatherScatter<T>::GatherScatter(std::shared_ptr<const Connectivity> connectivity,
                                std::shared_ptr<device::Device> device, Choice choice, int fields)
    : state_(std::make_unique<State>(std::move(connectivity), std::move(device), std::move(choice), fields)) {}
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
  State& s = *state_;
  if (s.active) throw std::logic_error("the gather-scatter is already started: finish it first");
  s.shared_points.gather(op, s.fields, false, points, s.values.data(), stream);
  s.exchange->start_halo(s.values.data(), stream);
  s.own_points.combine(op, s.fields, points, stream);  // while the messages travel
  s.active = true;
  s.pending = points;
  s.pending_op = op;
}

template <class T>
void GatherScatter<T>::finish(device::Stream& stream) {
  State& s = *state_;
  if (!s.active) throw std::logic_error("the gather-scatter was not started");
  T* values = s.values.data();
  s.exchange->finish_halo(values, stream);
  s.parts_all.gather(s.pending_op, s.fields, false, values, values, stream);
  s.shared_points.scatter(s.fields, values, s.pending, stream);
  s.active = false;
}

template <class T>
void GatherScatter<T>::gather(const T* points, T* dofs, Op op, device::Stream& stream) {
  State& s = *state_;
  auto& a = s.with_dofs();
  a.to_dofs.gather(op, s.fields, false, points, dofs, stream);
  s.device->fill_zero(dofs + a.assembly.local * s.fields, sizeof(T) * static_cast<std::size_t>(s.fields), stream);
  a.exchange->start_gather(dofs, stream);
  a.exchange->finish_gather(dofs, op, stream);
}

template <class T>
void GatherScatter<T>::scatter(T* dofs, T* points, device::Stream& stream) {
  State& s = *state_;
  auto& a = s.with_dofs();
  a.exchange->start_halo(dofs, stream);
  s.device->fill_zero(dofs + a.assembly.local * s.fields, sizeof(T) * static_cast<std::size_t>(s.fields), stream);
  a.exchange->finish_halo(dofs, stream);
  a.to_points(s.fields, dofs, points, stream);
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
Choice GatherScatter<T>::choice() const {
  return state_->choice;
}
template <class T>
std::int64_t GatherScatter<T>::bytes_sent() const {
  return state_->exchange->bytes_sent();
}
template <class T>
std::int64_t GatherScatter<T>::messages() const {
  return state_->exchange->messages();
}

template class GatherScatter<double>;
template class GatherScatter<float>;
template class GatherScatter<std::int32_t>;
template class GatherScatter<std::int64_t>;

}  // namespace weft::exchange
