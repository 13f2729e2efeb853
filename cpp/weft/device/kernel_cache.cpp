#include "weft/device/kernel_cache.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::device {
namespace {

// FNV-1a, 64 bits.
std::uint64_t hash(const std::string& text, std::uint64_t value = 0xcbf29ce484222325) {
  for (const unsigned char c : text) value = (value ^ c) * 0x100000001b3;
  return value;
}

constexpr char magic[16] = "weft kernels 1\n";

struct Header {
  char magic[16];
  std::uint64_t key_bytes, value_bytes, checksum;
};

}  // namespace

std::string kernel_cache_directory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  if (const std::string cache = variable("WEFT_CACHE"); !cache.empty()) return cache == "off" ? "" : cache;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/weft";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/weft";
  return "";
}

std::string kernel_cache_path(const std::string& key) {
  const std::string directory = kernel_cache_directory();
  if (directory.empty()) return "";
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx.kernels", static_cast<unsigned long long>(hash(key)));
  return directory + name;
}

std::optional<std::string> read_kernel_cache(const std::string& key) {
  const std::string path = kernel_cache_path(key);
  if (path.empty()) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = std::move(stream).str();
  Header header;
  if (text.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, text.data(), sizeof header);
  const std::size_t rest = text.size() - sizeof header;
  if (std::memcmp(header.magic, magic, sizeof magic) != 0 || header.key_bytes != key.size() ||
      header.key_bytes > rest || header.value_bytes != rest - header.key_bytes ||
      text.compare(sizeof header, key.size(), key) != 0) {
    return std::nullopt;
  }
  std::string value = text.substr(sizeof header + key.size());
  if (hash(value) != header.checksum) return std::nullopt;
  return value;
}

void write_kernel_cache(const std::string& key, const std::string& value) {
  const std::string path = kernel_cache_path(key);
  if (path.empty()) return;
  static std::atomic<int> counter{0};
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string temporary =
      path + "." + host + "." + std::to_string(getpid()) + "." + std::to_string(counter++) + ".part";
  std::error_code error;
  std::filesystem::create_directories(kernel_cache_directory(), error);
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    Header header{{}, key.size(), value.size(), hash(value)};
    std::memcpy(header.magic, magic, sizeof magic);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file << key << value;
    file.close();
    if (!file)
      error = std::make_error_code(std::errc::io_error);
    else
      std::filesystem::rename(temporary, path, error);
  }
  if (error) {
    std::filesystem::remove(temporary, error);
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) {
      std::fprintf(stderr,
                   "weft: compiled kernels cannot be kept in %s; set WEFT_CACHE to a directory that can be written\n",
                   kernel_cache_directory().c_str());
    }
  }
}

}  // namespace weft::device
