// The exchanges of one set of points, each timed separately: halo, gather and gather-scatter, with any choice.
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

// Points with ids, on a device, with a given number of doubles per point.
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
  // What this rank sends to each neighbour in one operation.
  std::vector<Message> messages(Operation operation) const;

  // One repetition is a start and a finish. The returned object keeps the memory of this one alive. (collective)
  std::unique_ptr<Timed> timed(Operation operation, const exchange::Choice& choice);

  // The tuner's choice for one operation, among all candidates that work here. (collective)
  exchange::Choice tuned(Operation operation);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace weft::bench
