// A digest of numbers and texts: the same on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "weft/exchange/hash.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

class Digest {
 public:
  void add(std::uint64_t value) { state_ = hash(static_cast<std::int64_t>(state_ ^ value)); }
  void add(const std::string& text) {
    add(text.size());
    for (const unsigned char c : text) add(c);
  }
  std::uint64_t value() const { return state_; }

  // One number for the digests of all ranks. Each must include its rank, so that the order of combination does not
  // matter. (collective)
  std::uint64_t of_all(const mpi::Comm& comm) const {
    std::uint64_t all = state_;
    mpi::check(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_BXOR, comm.get()), "MPI_Allreduce");
    return all;
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace weft::exchange
