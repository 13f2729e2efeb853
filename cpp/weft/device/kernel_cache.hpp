// Compiled kernels kept on disk, one file an entry, in $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else ~/.cache/weft.
// WEFT_CACHE=off turns it off.
//
// Any number of processes may read and write at once: an entry appears whole by a rename. The file's name is a hash of
// the key; the key itself and a checksum are inside, so an entry that is cut, altered or of another key is not taken.
#pragma once

#include <optional>
#include <string>

namespace weft::device {

// The directory, empty if there is none.
std::string kernel_cache_directory();
std::string kernel_cache_path(const std::string& key);

std::optional<std::string> read_kernel_cache(const std::string& key);
// A directory that cannot be written leaves the program without a cache, not without its kernels: one line on stderr.
void write_kernel_cache(const std::string& key, const std::string& value);

}  // namespace weft::device
