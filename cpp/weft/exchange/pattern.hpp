// The communication pattern, found once from global ids through a directory distributed over the ranks.
//
// It neither holds nor sends values: Exchange does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// A vector of a pattern starts with the entries that this rank owns, some of which have copies on other ranks. The
// copies of entries owned by others (the halo) are at [halo_first, halo_first + halo()), ordered by (owner, global id),
// so that the data from one neighbour form a contiguous piece of the vector.
struct Pattern {
  struct Neighbor {
    int rank;
    std::int64_t owned;  // number of my entries that it has copies of: the next ones in owned_index, by global id
    std::int64_t halo;   // number of its entries that I have copies of: the next ones in the halo
  };
  std::vector<Neighbor> neighbors;        // ordered by rank
  std::vector<std::int32_t> owned_index;  // length: sum of Neighbor::owned
  std::int64_t halo_first = 0;
  std::int64_t entries = 0;    // minimum length of a vector
  std::int64_t worked_on = 0;  // entries that a rank works on between exchanges, if different (for the tuner)

  std::int64_t halo() const {
    std::int64_t sum = 0;
    for (const Neighbor& n : neighbors) sum += n.halo;
    return sum;
  }
};

// The points of one rank, grouped by global id: distinct ids in ascending order, without ids <= 0.
struct PointsById {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> begin;   // [ids + 1] positions in points
  std::vector<std::int32_t> points;  // ascending for each id
};
// The points of the g-th id.
inline std::span<const std::int32_t> points_of(const PointsById& by_id, std::size_t g) {
  return std::span(by_id.points)
      .subspan(static_cast<std::size_t>(by_id.begin[g]), static_cast<std::size_t>(by_id.begin[g + 1] - by_id.begin[g]));
}
// std::length_error if there are more points than a 32-bit index can address.
PointsById points_by_id(std::span<const std::int64_t> ids);

// Which of this rank's distinct ids other ranks also hold, and which ranks those are.
struct Sharing {
  std::vector<std::int32_t> positions;  // indices into the given ids, ascending
  std::vector<std::int64_t> begin;      // [positions + 1] positions in holders
  std::vector<std::int32_t> holders;    // ranks in ascending order, including this one
};
// `ids`: distinct, ascending and > 0. Each id is looked up at its home rank (directory.hpp): memory and messages scale
// with the number of ids and of shared ids, and no rank sees all ids. (collective)
Sharing find_sharing(std::span<const std::int64_t> ids, const mpi::Comm& comm);

// The points of one rank with 32-bit numbers instead of ids, which takes less memory, and without lists of points.
struct NumberedPoints {
  std::vector<std::int32_t> numbers;  // [points] in [0, count), equal for equal ids; negative: takes no part
  std::int64_t count = 0;
  Sharing sharing;                       // positions are these numbers, which ascend like the ids
  std::vector<std::int64_t> shared_ids;  // of sharing.positions
};
// The same for points already looked up: the numbers are positions in by_id.ids.
NumberedPoints numbered_points(std::int64_t points, const PointsById& by_id, Sharing sharing);

}  // namespace weft::exchange
