// A channel whose schedule and path are the fastest that work for what it carries.
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

// halo: kernels pack what is sent, what arrives goes to one piece of a vector. gather: what is sent is one piece of a
// vector, kernels read what arrives.
enum class Use { halo, gather };

struct Carried {
  Use use;
  std::string type;  // of the values, as in kernel sources: "double"
  int fields;
  std::size_t worked_on_bytes;  // by this rank between exchanges
  const char* what;             // in errors: "the halo exchange"
};

struct TunedChannel {
  std::unique_ptr<Channel> channel;
  Tuning tuning;
  bool trivial = false;  // start and finish need not be called: no neighbours, on any rank where that matters
};

// Where the text leaves something open and a rank has neighbours: makes a channel of every candidate, checks that each
// delivers what is sent, times them in turns (tuner.hpp) on buffers of their own, and keeps the fastest; a candidate
// that cannot be made or delivers other values is out, and the table says why. CollectiveError on all ranks for a text
// that is not understood or cannot be done. (collective)
TunedChannel tuned_channel(const Asked& asked, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm,
                           const std::vector<Part>& parts, const Carried& carried);

}  // namespace weft::exchange
