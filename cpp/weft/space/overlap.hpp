// Overlaps communication with work on elements: the split of hipBone's Fig. 2.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/space/space.hpp"

namespace weft::space {

// `fields` contiguous vectors of a space, [fields][entries].
template <class T>
struct Vectors {
  T* data;
  int fields = 1;
};

// Starts the halos of all of `in`. Those with the same number of fields share an exchange, so only the last of them is
// overlapped.
template <class T>
void start_halos(Space<T>& space, std::span<const Vectors<T>> in, device::Stream& stream) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    auto& exchange = space.exchange(in[i].fields);
    if (i > 0 && in[i].fields == in[i - 1].fields) exchange.finish_halo(in[i - 1].data, stream);
    exchange.start_halo(in[i].data, stream);
  }
}
template <class T>
void finish_halos(Space<T>& space, std::span<const Vectors<T>> in, device::Stream& stream) {
  const auto in_flight = [&](std::size_t i) { return i + 1 == in.size() || in[i].fields != in[i + 1].fields; };
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in_flight(i)) space.exchange(in[i].fields).depart_halo();
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in_flight(i)) space.exchange(in[i].fields).finish_halo(in[i].data, stream);
}

// Applies an operator to vectors whose halos fill() completes: it is called when they are needed, after the first half
// of the elements without shared points. Otherwise like overlap().
template <class T, class Fill, class Work>
void overlap_filling(Space<T>& space, Vectors<T> out, Fill&& fill, Work&& part, device::Stream& stream) {
  auto& sums = space.exchange(out.fields);
  part(first_half);
  fill();
  part(halo_part);
  sums.start_gather(out.data, stream);
  part(second_half);
  sums.finish_gather(out.data, exchange::Op::add, stream);
}

// Applies an operator to the vectors `in`, whose halos are filled. `out` receives the result; contributions of other
// ranks' elements are added to its owned entries.
//   before()    must complete the owned entries of `in`
//   part(p)     does the work of elements p (Space::elements, Blocks::plan), after which the entries Space::rows(p) of
//               `out` hold the contributions of this rank's elements. One half of the elements without shared points is
//               overlapped with the halo, the other half with the sums of shared entries: on a GPU it is enqueued
//               before the host waits for the messages. If there are no neighbours, one part has all elements.
//   after()     is called when `out` is complete
// (collective)
template <class T, class Before, class Work, class After>
void overlap(Space<T>& space, std::span<const Vectors<T>> in, Vectors<T> out, Before&& before, Work&& part,
             After&& after, device::Stream& stream) {
  const auto alone = [&](const Vectors<T>& v) { return space.exchange(v.fields).trivial(); };
  before();
  if (std::ranges::all_of(in, alone) && alone(out)) {
    part(all_parts);
  } else {
    start_halos(space, in, stream);
    overlap_filling(space, out, [&] { finish_halos(space, in, stream); }, part, stream);
  }
  after();
}
// The same for one set of input vectors.
template <class T, class Before, class Work, class After>
void overlap(Space<T>& space, Vectors<T> in, Vectors<T> out, Before&& before, Work&& part, After&& after,
             device::Stream& stream) {
  overlap(space, std::span<const Vectors<T>>(&in, 1), out, before, part, after, stream);
}

}  // namespace weft::space
