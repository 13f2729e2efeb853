// Folders of checkpoints: a checkpoint is a folder checkpoint-<step>, there whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "weft/files/bytes.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::files {

// A kind of checkpoint: its files' format, and the name of the one (of several: of the first) in its folder.
struct CheckpointKind {
  Format format;
  std::string file;
};

// Makes folder/checkpoint-<step, 8 digits>: `write` (collective) fills a folder of a temporary name, which is renamed
// when it is complete; then the oldest checkpoints of this kind are removed but for `keep`. The path. The headers that
// `write` writes have the number that it is given, one more than those before: so the newest is the one written last,
// whatever its step and whatever copies do to the times of files. An error of `write`, or CollectiveError where a
// folder cannot be made, leaves what was there before. (collective)
std::string write_checkpoint_folder(
    const std::string& folder, const CheckpointKind& kind, std::int64_t step, int keep, const mpi::Comm& comm,
    const std::function<void(const std::filesystem::path&, std::int64_t number)>& write);

// The checkpoint at `text`: the folder of one, or a folder of checkpoints, of which the newest is taken.
// std::runtime_error, naming `text`, where there is none, and naming the file where one of several is so damaged that
// the newest cannot be told. Local.
std::filesystem::path find_checkpoint(const std::string& text, const CheckpointKind& kind);

}  // namespace weft::files
