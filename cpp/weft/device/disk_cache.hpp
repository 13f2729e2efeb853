// What is kept on disk from run to run (compiled kernels, timings of exchanges): one file an entry, in $WEFT_CACHE,
// else $XDG_CACHE_HOME/weft, else ~/.cache/weft. WEFT_CACHE=off turns it off.
//
// Any number of processes may read and write at once: an entry appears whole by a rename. The file's name is a hash of
// the key; the key itself and a checksum are inside, so an entry that is cut, altered or of another key is not taken.
#pragma once

#include <optional>
#include <string>

namespace weft::device {

// The directory, empty if there is none.
std::string cache_directory();

class DiskCache {
 public:
  // `kind`: the ending of its files, "kernels". `version`: of what the values look like; entries of another are
  // damaged.
  DiskCache(std::string kind, int version) : kind_(std::move(kind)), version_(version) {}

  std::string path(const std::string& key) const;  // empty if there is no directory
  struct Found {
    std::optional<std::string> value;
    bool damaged = false;  // there is a file, but it cannot be used
  };
  Found read(const std::string& key) const;
  // A directory that cannot be written leaves the program without a cache, not without its results: one line on stderr.
  void write(const std::string& key, const std::string& value) const;

 private:
  std::string magic() const;
  std::string kind_;
  int version_;
};

}  // namespace weft::device
