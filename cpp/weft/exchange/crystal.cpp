#include "weft/exchange/crystal.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "weft/exchange/messages.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

enum class Buffer { send, arena, receive };  // arena: data packed for forwarding, and data received for forwarding
struct Place {
  Buffer buffer;
  std::size_t at;
};

// Data on its way from one rank to another.
struct Parcel {
  int source, destination;
  std::size_t bytes;
  Place place;
};

struct Piece {
  Place from;
  std::size_t to, bytes;
};

// Appends the copies that place the parcel at `to`, joining contiguous ones.
void append(std::vector<Piece>& pieces, const Parcel& parcel, std::size_t to) {
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    if (last.from.buffer == parcel.place.buffer && last.from.at + last.bytes == parcel.place.at &&
        last.to + last.bytes == to) {
      last.bytes += parcel.bytes;
      return;
    }
  }
  pieces.push_back({parcel.place, to, parcel.bytes});
}

struct Message {
  int rank;
  std::size_t bytes;
  Place place;
};

struct Step {
  std::vector<Piece> pack;               // into the arena, before sending
  std::vector<Message> sends, receives;  // at most one and two
};

// What this rank sends, receives and copies in every step. It is computed by forwarding the sizes of the messages, step
// by step.
struct Plan {
  std::vector<Step> steps;
  std::vector<Piece> unpack;  // into the receive buffer, after the last step
  std::size_t arena_bytes = 0;

  // Call it on all ranks. Also after an error this rank takes part in all steps, because the others wait for it.
  explicit Plan(const Route& route);

 private:
  void receive(Step& step, int from, const std::vector<std::int64_t>& header, std::vector<Parcel>& held,
               const Route& route);
  std::size_t in_arena(std::size_t bytes) {
    const std::size_t at = arena_bytes;
    arena_bytes += (bytes + 255) / 256 * 256;
    return at;
  }
};

const Part& part_from(const Route& route, const Parcel& parcel) {
  const auto part = std::lower_bound(route.parts.begin(), route.parts.end(), parcel.source,
                                     [](const Part& p, int rank) { return p.rank < rank; });
  if (part == route.parts.end() || part->rank != parcel.source || part->receive_bytes != parcel.bytes) {
    throw std::logic_error("rank " + std::to_string(parcel.source) + " sends " + std::to_string(parcel.bytes) +
                           " bytes to rank " + std::to_string(parcel.destination) +
                           ", which expects a different number");
  }
  return *part;
}

// Sends one header and receives one from each of `from`.
std::vector<std::vector<std::int64_t>> exchange_headers(const Route& route, const std::vector<std::int64_t>& header,
                                                        int to, const std::vector<int>& from) {
  const trace::Span span("exchange headers", trace::Category::mpi);
  MPI_Request sent = MPI_REQUEST_NULL;
  mpi::check(
      MPI_Isend(header.data(), static_cast<int>(header.size()), MPI_INT64_T, to, route.tag, route.comm.get(), &sent),
      "MPI_Isend");
  std::vector<std::vector<std::int64_t>> arrived;
  for (const int rank : from) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    mpi::check(MPI_Mprobe(rank, route.tag, route.comm.get(), &message, &status), "MPI_Mprobe");
    int count = 0;
    MPI_Get_count(&status, MPI_INT64_T, &count);
    auto& words = arrived.emplace_back(static_cast<std::size_t>(count));
    mpi::check(MPI_Mrecv(words.data(), count, MPI_INT64_T, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
  }
  mpi::check(MPI_Wait(&sent, MPI_STATUS_IGNORE), "MPI_Wait");
  return arrived;
}

Plan::Plan(const Route& route) {
  const int rank = route.comm.rank();
  std::exception_ptr error;
  const auto unless_failed = [&](const auto& work) {
    if (error) return;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  };
  std::vector<Parcel> held;
  unless_failed([&] {
    for (const Part& part : route.parts) {
      for (const std::size_t number : {part.send_offset, part.send_bytes, part.receive_offset, part.receive_bytes}) {
        if (number % 4 != 0) throw std::invalid_argument("the crystal router supports only values of 4 or 8 bytes");
      }
      if (part.send_bytes > 0) held.push_back({rank, part.rank, part.send_bytes, {Buffer::send, part.send_offset}});
    }
  });
  // The group [first, first + ranks) that contains this rank is split in two halves; the lower one is at least as
  // large. Ranks at the same position in the two halves are partners. If the last rank of the lower half has no
  // partner, it sends to the last rank of the upper half. Groups differ in size by at most one rank; groups of one rank
  // have nothing to do in the last step.
  int first = 0, ranks = route.comm.size();
  for (int largest = ranks; largest > 1; largest = (largest + 1) / 2) {
    Step step;
    if (ranks > 1) {
      const int lower = (ranks + 1) / 2, middle = first + lower, last = first + ranks - 1;
      const bool low = rank < middle;
      const int partner = low ? std::min(rank + lower, last) : rank - lower;
      std::vector<int> from;
      if (!low || rank + lower <= last) from.push_back(partner);
      if (rank == last && ranks % 2 == 1) from.push_back(middle - 1);
      std::vector<std::int64_t> header;
      unless_failed([&] {
        const auto stays = std::stable_partition(held.begin(), held.end(),
                                                 [&](const Parcel& p) { return (p.destination < middle) == low; });
        std::vector<Parcel> leaving(stays, held.end());
        held.erase(stays, held.end());
        if (leaving.empty()) return;
        std::sort(leaving.begin(), leaving.end(), [](const Parcel& a, const Parcel& b) {
          return std::pair(a.source, a.destination) < std::pair(b.source, b.destination);
        });
        std::size_t bytes = 0;
        for (const Parcel& parcel : leaving) {
          for (const auto word :
               {static_cast<std::int64_t>(parcel.source), static_cast<std::int64_t>(parcel.destination),
                static_cast<std::int64_t>(parcel.bytes)}) {
            header.push_back(word);
          }
          append(step.pack, parcel, bytes);
          bytes += parcel.bytes;
        }
        Place place = step.pack.front().from;
        if (step.pack.size() == 1) {
          step.pack.clear();  // already contiguous there
        } else {
          place = {Buffer::arena, in_arena(bytes)};
          for (Piece& piece : step.pack) piece.to += place.at;
        }
        step.sends.push_back({partner, bytes, place});
      });
      const auto headers = exchange_headers(route, header, partner, from);
      unless_failed([&] {
        for (std::size_t a = 0; a < headers.size(); ++a) {
          if (!headers[a].empty()) receive(step, from[a], headers[a], held, route);
        }
      });
      if (!low) first = middle;
      ranks = low ? lower : ranks - lower;
    }
    unless_failed([&] { steps.push_back(std::move(step)); });
  }
  if (error) std::rethrow_exception(error);
  std::sort(held.begin(), held.end(), [](const Parcel& a, const Parcel& b) { return a.source < b.source; });
  for (const Parcel& parcel : held) append(unpack, parcel, part_from(route, parcel).receive_offset);
}

// What arrives from a rank in a step. What is not for this rank is held for the next step.
void Plan::receive(Step& step, int from, const std::vector<std::int64_t>& header, std::vector<Parcel>& held,
                   const Route& route) {
  std::vector<Parcel> parcels;
  std::vector<Piece> into;  // the receive buffer, if everything is for this rank
  std::size_t bytes = 0;
  bool mine = true;
  for (std::size_t w = 0; w < header.size(); w += 3) {
    parcels.push_back({static_cast<int>(header[w]),
                       static_cast<int>(header[w + 1]),
                       static_cast<std::size_t>(header[w + 2]),
                       {Buffer::arena, bytes}});
    mine = mine && parcels.back().destination == route.comm.rank();
    if (mine) append(into, parcels.back(), part_from(route, parcels.back()).receive_offset);
    bytes += parcels.back().bytes;
  }
  if (mine && into.size() == 1) {
    step.receives.push_back({from, bytes, {Buffer::receive, into.front().to}});
    return;
  }
  const std::size_t at = in_arena(bytes);
  step.receives.push_back({from, bytes, {Buffer::arena, at}});
  for (Parcel& parcel : parcels) parcel.place.at += at;
  held.insert(held.end(), parcels.begin(), parcels.end());
}

// Copies all pieces with one kernel launch.
class Copies {
 public:
  Copies(const std::vector<Piece>& pieces, const std::shared_ptr<device::Device>& memory) {
    if (pieces.empty()) return;
    std::size_t numbers = 0;
    for (const Piece& piece : pieces) numbers |= piece.from.at | piece.to | piece.bytes;
    const std::size_t word = numbers % 8 == 0 ? 8 : 4;
    std::vector<std::int64_t> words;
    for (const Piece& piece : pieces) {
      for (std::size_t done = 0; done < piece.bytes; done += most_bytes) {
        for (const std::size_t number :
             {std::size_t{piece.from.buffer == Buffer::send ? 0U : 1U}, (piece.from.at + done) / word,
              (piece.to + done) / word, std::min(most_bytes, piece.bytes - done) / word}) {
          words.push_back(static_cast<std::int64_t>(number));
        }
      }
    }
    blocks_ = static_cast<std::int64_t>(words.size() / 4);
    pieces_ = device::Array<std::int64_t>(memory, words);
    if (word == 8)
      copy_ = Copy<std::int64_t>(memory->kernel<std::int64_t>("pieces", "copy_pieces"));
    else
      copy_ = Copy<std::int32_t>(memory->kernel<std::int32_t>("pieces", "copy_pieces"));
  }
  bool empty() const { return blocks_ == 0; }
  void operator()(const std::byte* send, const std::byte* arena, std::byte* to, device::Stream& stream) const {
    const auto launch = [&]<class Word>(const Copy<Word>& copy) {
      copy(stream, blocks_, {256}, pieces_.data(), reinterpret_cast<const Word*>(send),
           reinterpret_cast<const Word*>(arena), reinterpret_cast<Word*>(to));
    };
    std::visit(launch, copy_);
    stream.synchronize();
  }

 private:
  static constexpr std::size_t most_bytes = 16384;  // per block
  template <class Word>
  using Copy = device::Kernel<const std::int64_t*, const Word*, const Word*, Word*>;

  std::int64_t blocks_ = 0;
  device::Array<std::int64_t> pieces_;
  std::variant<Copy<std::int32_t>, Copy<std::int64_t>> copy_;
};

class Crystal final : public Transfer {
 public:
  Crystal(const Route& route, const Plan& plan)
      : send_(route.send),
        receive_(route.receive),
        arena_(route.memory, plan.arena_bytes),
        stream_(route.memory),
        unpack_(plan.unpack, route.memory) {
    for (const Step& step : plan.steps) {
      Round& round = rounds_.emplace_back(route);
      round.pack = Copies(step.pack, route.memory);
      for (const Message& m : step.sends) round.sends.add_send(at(m.place), m.bytes, m.rank);
      for (const Message& m : step.receives) round.receives.add_receive(writable(m.place), m.bytes, m.rank);
    }
  }

  void post() override {
    for (Round& round : rounds_) round.receives.start();
  }
  void start() override {
    if (!rounds_.empty()) send(rounds_.front());
  }
  void finish() override {
    for (std::size_t r = 0; r < rounds_.size(); ++r) {
      if (r > 0) send(rounds_[r]);
      rounds_[r].receives.wait();
    }
    if (!unpack_.empty()) unpack_(send_, arena(), receive_, stream_);
    for (Round& round : rounds_) round.sends.wait();
  }

 private:
  struct Round {
    explicit Round(const Route& route) : sends(route.comm, route.tag), receives(route.comm, route.tag) {}
    Copies pack{{}, nullptr};
    Messages sends, receives;
  };

  std::byte* arena() { return reinterpret_cast<std::byte*>(arena_.data()); }
  std::byte* writable(const Place& place) { return (place.buffer == Buffer::arena ? arena() : receive_) + place.at; }
  const std::byte* at(const Place& place) { return place.buffer == Buffer::send ? send_ + place.at : writable(place); }
  void send(Round& round) {
    if (!round.pack.empty()) round.pack(send_, arena(), arena(), stream_);
    round.sends.start();
  }

  const std::byte* send_;
  std::byte* receive_;
  device::Array<char> arena_;
  device::Stream stream_;
  std::deque<Round> rounds_;
  Copies unpack_;
};

}  // namespace

std::unique_ptr<Transfer> make_crystal(Route route) {
  std::unique_ptr<Transfer> transfer;
  route.comm.together([&] { transfer = std::make_unique<Crystal>(route, Plan(route)); });
  return transfer;
}

}  // namespace weft::exchange
