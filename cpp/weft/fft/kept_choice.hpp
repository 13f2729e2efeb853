// Choices between transforms that are equal but for rounding, kept on disk (device/disk_cache.hpp): timing would choose
// now one, now another, and runs would not repeat bit for bit.
#pragma once

#include <optional>
#include <string>

#include "weft/mpi/comm.hpp"

namespace weft::fft {

struct KeptChoice {
  std::string name;
  double spread = 1;  // the median of its times in the race over the smallest
  bool disturbed() const { return spread > 1.2; }
};

// Whether choices can be kept: not with WEFT_CACHE=off. As the first rank says. (collective)
bool choices_are_kept(const mpi::Comm& comm);

// The choice of an earlier run under the same key, on the same kind of processor with the same libraries; the first
// rank reads it and tells the others. (collective)
std::optional<KeptChoice> kept_choice(const std::string& key, const mpi::Comm& comm);
// The first rank keeps the choice, unless another program has kept one meanwhile; returns the one that stays, so that
// programs that start at the same time agree. (collective)
KeptChoice keep_choice(const std::string& key, const KeptChoice& choice, const mpi::Comm& comm);

}  // namespace weft::fft
