// Folders of checkpoints: a checkpoint is a folder checkpoint-<step>, which appears only once it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "weft/files/bytes.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::files {

// A kind of checkpoint: the format of its files, and the name of the (first) file in its folder.
struct CheckpointKind {
  Format format;
  std::string file;
};

// Creates folder/checkpoint-<step, 8 digits> and returns its path. `write` (collective) fills a folder with a temporary
// name, which is renamed once it is complete. Then all but the `keep` newest checkpoints of this kind are removed.
// `write` receives a sequence number to put in its headers, one higher than any before, so that the newest checkpoint
// is the one written last, whatever its step and the modification times of files. If `write` fails, or with
// CollectiveError if a folder cannot be created, earlier checkpoints are kept. (collective)
std::string write_checkpoint_folder(
    const std::string& folder, const CheckpointKind& kind, std::int64_t step, int keep, const mpi::Comm& comm,
    const std::function<void(const std::filesystem::path&, std::int64_t number)>& write);

// The checkpoint at `text`: its own folder, or a folder of checkpoints or that of a run, which has them in
// checkpoints/; of several, the newest. std::runtime_error with `text` if there is none, or with the name of a file so
// damaged that the newest cannot be determined. Local.
std::filesystem::path find_checkpoint(const std::string& text, const CheckpointKind& kind);

}  // namespace weft::files
