#include "weft/bench/all_to_all.hpp"

#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/exchange/channel.hpp"

namespace weft::bench {
namespace {

class Collective final : public Timed {
 public:
  Collective(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, Memory memory, std::size_t bytes,
             std::string method)
      : Timed(comm),
        method_(std::move(method)),
        memory_(memory),
        bytes_(bytes),
        stream_(device),
        send_(device, memory, bytes * static_cast<std::size_t>(comm.size())),
        receive_(device, memory, bytes * static_cast<std::size_t>(comm.size())) {
    mpi::check(MPI_Type_contiguous(8, MPI_BYTE, &word_), "MPI_Type_contiguous");
    mpi::check(MPI_Type_commit(&word_), "MPI_Type_commit");
    const int words = static_cast<int>(bytes / 8);
    for (int rank = 0; rank < comm.size(); ++rank) {
      counts_.push_back(words);
      displacements_.push_back(rank * words);
    }
  }
  ~Collective() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0) MPI_Type_free(&word_);
  }

 private:
  void wait_for_device() override { stream_.synchronize(); }

  void once() override {
    const int words = counts_.front();
    if (method_ == "alltoall") {
      mpi::check(MPI_Alltoall(send_.data(), words, word_, receive_.data(), words, word_, comm().get()), "MPI_Alltoall");
    } else if (method_ == "alltoallv") {
      mpi::check(MPI_Alltoallv(send_.data(), counts_.data(), displacements_.data(), word_, receive_.data(),
                               counts_.data(), displacements_.data(), word_, comm().get()),
                 "MPI_Alltoallv");
    } else {
      MPI_Request request = MPI_REQUEST_NULL;
      mpi::check(MPI_Ialltoall(send_.data(), words, word_, receive_.data(), words, word_, comm().get(), &request),
                 "MPI_Ialltoall");
      mpi::check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
  }

  std::string wrong() override {
    for (int rank = 0; rank < comm().size(); ++rank) {
      fill_message(send_.data() + static_cast<std::size_t>(rank) * bytes_, bytes_, comm().rank(), rank, memory_,
                   stream_);
    }
    once();
    std::string found;
    for (int rank = 0; rank < comm().size() && found.empty(); ++rank) {
      found = compare_message(receive_.data() + static_cast<std::size_t>(rank) * bytes_, bytes_, rank, comm().rank(),
                              memory_, stream_);
    }
    return found;
  }

  std::string method_;
  Memory memory_;
  std::size_t bytes_;
  device::Stream stream_;
  device::Buffer send_, receive_;
  MPI_Datatype word_ = MPI_DATATYPE_NULL;
  std::vector<int> counts_, displacements_;
};

class ByChannel final : public Timed {
 public:
  ByChannel(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, std::size_t bytes,
            const exchange::Choice& choice)
      : Timed(comm),
        bytes_(bytes),
        stream_(device),
        channel_(device, comm, choice, comm.fresh_tag(), parts(), "the all-to-all"),
        own_from_(device, bytes),
        own_to_(device, bytes) {}

 private:
  // The messages to and from the other ranks are contiguous, in rank order.
  std::size_t offset(int rank) const {
    return static_cast<std::size_t>(rank < comm().rank() ? rank : rank - 1) * bytes_;
  }
  std::vector<exchange::Part> parts() const {
    std::vector<exchange::Part> all;
    for (int rank = 0; rank < comm().size(); ++rank) {
      if (rank != comm().rank()) all.push_back({rank, offset(rank), bytes_, offset(rank), bytes_});
    }
    return all;
  }
  void wait_for_device() override { stream_.synchronize(); }

  void once() override {
    channel_.send(stream_);  // a kernel would pack here, so the wait for the buffer counts
    channel_.start(stream_);
    stream_.device().copy(own_to_.data(), own_from_.data(), bytes_, device::CopyKind::device_to_device, stream_);
    channel_.finish(stream_);
    channel_.drained(stream_);
  }

  std::string wrong() override {
    const int me = comm().rank();
    for (int rank = 0; rank < comm().size(); ++rank) {
      fill_message(rank == me ? own_from_.data() : channel_.send(stream_) + offset(rank), bytes_, me, rank,
                   Memory::device, stream_);
    }
    once();
    std::string found;
    for (int rank = 0; rank < comm().size() && found.empty(); ++rank) {
      found = compare_message(rank == me ? own_to_.data() : channel_.receive() + offset(rank), bytes_, rank, me,
                              Memory::device, stream_);
    }
    return found;
  }

  std::size_t bytes_;
  device::Stream stream_;
  exchange::Channel channel_;
  device::Array<std::byte> own_from_, own_to_;
};

class Copies final : public Timed {
 public:
  Copies(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, std::size_t bytes)
      : Timed(comm),
        bytes_(bytes),
        stream_(device),
        send_(device, bytes),
        receive_(device, bytes),
        pinned_(device, Memory::host, bytes) {}

 private:
  void wait_for_device() override { stream_.synchronize(); }
  void once() override {
    stream_.device().copy(pinned_.data(), send_.data(), bytes_, device::CopyKind::device_to_host, stream_);
    stream_.device().copy(receive_.data(), pinned_.data(), bytes_, device::CopyKind::host_to_device, stream_);
  }
  std::string wrong() override {
    fill_message(send_.data(), bytes_, comm().rank(), comm().rank(), Memory::device, stream_);
    once();
    return compare_message(receive_.data(), bytes_, comm().rank(), comm().rank(), Memory::device, stream_);
  }

  std::size_t bytes_;
  device::Stream stream_;
  device::Array<std::byte> send_, receive_;
  device::Buffer pinned_;
};

void check_size(const mpi::Comm& comm, std::size_t bytes) {
  if (bytes == 0 || bytes % 8 != 0) {
    throw std::invalid_argument("the size of a message must be a multiple of 8 bytes, not " + std::to_string(bytes));
  }
  if (bytes / 8 * static_cast<std::size_t>(comm.size()) > std::numeric_limits<int>::max()) {
    throw std::invalid_argument(std::to_string(comm.size()) + " messages of " + std::to_string(bytes) +
                                " bytes exceed MPI's counts: use more ranks or a smaller size");
  }
}

template <class T, class... A>
std::unique_ptr<Timed> make_together(const mpi::Comm& comm, A&&... arguments) {
  std::unique_ptr<Timed> made;
  comm.together([&] { made = std::make_unique<T>(comm, std::forward<A>(arguments)...); });
  return made;
}

}  // namespace

std::unique_ptr<Timed> mpi_all_to_all(const mpi::Comm& comm, std::shared_ptr<device::Device> device, Memory memory,
                                      std::size_t bytes, const std::string& method) {
  check_size(comm, bytes);
  if (method != "alltoall" && method != "alltoallv" && method != "ialltoall") {
    throw std::invalid_argument("MPI has no all-to-all '" + method + "'; known: alltoall, alltoallv, ialltoall");
  }
  return make_together<Collective>(comm, device, memory, bytes, method);
}

std::unique_ptr<Timed> channel_all_to_all(const mpi::Comm& comm, std::shared_ptr<device::Device> device,
                                          std::size_t bytes, const exchange::Choice& choice) {
  check_size(comm, bytes);
  return make_together<ByChannel>(comm, device, bytes, choice);
}

std::unique_ptr<Timed> copies(const mpi::Comm& comm, std::shared_ptr<device::Device> device, std::size_t bytes) {
  return make_together<Copies>(comm, device, bytes);
}

}  // namespace weft::bench
