// Ranks of a node that have mapped each other's fields: each tells the others when it has written its part, and waits
// for theirs. No data move; what passes from rank to rank is reported to the recorder as messages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/ipc.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::fft {

class Meeting {
 public:
  // All ranks of `comm` are on one node. (collective)
  Meeting(const std::shared_ptr<device::Device>& device, const mpi::Comm& comm) : comm_(comm) {
    std::vector<exchange::Part> parts;
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank == comm.rank()) continue;
      others_.push_back(rank);
      parts.push_back({rank, 0, 1, 0, 1});
    }
    flags_ = std::make_unique<exchange::Ipc>(device, comm, comm.fresh_tag(), std::move(parts), 1);
  }

  struct Told {
    std::shared_ptr<const trace::Traffic> sends;
    std::vector<std::shared_ptr<const trace::Traffic>> receives;  // by rank
  };
  // bytes(from, to): what rank `to` reads of what rank `from` has written. (collective)
  template <class Bytes>
  Told told(const Bytes& bytes) const {
    Told all;
    const std::int64_t group = comm_.group(comm_.fresh_tag());
    trace::Traffic sends;
    sends.group = group;
    sends.request = trace::fresh_request();
    for (int rank = 0; rank < comm_.size(); ++rank) {
      trace::Traffic receive;
      receive.group = group;
      if (rank != comm_.rank()) {
        sends.sends.push_back({comm_.world_rank(rank), bytes(comm_.rank(), rank)});
        receive.receives.push_back({comm_.world_rank(rank), bytes(rank, comm_.rank())});
      }
      all.receives.push_back(std::make_shared<const trace::Traffic>(std::move(receive)));
    }
    all.sends = std::make_shared<const trace::Traffic>(std::move(sends));
    return all;
  }

  void publish(const Told& told, device::Stream& stream) { flags_->publish(others_, stream, told.sends); }
  // Waits until all others have published as often as this rank.
  void wait(const Told& told, device::Stream& stream) {
    for (const int rank : others_)
      flags_->arrived(rank, stream, told.receives.empty() ? nullptr : told.receives[static_cast<std::size_t>(rank)]);
  }

 private:
  mpi::Comm comm_;
  std::vector<int> others_;
  std::unique_ptr<exchange::Ipc> flags_;  // only its flags are used; it carries no values
};

}  // namespace weft::fft
