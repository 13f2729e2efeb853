#include "weft/exchange/collective.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "weft/trace/recorder.hpp"

namespace weft::exchange {

Unit::Unit(const Route& route) {
  std::uint64_t all = std::uint64_t{1} << 16;
  for (const Part& p : route.parts) all |= p.send_offset | p.send_bytes | p.receive_offset | p.receive_bytes;
  bytes_ = std::size_t{1} << route.comm.min(std::int64_t{std::countr_zero(all)});
  mpi::check(MPI_Type_contiguous(static_cast<int>(bytes_), MPI_BYTE, &type_), "MPI_Type_contiguous");
  mpi::check(MPI_Type_commit(&type_), "MPI_Type_commit");
}

Unit::~Unit() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Type_free(&type_);
}

int Unit::count(std::size_t bytes) const {
  const std::size_t units = bytes / bytes_;
  if (units > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::length_error("a rank exchanges " + std::to_string(bytes) +
                            " bytes, more than an MPI collective can count: use more ranks, or exchange 'pairwise'");
  }
  return static_cast<int>(units);
}

void Arguments::set(std::size_t entry, const Part& part, const Unit& unit) {
  send_counts[entry] = unit.count(part.send_bytes);
  send_places[entry] = unit.count(part.send_offset);
  receive_counts[entry] = unit.count(part.receive_bytes);
  receive_places[entry] = unit.count(part.receive_offset);
}

CollectiveTransfer::CollectiveTransfer(const Route& route) {
  trace::Traffic wait;
  wait.request = trace::fresh_request();
  trace::Traffic start = wait;
  start.group = route.comm.group(route.tag);
  for (const Part& part : route.parts) {
    const int peer = route.comm.world_rank(part.rank);
    bytes_ += static_cast<std::int64_t>(part.send_bytes);
    if (part.send_bytes > 0) start.sends.push_back({peer, static_cast<std::int64_t>(part.send_bytes)});
    if (part.receive_bytes > 0) start.receives.push_back({peer, static_cast<std::int64_t>(part.receive_bytes)});
  }
  started_traffic_ = std::make_shared<const trace::Traffic>(std::move(start));
  waited_traffic_ = std::make_shared<const trace::Traffic>(std::move(wait));
}

CollectiveTransfer::~CollectiveTransfer() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);
}

void CollectiveTransfer::start() {
  const trace::Span span("start collective", trace::Category::mpi, bytes_, &started_traffic_);
  begin();
}

void CollectiveTransfer::finish() {
  const trace::Span span("wait", trace::Category::mpi, 0, &waited_traffic_);
  mpi::check(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait");
}

}  // namespace weft::exchange
