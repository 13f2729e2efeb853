// Tunings kept on disk from run to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/channel.hpp"
#include "weft/exchange/tuner.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::exchange {

// What a tuning holds for: the same on all ranks.
struct TuningKey {
  std::string weft, mpi;  // versions
  std::string use, type;  // "halo", "double"
  int ranks = 0, fields = 0;
  std::uint64_t pattern = 0;  // of all ranks' parts
  std::uint64_t machine = 0;  // which processor and device every rank has, on which node
  std::vector<std::string> candidates;

  std::string text() const;
};
// (collective)
TuningKey tuning_key(const mpi::Comm& comm, const device::Device& device, const std::vector<Part>& parts,
                     const std::vector<Choice>& candidates, const std::string& use, const std::string& type,
                     int fields);

// The first rank looks, and all take what it found; an entry that is damaged is told of and not taken. (collective)
std::optional<Tuning> read_tuning(const TuningKey& key, const std::vector<Choice>& candidates, const mpi::Comm& comm);
// By the first rank; local.
void write_tuning(const TuningKey& key, const Tuning& tuning, const mpi::Comm& comm);

// The text of an entry; std::nullopt for one that is not of these candidates or not whole.
std::string to_text(const Tuning& tuning);
std::optional<Tuning> tuning_from(const std::string& text, const std::vector<Choice>& candidates);

}  // namespace weft::exchange
