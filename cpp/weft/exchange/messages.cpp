#include "weft/exchange/messages.hpp"

#include <algorithm>

#include "weft/mpi/finalized.hpp"

namespace weft::exchange {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 30;

}  // namespace

Messages::Messages(const mpi::Comm& comm, int tag) : comm_(comm), tag_(tag) {
  trace::Traffic wait;
  wait.request = trace::fresh_request();
  traffic_ = std::make_shared<trace::Traffic>(wait);
  traffic_->group = comm.group(tag);
  started_traffic_ = traffic_;
  waited_traffic_ = std::make_shared<const trace::Traffic>(wait);
}

Messages::~Messages() {
  if (mpi::finalized()) return;
  for (MPI_Request& request : requests_) MPI_Request_free(&request);
}

void Messages::add_send(const std::byte* from, std::size_t bytes, int rank) {
  for (std::size_t done = 0; done < bytes; done += most_bytes) {
    const int count = static_cast<int>(std::min(most_bytes, bytes - done));
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::check(MPI_Send_init(from + done, count, MPI_BYTE, rank, tag_, comm_.get(), &request), "MPI_Send_init");
    requests_.push_back(request);
    traffic_->sends.push_back({comm_.world_rank(rank), count});
  }
  bytes_ += static_cast<std::int64_t>(bytes);
}

void Messages::add_receive(std::byte* to, std::size_t bytes, int rank) {
  for (std::size_t done = 0; done < bytes; done += most_bytes) {
    const int count = static_cast<int>(std::min(most_bytes, bytes - done));
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::check(MPI_Recv_init(to + done, count, MPI_BYTE, rank, tag_, comm_.get(), &request), "MPI_Recv_init");
    requests_.push_back(request);
    traffic_->receives.push_back({comm_.world_rank(rank), count});
  }
  bytes_ += static_cast<std::int64_t>(bytes);
  receives_ = true;
}

void Messages::start() {
  if (requests_.empty()) return;
  const trace::Span span(receives_ ? "post receives" : "send", trace::Category::mpi, receives_ ? 0 : bytes_,
                         &started_traffic_);
  mpi::check(MPI_Startall(static_cast<int>(requests_.size()), requests_.data()), "MPI_Startall");
}

void Messages::wait() {
  if (requests_.empty()) return;
  const trace::Span span("wait", trace::Category::mpi, 0, &waited_traffic_);
  mpi::check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

}  // namespace weft::exchange
