#include "weft/exchange/collective.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/mpi/finalized.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

// MPI counts are ints, so lengths and offsets are given in units of the largest power of two that divides all of this
// rank's. A unit is at least one value, and no rank has more values than an int can count. Units may differ between
// ranks: what MPI requires to match is the number of bytes of each message.
class Unit {
 public:
  explicit Unit(const std::vector<Part>& parts) {
    std::size_t all = std::size_t{1} << 16;
    for (const Part& p : parts) all |= p.send_offset | p.send_bytes | p.receive_offset | p.receive_bytes;
    bytes_ = std::size_t{1} << std::countr_zero(all);
    mpi::check(MPI_Type_contiguous(static_cast<int>(bytes_), MPI_BYTE, &type_), "MPI_Type_contiguous");
    mpi::check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~Unit() {
    if (!mpi::finalized()) MPI_Type_free(&type_);
  }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  MPI_Datatype type() const { return type_; }
  int count(std::size_t bytes) const {
    const std::size_t units = bytes / bytes_;
    if (units > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw std::length_error(
          "a rank exchanges " + std::to_string(bytes) +
          " bytes, which exceeds the counts of MPI collectives: use more ranks, or exchange = pairwise");
    }
    return static_cast<int>(units);
  }

 private:
  std::size_t bytes_ = 1;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Lengths and offsets of the parts in the form that MPI takes.
struct Arguments {
  Arguments(const std::vector<Part>& parts, const Unit& unit) {
    for (const Part& part : parts) {
      send_counts.push_back(unit.count(part.send_bytes));
      send_places.push_back(unit.count(part.send_offset));
      receive_counts.push_back(unit.count(part.receive_bytes));
      receive_places.push_back(unit.count(part.receive_offset));
    }
  }
  std::vector<int> send_counts, send_places, receive_counts, receive_places;
};

class CollectiveTransfer final : public Transfer {
 public:
  CollectiveTransfer(Collective collective, const Route& route, const std::vector<Part>& parts,
                     std::shared_ptr<const MPI_Comm> on)
      : collective_(collective),
        comm_(route.comm),
        on_(std::move(on)),
        send_(route.send),
        receive_(route.receive),
        unit_(route.parts) {
    comm_.together([&] { arguments_.emplace(parts, unit_); });
    trace::Traffic wait;
    wait.request = trace::fresh_request();
    trace::Traffic start = wait;
    start.group = comm_.group(route.tag);
    for (const Part& part : route.parts) {
      const int peer = comm_.world_rank(part.rank);
      bytes_ += static_cast<std::int64_t>(part.send_bytes);
      if (part.send_bytes > 0) start.sends.push_back({peer, static_cast<std::int64_t>(part.send_bytes)});
      if (part.receive_bytes > 0) start.receives.push_back({peer, static_cast<std::int64_t>(part.receive_bytes)});
    }
    started_traffic_ = std::make_shared<const trace::Traffic>(std::move(start));
    waited_traffic_ = std::make_shared<const trace::Traffic>(std::move(wait));
#if WEFT_MPI_PERSISTENT_COLLECTIVES
    comm_.together([&] { make_request(MPI_INFO_NULL); });
#endif
  }
  ~CollectiveTransfer() override {
    if (!mpi::finalized() && request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);
  }

  void post() override {}
  void start() override {
    const trace::Span span("start collective", trace::Category::mpi, bytes_, &started_traffic_);
#if WEFT_MPI_PERSISTENT_COLLECTIVES
    mpi::check(MPI_Start(&request_), "MPI_Start");
#else
    make_request();
#endif
  }
  void finish() override {
    const trace::Span span("wait", trace::Category::mpi, 0, &waited_traffic_);
    mpi::check(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait");
  }

 private:
  template <class... Info>
  void make_request(Info... info) {
    Arguments& a = *arguments_;
    mpi::check(
        collective_.function(send_, a.send_counts.data(), a.send_places.data(), unit_.type(), receive_,
                             a.receive_counts.data(), a.receive_places.data(), unit_.type(), *on_, info..., &request_),
        collective_.name);
  }

  Collective collective_;
  mpi::Comm comm_;  // keeps the communicator of `on_` alive
  std::shared_ptr<const MPI_Comm> on_;
  const std::byte* send_;
  std::byte* receive_;
  Unit unit_;
  std::optional<Arguments> arguments_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::int64_t bytes_ = 0;
  std::shared_ptr<const trace::Traffic> started_traffic_, waited_traffic_;  // of the same request
};

}  // namespace

std::unique_ptr<Transfer> make_collective(Collective collective, const Route& route, std::vector<Part> parts,
                                          std::shared_ptr<const MPI_Comm> on) {
  return std::make_unique<CollectiveTransfer>(collective, route, parts, std::move(on));
}

}  // namespace weft::exchange
