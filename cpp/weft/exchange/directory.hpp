// The directory that tells ranks who shares which id: its local steps. Each id has a home rank, a hash of it; holders
// ask the home (`questions`), the home tells those of an id that several hold who they are (`answers`), and where they
// are many, holders pass the list on (`relayed`), so that no rank has to send it to all.
//
// What it does not do: send anything. find_sharing (pattern.hpp) carries the parcels by MPI; benchmarks/setup_at_scale
// carries them between simulated ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/exchange/pattern.hpp"
#include "weft/mpi/sparse.hpp"

namespace weft::exchange::directory {

// A list of holders is sent to at most so many ranks by one rank.
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
// How many rounds of relaying reach all of so many holders.
int relay_rounds(std::int64_t holders);

// All answers that came, put together.
Sharing sharing(std::span<const std::int64_t> ids, std::span<const mpi::Parcels> answers);

}  // namespace weft::exchange::directory
