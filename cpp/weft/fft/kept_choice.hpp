// Choices between transforms that give the same result up to rounding, kept on disk (device/disk_cache.hpp). Without
// this, timing would pick a different one from time to time, and runs would not be bit-identical.
#pragma once

#include <optional>
#include <string>

#include "weft/mpi/comm.hpp"

namespace weft::fft {

struct KeptChoice {
  std::string name;
  double spread = 1;  // the median of its times in the race, relative to the smallest
  bool disturbed() const { return spread > 1.2; }
};

// Whether choices can be kept, as decided by rank 0: not with WEFT_CACHE=off. (collective)
bool choices_are_kept(const mpi::Comm& comm);

// The choice of an earlier run with the same key, on the same kind of processor, with the same libraries. Rank 0 reads
// and broadcasts it. (collective)
std::optional<KeptChoice> kept_choice(const std::string& key, const mpi::Comm& comm);
// Rank 0 keeps the choice, unless another program has kept one in the meantime. Returns the one that is kept, so that
// programs that start at the same time agree. (collective)
KeptChoice keep_choice(const std::string& key, const KeptChoice& choice, const mpi::Comm& comm);

}  // namespace weft::fft
