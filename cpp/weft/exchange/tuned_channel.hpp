// A channel that uses the fastest working schedule and path for its messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/channel.hpp"
#include "weft/exchange/choice.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// halo: kernels pack the data to send; received data go to a contiguous piece of a vector. gather: the data to send are
// a contiguous piece of a vector; kernels read the received data.
enum class Use { halo, gather };

struct Carried {
  Use use;
  std::string type;  // of the values, as in kernel sources: "double"
  int fields;
  std::size_t worked_on_bytes;  // bytes this rank works on between exchanges
  const char* what;             // for errors: "the halo exchange"
};

struct TunedChannel {
  std::unique_ptr<Channel> channel;
  Tuning tuning;
  // start and finish may be skipped: no neighbours (for collective schedules: on any rank)
  bool trivial = false;
};

// If the text leaves a choice open and some rank has neighbours: creates a channel for every candidate, checks that
// each delivers the right data, times them in turn (tuner.hpp) on separate buffers, and keeps the fastest. A candidate
// that cannot be created or delivers wrong data is excluded, and the table says why. CollectiveError on all ranks if
// the text is invalid or the choice does not work here. (collective)
TunedChannel tuned_channel(const Asked& asked, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm,
                           const std::vector<Part>& parts, const Carried& carried);

}  // namespace weft::exchange
