// Tuning results kept on disk from run to run.
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

// The conditions for which a tuning is valid; the same on all ranks.
struct TuningKey {
  std::string weft, mpi;  // versions
  std::string use, type;  // "halo", "double"
  int ranks = 0, fields = 0;
  std::uint64_t pattern = 0;  // from all ranks' parts
  std::uint64_t machine = 0;  // from the processor, device and node of every rank
  std::vector<std::string> candidates;

  std::string text() const;
};
// (collective)
TuningKey tuning_key(const mpi::Comm& comm, const device::Device& device, const std::vector<Part>& parts,
                     const std::vector<Choice>& candidates, const std::string& use, const std::string& type,
                     int fields);

// Rank 0 reads the cache and broadcasts the entry; a damaged entry is reported and ignored. (collective)
std::optional<Tuning> read_tuning(const TuningKey& key, const std::vector<Choice>& candidates, const mpi::Comm& comm);
// Rank 0 writes; no communication.
void write_tuning(const TuningKey& key, const Tuning& tuning, const mpi::Comm& comm);

// Parses an entry; std::nullopt if it is incomplete or belongs to other candidates.
std::string to_text(const Tuning& tuning);
std::optional<Tuning> tuning_from(const std::string& text, const std::vector<Choice>& candidates);

}  // namespace weft::exchange
