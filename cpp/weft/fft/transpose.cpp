#include "weft/fft/transpose.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "weft/exchange/channel.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::fft {
namespace {

// The bricks of one direction of one exchange, by rank of its communicator. In a buffer the rank's own brick comes
// first, with room for a whole batch, followed by the others in rank order; in slots, all are in rank order. The
// variables of a brick are stored one after another.
struct Bricks {
  std::vector<Box> boxes;
  std::size_t own = 0;
  int batch = 1;
  bool by_rank = false;

  std::int64_t offset(std::size_t peer, int variables) const {  // in values
    if (by_rank) {
      std::int64_t before = 0;
      for (std::size_t p = 0; p < peer; ++p) before += boxes[p].size();
      return before * variables;
    }
    if (peer == own) return 0;
    std::int64_t sum = 0;
    for (std::size_t p = 0; p < peer; ++p) sum += p == own ? 0 : boxes[p].size();
    return boxes[own].size() * batch + sum * variables;
  }
  std::int64_t largest() const {
    std::int64_t most = 0;
    for (std::size_t p = 0; p < boxes.size(); ++p) most = std::max(most, p == own ? 0 : boxes[p].size());
    return most;
  }
};

}  // namespace

template <class T>
struct Transpose<T>::State {
  // The state of one direction for one number of variables.
  struct Way {
    std::unique_ptr<exchange::Channel> channel;
    Complex* own = nullptr;  // where the own brick was written
    // Used instead of a channel: where the bricks are in this round's slots, and their offsets within the slots.
    std::vector<Complex*> bricks;  // by rank of the communicator
    std::vector<std::int64_t> offsets;
    std::shared_ptr<const trace::Traffic> sends;
    std::vector<std::shared_ptr<const trace::Traffic>> receives;
  };

  State(const Decomposition& decomposition, Direction direction_in, int batch_in,
        std::shared_ptr<device::Device> device_in, const mpi::Comm& comm_in, ExchangeBuffers<T>& buffers_in)
      : direction(direction_in), batch(batch_in), device(std::move(device_in)), comm(comm_in), buffers(buffers_in) {
    const Grid& grid = decomposition.grid();
    const int me = decomposition.rank();
    const auto plan_rank = [&](int peer) {
      return direction == Direction::row ? grid.column_rank(me) * grid.rows + peer
                                         : peer * grid.rows + grid.row_rank(me);
    };
    const auto end = [&](int rank) {
      return direction == Direction::row ? decomposition.x_pencil(rank) : decomposition.spectral(rank);
    };
    middle_box = decomposition.middle(me);
    end_box = end(me);
    at_middle.own = at_end.own = static_cast<std::size_t>(comm.rank());
    at_middle.batch = at_end.batch = batch;
    alone = grid.size() == 1;
    for (int peer = 0; peer < comm.size(); ++peer) {
      const int rank = plan_rank(peer);
      ranks.push_back(rank);
      ends.push_back(end(rank));
      middles.push_back(decomposition.middle(rank));
      at_middle.boxes.push_back(intersection(middle_box, end(rank)));
      at_end.boxes.push_back(intersection(end_box, decomposition.middle(rank)));
    }
  }

  // The bricks on the side where a direction starts, and on the side where it ends.
  const Bricks& sent(Toward toward) const { return toward == Toward::middle ? at_end : at_middle; }
  const Bricks& received(Toward toward) const { return toward == Toward::middle ? at_middle : at_end; }

  // The offset, in the buffer of another rank, of its brick for this rank.
  std::int64_t offset_at(std::size_t peer, Toward toward, int variables) const {
    const std::vector<Box>&from = toward == Toward::middle ? ends : middles,
          &to = toward == Toward::middle ? middles : ends;
    Bricks theirs{{}, peer, batch, at_middle.by_rank};
    for (const Box& box : to) theirs.boxes.push_back(intersection(from[peer], box));
    return theirs.offset(at_middle.own, variables);
  }

  // The traffic reported to the recorder for a round in slots.
  void describe(Way& w, Toward toward, int variables) const {
    const std::int64_t group = comm.group(comm.fresh_tag());
    trace::Traffic sends;
    sends.group = group;
    sends.request = trace::fresh_request();
    const auto bytes = [&](const Box& box) { return box.size() * variables * std::int64_t{sizeof(Complex)}; };
    for (std::size_t p = 0; p < ranks.size(); ++p) {
      trace::Traffic receive;
      receive.group = group;
      if (p != at_middle.own) {
        const int world_rank = comm.world_rank(static_cast<int>(p));
        sends.sends.push_back({world_rank, bytes(sent(toward).boxes[p])});
        receive.receives.push_back({world_rank, bytes(received(toward).boxes[p])});
      }
      w.receives.push_back(std::make_shared<const trace::Traffic>(std::move(receive)));
    }
    w.sends = std::make_shared<const trace::Traffic>(std::move(sends));
  }

  Way& way(Toward toward, int variables) {
    Way& w = ways[{toward, variables}];
    if (w.channel || !w.bricks.empty()) return w;
    if (slots != nullptr) {
      w.bricks.resize(ranks.size());
      for (std::size_t p = 0; p < ranks.size(); ++p) w.offsets.push_back(offset_at(p, toward, variables));
      describe(w, toward, variables);
      return w;
    }
    std::vector<exchange::Part> parts;
    const Bricks &from = sent(toward), &to = received(toward);
    for (std::size_t p = 0; p < from.boxes.size(); ++p) {
      const auto bytes = [&](std::int64_t values) { return static_cast<std::size_t>(values) * sizeof(Complex); };
      const bool own = p == from.own;
      parts.push_back({static_cast<int>(p), bytes(from.offset(p, variables)),
                       own ? 0 : bytes(from.boxes[p].size() * variables), bytes(to.offset(p, variables)),
                       own ? 0 : bytes(to.boxes[p].size() * variables)});
      if (own) {  // the buffer has room for it at its front
        parts.back().send_offset = bytes(from.offset(p, variables) + from.boxes[p].size() * batch);
      }
    }
    w.channel = std::make_unique<exchange::Channel>(
        device, comm, choice, comm.fresh_tag(), parts, name(),
        exchange::Channel::Buffers{bytes_of(buffers.sent()), bytes_of(buffers.arrived())});
    return w;
  }
  const char* name() const { return direction == Direction::row ? "the row exchange" : "the column exchange"; }

  // The pieces of every variable in a buffer of bricks; the own brick may be in another buffer.
  static std::vector<Pieces<Complex>> pieces(const Bricks& bricks, int variables, Complex* others, Complex* own) {
    return pieces(bricks, variables,
                  [&](std::size_t p) { return (p == bricks.own ? own : others) + bricks.offset(p, variables); });
  }
  template <class Place>
  static std::vector<Pieces<Complex>> pieces(const Bricks& bricks, int variables, const Place& place) {
    std::vector<Pieces<Complex>> all(static_cast<std::size_t>(variables));
    for (std::size_t p = 0; p < bricks.boxes.size(); ++p) {
      const Box& box = bricks.boxes[p];
      if (box.empty()) continue;
      Complex* const data = place(p);
      for (int v = 0; v < variables; ++v) all[static_cast<std::size_t>(v)].push_back(whole(data + v * box.size(), box));
    }
    return all;
  }

  static std::byte* bytes_of(Complex* values) { return reinterpret_cast<std::byte*>(values); }

  // If there is no exchange: as if all data were the own brick.
  std::vector<Pieces<Complex>> passed(Toward toward, int variables) {
    Complex* const data = toward == Toward::middle || alone ? buffers.arrived() : buffers.sent();
    return pieces(at_middle, variables, data, data);
  }

  Direction direction;
  int batch;
  std::shared_ptr<device::Device> device;
  mpi::Comm comm;
  ExchangeBuffers<T>& buffers;
  bool alone = false;  // there is only one rank in total
  exchange::Choice choice;
  exchange::Ipc* slots = nullptr;
  Box middle_box, end_box;
  std::vector<int> ranks;          // numbers in the plan, by rank of the communicator
  std::vector<Box> middles, ends;  // their pencils
  Bricks at_middle, at_end;
  std::map<std::pair<Toward, int>, Way> ways;
};

template <class T>
Transpose<T>::Transpose(const Decomposition& decomposition, Direction direction, int batch,
                        const exchange::Asked& asked, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
                        ExchangeBuffers<T>& buffers)
    : state_(std::make_unique<State>(decomposition, direction, batch, device, comm, buffers)) {
  if (trivial()) {
    state_->choice.reason = "a communicator of one rank";
    return;
  }
  state_->choice = asked.choice ? *asked.choice : exchange::choose(asked.text, *device, comm);
}
template <class T>
Transpose<T>::~Transpose() = default;

template <class T>
bool Transpose<T>::on_one_node(const std::vector<int>& node) const {
  const State& s = *state_;
  return !trivial() && s.choice.path == exchange::Path::ipc && s.choice.small_bytes == 0 &&
         std::ranges::includes(node, s.ranks);
}
template <class T>
void Transpose<T>::use(exchange::Ipc& slots) {
  state_->slots = &slots;
  state_->at_middle.by_rank = state_->at_end.by_rank = true;
}

template <class T>
void Transpose<T>::reserve(int variables) {
  State& s = *state_;
  if (s.alone ? variables > s.batch : s.slots != nullptr) return;
  s.buffers.arrived();
  if (!s.alone) s.buffers.sent();
}

template <class T>
bool Transpose<T>::trivial() const {
  return state_->comm.size() == 1;
}
template <class T>
const exchange::Choice& Transpose<T>::choice() const {
  return state_->choice;
}
template <class T>
std::int64_t Transpose<T>::largest_message(int variables) const {
  const std::int64_t values = std::max(state_->at_middle.largest(), state_->at_end.largest());
  return values * variables * static_cast<std::int64_t>(sizeof(Complex));
}
template <class T>
std::int64_t Transpose<T>::own_bytes() const {
  std::int64_t sum = 0;
  if (state_->choice.path != exchange::Path::ipc) return sum;
  for (const auto& [key, way] : state_->ways) {
    if (!way.channel) continue;
    sum += static_cast<std::int64_t>(2 * way.channel->send_bytes() + way.channel->receive_bytes());
  }
  return sum;
}
template <class T>
Box Transpose<T>::box(Toward side) const {
  return side == Toward::middle ? state_->middle_box : state_->end_box;
}

template <class T>
std::vector<Pieces<std::complex<T>>> Transpose<T>::outgoing(Toward toward, int variables, device::Stream& stream) {
  State& s = *state_;
  if (trivial()) return s.passed(toward, variables);
  typename State::Way& way = s.way(toward, variables);
  if (s.slots != nullptr) {
    way.own = reinterpret_cast<Complex*>(s.slots->send(stream));
    return State::pieces(s.sent(toward), variables, way.own, way.own);
  }
  way.channel->check_idle();
  auto* const buffer = reinterpret_cast<Complex*>(way.channel->send(stream));
  const bool with_arrived = toward == Toward::middle && s.choice.path != exchange::Path::ipc;
  way.own = with_arrived ? s.buffers.arrived() : buffer;
  return State::pieces(s.sent(toward), variables, buffer, way.own);
}

template <class T>
void Transpose<T>::carry(Toward toward, int variables, device::Stream& stream) {
  State& s = *state_;
  if (trivial()) return;
  const char* const text = s.direction == Direction::row ? "row exchange" : "column exchange";
  typename State::Way& way = s.way(toward, variables);
  if (s.slots != nullptr) {
    const trace::Span span(text, trace::Category::mpi);
    std::vector<int> others = s.ranks;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(s.at_middle.own));
    s.slots->publish(others, stream, way.sends);
    for (std::size_t p = 0; p < s.ranks.size(); ++p) {
      if (p == s.at_middle.own) continue;
      auto* const slot = const_cast<std::byte*>(s.slots->arrived(s.ranks[p], stream, way.receives[p]));
      way.bricks[p] = reinterpret_cast<Complex*>(slot) + way.offsets[p];
    }
    way.bricks[s.at_middle.own] = way.own + s.sent(toward).offset(s.at_middle.own, variables);
    s.slots->reclaim(stream);
    return;
  }
  exchange::Channel& channel = *way.channel;
  const trace::Span span(text, trace::Category::mpi, static_cast<std::int64_t>(channel.send_bytes()));
  channel.start(stream);
  channel.finish(stream);
}

template <class T>
std::vector<Pieces<std::complex<T>>> Transpose<T>::incoming(Toward toward, int variables) {
  State& s = *state_;
  if (trivial()) return s.passed(toward, variables);
  const typename State::Way& way = s.way(toward, variables);
  if (s.slots != nullptr)
    return State::pieces(s.received(toward), variables, [&](std::size_t p) { return way.bricks[p]; });
  auto* const buffer = reinterpret_cast<Complex*>(const_cast<std::byte*>(way.channel->receive()));
  return State::pieces(s.received(toward), variables, buffer, way.own);
}

template <class T>
void Transpose<T>::drained(Toward toward, int variables, device::Stream& stream) {
  if (trivial()) return;
  if (state_->slots != nullptr) {
    state_->slots->keep_until_read(stream);
  } else {
    state_->way(toward, variables).channel->drained(stream);
  }
}

template class Transpose<float>;
template class Transpose<double>;

}  // namespace weft::fft
