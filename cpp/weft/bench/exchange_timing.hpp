// The exchanges of one set of points, each by itself: halo, gather and gather-scatter, by any choice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/bench/timed.hpp"
#include "weft/exchange/gather_scatter.hpp"

namespace weft::bench {

enum class Operation { halo, gather, gather_scatter };

// Points with ids, on a device, with so many doubles a point.
class ExchangeTiming {
 public:
  // (collective)
  ExchangeTiming(std::span<const std::int64_t> ids, const mpi::Comm& comm, std::shared_ptr<device::Device> device,
                 int fields);
  ~ExchangeTiming();
  ExchangeTiming(const ExchangeTiming&) = delete;
  ExchangeTiming& operator=(const ExchangeTiming&) = delete;

  struct Message {
    int rank;
    std::int64_t bytes;
  };
  // What this rank sends in one operation, by neighbour.
  std::vector<Message> messages(Operation operation) const;

  // A repetition is start and finish. What it returns keeps this one's memory alive. (collective)
  std::unique_ptr<Timed> timed(Operation operation, const exchange::Choice& choice);

  // What the tuner takes of all that works here, for one operation. (collective)
  exchange::Choice tuned(Operation operation);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace weft::bench
