#include "weft/exchange/exchange.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/exchange/groups.hpp"
#include "weft/exchange/tuned_channel.hpp"

namespace weft::exchange {
namespace {

std::vector<Part> halo_parts(const Pattern& pattern, std::size_t entry_bytes, bool reverse) {
  std::vector<Part> parts;
  std::size_t owned = 0, halo = 0;
  for (const Pattern::Neighbor& n : pattern.neighbors) {
    const std::size_t to = static_cast<std::size_t>(n.owned) * entry_bytes,
                      from = static_cast<std::size_t>(n.halo) * entry_bytes;
    parts.push_back(reverse ? Part{n.rank, halo, from, owned, to} : Part{n.rank, owned, to, halo, from});
    owned += to;
    halo += from;
  }
  return parts;
}

// The groups that owners combine: for every shared entry, the places of its copies in the receive buffer, by rank.
GroupList copies_by_entry(const Pattern& pattern) {
  std::vector<std::pair<std::int32_t, std::int32_t>> places;  // entry, place
  for (const std::int32_t entry : pattern.owned_index)
    places.emplace_back(entry, static_cast<std::int32_t>(places.size()));
  std::sort(places.begin(), places.end());
  GroupList list;
  std::vector<std::int32_t> copies;
  for (std::size_t i = 0; i < places.size(); ++i) {
    copies.push_back(places[i].second);
    if (i + 1 == places.size() || places[i + 1].first != places[i].first) {
      list.add(places[i].first, copies);
      copies.clear();
    }
  }
  return list;
}

}  // namespace

template <class T>
struct Exchange<T>::State {
  State(const Pattern& pattern, const std::shared_ptr<device::Device>& device, int fields_count, Layout layout_in,
        Directions directions)
      : fields(fields_count),
        layout(fields_count == 1 ? Layout::points_major : layout_in),
        halo_first(pattern.halo_first),
        entries(pattern.entries),
        pack(pattern.owned_index, device) {
    if (directions == Directions::both) combine = Groups<T>(copies_by_entry(pattern), device);
    for (const Pattern::Neighbor& n : pattern.neighbors) messages += n.owned > 0 ? 1 : 0;
    if (layout == Layout::fields_major) {
      std::vector<std::int32_t> every(static_cast<std::size_t>(pattern.halo()));
      std::iota(every.begin(), every.end(), 0);
      halo_entries = Packing<T>(every, device);
    }
  }
  View<T> of(T* x) const { return view(layout, x, fields, entries); }
  View<const T> of(const T* x) const { return view(layout, x, fields, entries); }
  template <class V>
  V halo_of(V x) const {
    return {x.data + halo_first * x.entry, x.entry, x.field};
  }
  View<T> message(std::byte* buffer) const { return next_to_each_other(reinterpret_cast<T*>(buffer), fields); }
  View<const T> message(const std::byte* buffer) const {
    return next_to_each_other(reinterpret_cast<const T*>(buffer), fields);
  }

  int fields;
  Layout layout;
  std::int64_t halo_first, entries;
  std::int64_t messages = 0;
  Packing<T> pack;          // owned entries that have copies, by neighbour
  Groups<T> combine;        // combines the copies' values with the owned entries
  Packing<T> halo_entries;  // fields_major only: copies between a message and a halo that is not one contiguous piece
  TunedChannel halo{}, gather{.channel = nullptr, .tuning = {}, .trivial = true};
};

template <class T>
Exchange<T>::Exchange(const Pattern& pattern, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
                      const Asked& asked, int fields, Layout layout, Directions directions) {
  comm.together([&] {
    if (fields < 1) throw std::invalid_argument("fields must be at least 1, not " + std::to_string(fields));
    state_ = std::make_unique<State>(pattern, device, fields, layout, directions);
  });
  const std::size_t entry_bytes = sizeof(T) * static_cast<std::size_t>(fields);
  const auto worked_on = static_cast<std::size_t>(std::max(pattern.entries, pattern.worked_on));
  Carried carried{.use = Use::halo,
                  .type = device::type_name<T>(),
                  .fields = fields,
                  .worked_on_bytes = worked_on * entry_bytes,
                  .what = "the halo exchange"};
  state_->halo = tuned_channel(asked, device, comm, halo_parts(pattern, entry_bytes, false), carried);
  if (directions == Directions::halo) return;
  carried.use = Use::gather;
  carried.what = "the gather";
  state_->gather = tuned_channel(asked, device, comm, halo_parts(pattern, entry_bytes, true), carried);
}
template <class T>
Exchange<T>::~Exchange() = default;
template <class T>
Exchange<T>::Exchange(Exchange&&) noexcept = default;
template <class T>
Exchange<T>& Exchange<T>::operator=(Exchange&&) noexcept = default;

template <class T>
void Exchange<T>::start_halo(const T* x, device::Stream& stream) {
  State& s = *state_;
  if (s.halo.trivial) return;
  s.halo.channel->check_idle();
  s.pack(s.fields, s.of(x), s.message(s.halo.channel->send(stream)), stream);
  s.halo.channel->start(stream);
}

template <class T>
void Exchange<T>::depart_halo(bool packed) {
  if (!state_->halo.trivial) state_->halo.channel->depart(packed);
}
template <class T>
void Exchange<T>::depart_gather() {
  if (!state_->gather.trivial) state_->gather.channel->depart();
}

template <class T>
void Exchange<T>::finish_halo(T* x, device::Stream& stream) {
  State& s = *state_;
  if (s.halo.trivial) return;
  if (s.layout == Layout::points_major) {
    s.halo.channel->finish(s.halo_of(s.of(x)).data, stream);
    return;
  }
  s.halo.channel->finish(stream);
  s.halo_entries(s.fields, s.message(s.halo.channel->receive()), s.halo_of(s.of(x)), stream);
  s.halo.channel->drained(stream);
}

template <class T>
void Exchange<T>::start_gather(const T* y, device::Stream& stream) {
  State& s = *state_;
  if (s.gather.trivial) return;
  s.gather.channel->check_idle();
  if (s.layout == Layout::points_major) {
    s.gather.channel->start(s.halo_of(s.of(y)).data, stream);
    return;
  }
  s.halo_entries(s.fields, s.halo_of(s.of(y)), s.message(s.gather.channel->send(stream)), stream);
  s.gather.channel->start(stream);
}

template <class T>
void Exchange<T>::finish_gather(T* y, Op op, device::Stream& stream) {
  State& s = *state_;
  if (s.gather.trivial) return;
  s.gather.channel->finish(stream);
  s.combine.gather(op, s.fields, true, s.message(std::as_const(*s.gather.channel).receive()), s.of(y), stream);
  s.gather.channel->drained(stream);
}

template <class T>
bool Exchange<T>::trivial() const {
  return state_->halo.trivial && state_->gather.trivial;
}
template <class T>
std::int64_t Exchange<T>::bytes_sent() const {
  return static_cast<std::int64_t>(state_->halo.channel->send_bytes());
}
template <class T>
std::int64_t Exchange<T>::messages() const {
  return state_->messages;
}
template <class T>
const Tuning& Exchange<T>::halo_tuning() const {
  return state_->halo.tuning;
}
template <class T>
const Tuning& Exchange<T>::gather_tuning() const {
  return state_->gather.tuning;
}

template class Exchange<double>;
template class Exchange<float>;
template class Exchange<std::int32_t>;
template class Exchange<std::int64_t>;

}  // namespace weft::exchange
