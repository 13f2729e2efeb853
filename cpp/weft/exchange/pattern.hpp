// The communication pattern: found once from global ids, through a directory distributed over the ranks.
//
// It neither holds values nor sends them: Exchange does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// A vector of a pattern starts with the entries that this rank owns, some of which have copies on other ranks. The
// copies of entries owned by others (the halo) are at [halo_first, halo_first + halo()), ordered by (owner, global id),
// so that the data from one neighbour is a contiguous piece of the vector.
struct Pattern {
  struct Neighbor {
    int rank;
    std::int64_t owned;  // my entries that it has copies of: the next ones in owned_index, ordered by global id
    std::int64_t halo;   // its entries that I have copies of: the next ones of the halo
  };
  std::vector<Neighbor> neighbors;        // ordered by rank
  std::vector<std::int32_t> owned_index;  // sum of Neighbor::owned
  std::int64_t halo_first = 0;
  std::int64_t entries = 0;    // minimum length of a vector
  std::int64_t worked_on = 0;  // entries that a rank works on between exchanges, if not these (for the tuner)

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
// std::length_error if there are more points than a 32-bit index can address.
PointsById points_by_id(std::span<const std::int64_t> ids);

// Which of my distinct ids other ranks also hold, and which ranks those are.
struct Sharing {
  std::vector<std::int32_t> positions;  // indices into the given ids, ascending
  std::vector<std::int64_t> begin;      // [positions + 1] into holders
  std::vector<std::int32_t> holders;    // ranks, ascending, including mine
};
// `ids`: distinct, ascending and > 0. Each id is looked up at its home rank (directory.hpp): memory and messages scale
// with the number of ids and of shared ids, and no rank sees all ids. (collective)
Sharing find_sharing(std::span<const std::int64_t> ids, const mpi::Comm& comm);

// Which of my points have an id that another rank also holds (not for ids <= 0): 1 or 0 per point. (collective)
std::vector<std::uint8_t> shared_with_others(std::span<const std::int64_t> ids, const mpi::Comm& comm);

}  // namespace weft::exchange
