// The on-disk cache of compiled kernels and of exchange timings: one file per entry, in $WEFT_CACHE, else
// $XDG_CACHE_HOME/weft, else ~/.cache/weft. WEFT_CACHE=off turns it off.
//
// Any number of processes may read and write at once: entries are written to a temporary file and renamed. The file's
// name is a hash of the key. The file holds the key itself and a checksum, so that a truncated, altered or different
// entry is rejected.
#pragma once

#include <optional>
#include <string>

namespace weft::device {

// The directory; empty if the cache is off.
std::string cache_directory();

class DiskCache {
 public:
  // `kind`: the suffix of the files, such as "kernels". `version`: the version of the values' format; an entry of
  // another version counts as damaged.
  DiskCache(std::string kind, int version) : kind_(std::move(kind)), version_(version) {}

  std::string path(const std::string& key) const;  // empty if there is no directory
  struct Found {
    std::optional<std::string> value;
    bool damaged = false;  // the file exists, but cannot be used
  };
  Found read(const std::string& key) const;
  // If the directory cannot be written, prints one line to stderr; the program then continues without a cache.
  void write(const std::string& key, const std::string& value) const;
  // The same, unless another process has written a value in the meantime. Returns the value that is kept, so that
  // programs that start at the same time agree.
  std::string keep(const std::string& key, const std::string& value) const;

 private:
  std::string magic() const;
  std::string kind_;
  int version_;
};

// A lock held by at most one of the processes that use the same cache directory, so that one process makes an entry
// that takes long and all others use it. It is released when the process ends, for whatever reason. On file systems
// without locks every process gets it.
class CacheLock {
 public:
  explicit CacheLock(const std::string& kind);  // waits until the lock is free
  ~CacheLock();
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

  // Why the directory cannot be written; empty if it can.
  const std::string& problem() const { return problem_; }
  // Records `text` and returns true; returns false if it is the last text recorded by any process, less than ten
  // minutes ago.
  bool note(const std::string& text) const;

 private:
  int file_ = -1;
  std::string problem_;
};

}  // namespace weft::device
