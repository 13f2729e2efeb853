// Folders of checkpoints: a checkpoint is a folder checkpoint-<step>, there whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "weft/mpi/comm.hpp"

namespace weft::files {

// Makes folder/checkpoint-<step, 8 digits>: `write` (collective) fills a folder of a temporary name, which is renamed
// when it is complete; then the oldest checkpoints are removed but for `keep`. The path. An error of `write`, or
// CollectiveError where a folder cannot be made, leaves what was there before. (collective)
std::string write_checkpoint_folder(const std::string& folder, std::int64_t step, int keep, const mpi::Comm& comm,
                                    const std::function<void(const std::filesystem::path&)>& write);

// The checkpoint at `text`: a folder with `file` in it, or a folder of checkpoints, of which the newest is taken.
// std::runtime_error, naming `text`, where there is none. Local.
std::filesystem::path find_checkpoint(const std::string& text, const std::string& file);

}  // namespace weft::files
