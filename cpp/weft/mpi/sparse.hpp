// Messages to ranks that do not expect them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::mpi {

// Words for a few ranks, stored contiguously: those for ranks[i] are words[begin[i], begin[i + 1]).
struct Parcels {
  std::vector<int> ranks;  // ascending
  std::vector<std::int64_t> begin{0};
  std::vector<std::int64_t> words;

  std::size_t count() const { return ranks.size(); }
  std::span<const std::int64_t> part(std::size_t i) const {
    return std::span(words).subspan(static_cast<std::size_t>(begin[i]),
                                    static_cast<std::size_t>(begin[i + 1] - begin[i]));
  }
  void add(int rank, std::span<const std::int64_t> part) {
    ranks.push_back(rank);
    words.insert(words.end(), part.begin(), part.end());
    begin.push_back(static_cast<std::int64_t>(words.size()));
  }
};

// Delivers every part; returns the received parts, ordered by rank. Memory and messages scale with what this rank sends
// and receives, not with the number of ranks (non-blocking consensus: T. Hoefler, C. Siebert, A. Lumsdaine, "Scalable
// Communication Protocols for Dynamic Sparse Data Exchange", PPoPP 2010). (collective)
Parcels sparse_exchange(const Comm& comm, const Parcels& send);
// The same for parts made by `work`, which may fail and set values as that of Comm::together: the reduction is also the
// barrier that ends the exchange.
Parcels sparse_exchange(const Comm& comm, const std::function<Parcels()>& work, std::span<std::int64_t> least = {});

}  // namespace weft::mpi
