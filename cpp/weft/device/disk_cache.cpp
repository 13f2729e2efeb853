#include "weft/device/disk_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace weft::device {
namespace {

// FNV-1a, 64 bits.
std::uint64_t hash(const std::string& text, std::uint64_t value = 0xcbf29ce484222325) {
  for (const unsigned char c : text) value = (value ^ c) * 0x100000001b3;
  return value;
}

struct Header {
  std::uint64_t key_bytes, value_bytes, checksum;
};

}  // namespace

std::string cache_directory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  if (const std::string cache = variable("WEFT_CACHE"); !cache.empty()) return cache == "off" ? "" : cache;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/weft";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/weft";
  return "";
}

std::string DiskCache::path(const std::string& key) const {
  const std::string directory = cache_directory();
  if (directory.empty()) return "";
  char name[20];
  std::snprintf(name, sizeof name, "/%016llx.", static_cast<unsigned long long>(hash(key)));
  return directory + name + kind_;
}

std::string DiskCache::magic() const { return "weft " + kind_ + " " + std::to_string(version_) + "\n"; }

DiskCache::Found DiskCache::read(const std::string& key) const {
  const std::string file_name = path(key);
  if (file_name.empty()) return {};
  std::ifstream file(file_name, std::ios::binary);
  if (!file) return {};
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = std::move(stream).str(), first = magic();
  const Found damaged{.value = {}, .damaged = true};
  Header header;
  if (text.size() < first.size() + sizeof header || text.compare(0, first.size(), first) != 0) return damaged;
  std::memcpy(&header, text.data() + first.size(), sizeof header);
  const std::size_t begin = first.size() + sizeof header, rest = text.size() - begin;
  if (header.key_bytes > rest || header.value_bytes != rest - header.key_bytes) return damaged;
  std::string value = text.substr(begin + header.key_bytes);
  if (hash(value) != header.checksum) return damaged;
  if (header.key_bytes != key.size() || text.compare(begin, key.size(), key) != 0)
    return {};  // this file holds the entry of another key
  return {.value = std::move(value), .damaged = false};
}

void DiskCache::write(const std::string& key, const std::string& value) const {
  const std::string file_name = path(key);
  if (file_name.empty()) return;
  static std::atomic<int> counter{0};
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string temporary =
      file_name + "." + host + "." + std::to_string(getpid()) + "." + std::to_string(counter++) + ".part";
  std::error_code error;
  std::filesystem::create_directories(cache_directory(), error);
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    const Header header{key.size(), value.size(), hash(value)};
    file << magic();
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file << key << value;
    file.close();
    if (!file)
      error = std::make_error_code(std::errc::io_error);
    else
      std::filesystem::rename(temporary, file_name, error);
  }
  if (error) {
    std::filesystem::remove(temporary, error);
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) {
      std::fprintf(
          stderr,
          "weft: compiled kernels and timings cannot be cached in %s; set WEFT_CACHE to a writable directory, or "
          "to off\n",
          cache_directory().c_str());
    }
  }
}

std::string DiskCache::keep(const std::string& key, const std::string& value) const {
  const CacheLock lock(kind_);
  if (const Found found = read(key); found.value) return *found.value;
  write(key, value);
  return value;
}

CacheLock::CacheLock(const std::string& kind) {
  const std::string directory = cache_directory(), name = directory + "/" + kind + ".lock";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  file_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) {
    problem_ = name + " cannot be written: " + std::strerror(errno);
    return;
  }
  while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

CacheLock::~CacheLock() {
  if (file_ >= 0) close(file_);
}

bool CacheLock::note(const std::string& text) const {
  char last[256] = {};
  struct stat status{};
  const ssize_t bytes = pread(file_, last, sizeof last - 1, 0);
  if (bytes >= 0 && text == last && fstat(file_, &status) == 0 && std::time(nullptr) - status.st_mtime < 600)
    return false;
  const bool written = ftruncate(file_, 0) == 0 && pwrite(file_, text.data(), text.size(), 0) >= 0;
  static_cast<void>(written);  // if it failed, the next process only repeats the message
  return true;
}

}  // namespace weft::device
