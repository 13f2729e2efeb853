// The local steps of the directory by which ranks learn who shares which id. Each id has a home rank, given by a hash.
// Holders ask the home (`questions`); the home sends the list of holders to those of a shared id (`answers`); if there
// are many, holders forward the list (`relayed`), so that no rank has to send it to all.
//
// It sends nothing itself: find_sharing (pattern.hpp) delivers the parcels by MPI, benchmarks/setup_at_scale between
// simulated ranks.
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

// Consecutive ids have one home, so that ids numbered along faces and elements do not each go to another rank.
inline constexpr int home_bits = 6;
std::int32_t home(std::int64_t id, std::int32_t ranks);

// My distinct ids > 0, by home.
mpi::Parcels questions(std::span<const std::int64_t> ids, std::int32_t ranks);

// What a home replies: to each holder of an id that others hold too, the words (id, number of holders, holders
// ascending); of an id with more than most_copies holders, to the first so many.
struct Answers {
  mpi::Parcels parcels;
  std::int64_t most_holders = 0;  // of an id homed here
};
Answers answers(const mpi::Parcels& questions);

// The place among an id's holders of the first that `rank` passes the list on to: holder i does so to holders
// (i + 1) most_copies + 0, 1, ..., most_copies - 1, as far as there are.
std::size_t first_follower(std::span<const std::int64_t> holders, std::int32_t rank);
// What the holders that got these answers pass on. Empty where no id has so many holders.
mpi::Parcels relayed(const mpi::Parcels& answers, std::int32_t rank);
// The number of relaying rounds needed to reach this many holders.
int relay_rounds(std::int64_t holders);

// All received answers, merged.
Sharing sharing(std::span<const std::int64_t> ids, std::span<const mpi::Parcels> answers);

}  // namespace weft::exchange::directory
