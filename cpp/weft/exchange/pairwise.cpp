#include "weft/exchange/pairwise.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 30;  // a message; MPI counts with an int

class Pairwise final : public Transfer {
 public:
  Pairwise(const mpi::Comm& comm, int tag, const std::vector<Part>& parts, const std::byte* send, std::byte* receive)
      : comm_(comm) {
    for (const Part& part : parts) {
      for (std::size_t done = 0; done < part.receive_bytes; done += most_bytes) {
        const int count = static_cast<int>(std::min(most_bytes, part.receive_bytes - done));
        mpi::check(
            MPI_Recv_init(receive + done, count, MPI_BYTE, part.rank, tag, comm.get(), &receives_.emplace_back()),
            "MPI_Recv_init");
      }
      receive += part.receive_bytes;
      for (std::size_t done = 0; done < part.send_bytes; done += most_bytes) {
        const int count = static_cast<int>(std::min(most_bytes, part.send_bytes - done));
        mpi::check(MPI_Send_init(send + done, count, MPI_BYTE, part.rank, tag, comm.get(), &sends_.emplace_back()),
                   "MPI_Send_init");
      }
      send += part.send_bytes;
      bytes_ += static_cast<std::int64_t>(part.send_bytes);
    }
  }
  Pairwise(const Pairwise&) = delete;
  Pairwise& operator=(const Pairwise&) = delete;

  ~Pairwise() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    for (MPI_Request& request : receives_) {
      if (posted_) MPI_Cancel(&request);  // an exception came between start and finish
      MPI_Request_free(&request);
    }
    for (MPI_Request& request : sends_) MPI_Request_free(&request);
  }

  void post() override {
    const trace::Span span("post receives", trace::Category::mpi);
    start_all(receives_);
    posted_ = true;
  }
  void start() override {
    const trace::Span span("send", trace::Category::mpi, bytes_);
    start_all(sends_);
  }
  void finish() override {
    const trace::Span span("wait", trace::Category::mpi);
    wait_all(receives_);
    wait_all(sends_);
    posted_ = false;
  }

 private:
  static void start_all(std::vector<MPI_Request>& requests) {
    if (!requests.empty()) mpi::check(MPI_Startall(static_cast<int>(requests.size()), requests.data()), "MPI_Startall");
  }
  static void wait_all(std::vector<MPI_Request>& requests) {
    mpi::check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  mpi::Comm comm_;  // the requests live on it
  std::vector<MPI_Request> receives_, sends_;
  std::int64_t bytes_ = 0;
  bool posted_ = false;
};

}  // namespace

std::unique_ptr<Transfer> make_pairwise(const mpi::Comm& comm, int tag, std::vector<Part> parts, const std::byte* send,
                                        std::byte* receive) {
  return std::make_unique<Pairwise>(comm, tag, parts, send, receive);
}

}  // namespace weft::exchange
