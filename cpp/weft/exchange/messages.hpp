// Persistent point-to-point messages of any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/mpi/comm.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {

// Repeated messages between fixed buffers and ranks: either all sends or all receives. Messages of more than 1 GiB are
// split, because MPI counts are ints. Starting and waiting are recorded.
class Messages {
 public:
  Messages(const mpi::Comm& comm, int tag);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void add_send(const std::byte* from, std::size_t bytes, int rank);
  void add_receive(std::byte* to, std::size_t bytes, int rank);
  void start();
  void wait();

 private:
  mpi::Comm comm_;  // the requests belong to it
  int tag_;
  std::vector<MPI_Request> requests_;
  std::int64_t bytes_ = 0;
  std::shared_ptr<trace::Traffic> traffic_;
  std::shared_ptr<const trace::Traffic> started_traffic_, waited_traffic_;  // for the same request
  bool receives_ = false;
};

}  // namespace weft::exchange
