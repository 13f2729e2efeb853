// Who talks to whom: found once from global ids, through a directory spread over the ranks.
//
// What it does not do: hold values or send them; that is Exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// A vector of a pattern has the entries this rank owns first, some of which other ranks hold copies of, and the copies
// of what others own (the halo) at [halo_first, halo_first + halo()), ordered by (owner, global id). So what arrives
// from a neighbour is one contiguous piece of the vector.
struct Pattern {
  struct Neighbor {
    int rank;
    std::int64_t owned;  // entries of mine it has copies of: the next so many of owned_index, ordered by global id
    std::int64_t halo;   // entries of its I have copies of: the next so many of the halo
  };
  std::vector<Neighbor> neighbors;        // ordered by rank
  std::vector<std::int32_t> owned_index;  // sum of Neighbor::owned
  std::int64_t halo_first = 0;
  std::int64_t entries = 0;    // of a vector; it may have more than these
  std::int64_t worked_on = 0;  // entries that a rank works on between exchanges, where they are others: for the tuner

  std::int64_t halo() const {
    std::int64_t sum = 0;
    for (const Neighbor& n : neighbors) sum += n.halo;
    return sum;
  }
};

// The points of one rank by global id: distinct ids ascending, ids <= 0 left out.
struct PointsById {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> begin;   // [ids + 1] into points
  std::vector<std::int32_t> points;  // ascending within an id
};
// std::length_error if there are more points than a 32-bit index can name.
PointsById points_by_id(std::span<const std::int64_t> ids);

// Which of my distinct ids other ranks hold too, and which ranks do.
struct Sharing {
  std::vector<std::int32_t> positions;  // into the ids asked about, ascending
  std::vector<std::int64_t> begin;      // [positions + 1] into holders
  std::vector<std::int32_t> holders;    // ranks, ascending, mine among them
};
// `ids`: distinct, ascending and > 0. Each id is looked up at a home rank (directory.hpp): memory and messages are of
// the order of the ids and of what is shared, and no rank sees all ids. (collective)
Sharing find_sharing(std::span<const std::int64_t> ids, const mpi::Comm& comm);

// Which of my points have an id that another rank holds too (ids <= 0: no): 1 or 0 per point. (collective)
std::vector<std::uint8_t> shared_with_others(std::span<const std::int64_t> ids, const mpi::Comm& comm);

}  // namespace weft::exchange
