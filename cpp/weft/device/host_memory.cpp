#include "weft/device/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace weft::device {
namespace {

// The number that follows `name` in a file of names and numbers.
std::optional<std::int64_t> entry(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string word; in >> word;)
    if (std::int64_t value = 0; word == name && in >> value) return value;
  return {};
}

std::optional<std::int64_t> number(const std::filesystem::path& file) {
  std::int64_t value = 0;
  if (std::ifstream(file) >> value) return value;
  return {};  // absent, or the word "max"
}

}  // namespace

std::int64_t free_host_bytes(const std::filesystem::path& group) {
  std::int64_t free = static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  if (const auto available = entry("/proc/meminfo", "MemAvailable:")) free = 1024 * *available;
  const auto limit = number(group / "memory.max"), used = number(group / "memory.current");
  if (limit && used) {
    const std::int64_t cache = entry(group / "memory.stat", "file").value_or(0);
    free = std::min(free, std::max<std::int64_t>(0, *limit - (*used - cache)));
  }
  return free;
}

void prefer_large_pages(void* memory, std::size_t bytes) {
  constexpr std::size_t worthwhile = std::size_t{4} << 20;
  if (bytes < worthwhile) return;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  const std::size_t skipped = (page - reinterpret_cast<std::uintptr_t>(memory) % page) % page;
  madvise(static_cast<char*>(memory) + skipped, bytes - skipped, MADV_HUGEPAGE);  // if this fails, the pages stay small
}

}  // namespace weft::device
