// The local steps of a distributed directory, by which ranks find out who shares which id. Each id has a home rank,
// given by a hash. Holders ask the home (`questions`); the home sends the list of holders to the holders of a shared id
// (`answers`). If there are many, holders forward the list (`relayed`), so that no rank has to send it to all.
//
// This file sends nothing itself: find_sharing (pattern.hpp) delivers the parcels by MPI, benchmarks/setup_at_scale
// delivers them between simulated ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/exchange/pattern.hpp"
#include "weft/mpi/sparse.hpp"

namespace weft::exchange::directory {

// Maximum number of ranks to which one rank sends a list of holders.
inline constexpr std::size_t most_copies = 32;

// Runs of consecutive ids have one home, so that the ids of a face or an element do not all go to different ranks.
inline constexpr int home_bits = 6;
std::int32_t home(std::int64_t id, std::int32_t ranks);

// This rank's distinct ids > 0, by home.
mpi::Parcels questions(std::span<const std::int64_t> ids, std::int32_t ranks);

// The reply of a home: to each holder of a shared id, the words (id, number of holders, holders in ascending order). If
// an id has more than most_copies holders, only the first most_copies get it.
struct Answers {
  mpi::Parcels parcels;
  std::int64_t most_holders = 0;  // largest number of holders of any id homed here
};
Answers answers(const mpi::Parcels& questions);

// The position, among an id's holders, of the first holder to which `rank` forwards the list: holder i forwards it to
// holders (i + 1) most_copies + 0, 1, ..., most_copies - 1, if they exist.
std::size_t first_follower(std::span<const std::int64_t> holders, std::int32_t rank);
// What a rank that received these answers forwards to others. Empty if no id has so many holders.
mpi::Parcels relayed(const mpi::Parcels& answers, std::int32_t rank);
// The number of relaying rounds needed to reach this many holders.
int relay_rounds(std::int64_t holders);

// All answers that this rank received, merged.
Sharing sharing(std::span<const std::int64_t> ids, std::span<const mpi::Parcels> answers);

}  // namespace weft::exchange::directory
