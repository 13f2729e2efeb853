// The on-disk cache of compiled kernels and of timings of exchanges: one file per entry, in $WEFT_CACHE, else
// $XDG_CACHE_HOME/weft, else ~/.cache/weft. WEFT_CACHE=off turns it off.
//
// Any number of processes may read and write at once: entries are written to a temporary file and renamed. The file's
// name is a hash of the key; the key itself and a checksum are inside, so that a truncated, altered or different entry
// is rejected.
#pragma once

#include <optional>
#include <string>

namespace weft::device {

// The directory; empty if the cache is off.
std::string cache_directory();

class DiskCache {
 public:
  // `kind`: the suffix of its files, such as "kernels". `version`: of the format of the values; entries of another
  // version count as damaged.
  DiskCache(std::string kind, int version) : kind_(std::move(kind)), version_(version) {}

  std::string path(const std::string& key) const;  // empty if there is no directory
  struct Found {
    std::optional<std::string> value;
    bool damaged = false;  // the file exists, but cannot be used
  };
  Found read(const std::string& key) const;
  // If the directory cannot be written, prints one line to stderr, and the program continues without a cache.
  void write(const std::string& key, const std::string& value) const;
  // The same unless another process has written a value meanwhile; returns the one that stays, so that programs that
  // start at the same time agree.
  std::string keep(const std::string& key, const std::string& value) const;

 private:
  std::string magic() const;
  std::string kind_;
  int version_;
};

// Held by one process at a time of those that use the cache's directory: who makes an entry that takes long, for all. A
// process that ends, however it does, gives it up. File systems that cannot lock let everyone in.
class CacheLock {
 public:
  explicit CacheLock(const std::string& kind);  // waits
  ~CacheLock();
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

  // Why the directory cannot be written; empty if it can.
  const std::string& problem() const { return problem_; }
  // false if the last note of any process, not longer than ten minutes ago, was this one.
  bool note(const std::string& text) const;

 private:
  int file_ = -1;
  std::string problem_;
};

}  // namespace weft::device
