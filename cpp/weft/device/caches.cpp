#include "weft/device/caches.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

namespace weft::device {
namespace {

// One cache of a processor: its size, and the processors that share it.
struct Cache {
  std::string shared;
  std::size_t bytes = 0;
};

// The last level is the one with the highest index.
Cache last_level_of(int processor) {
  Cache last;
  for (int index = 0;; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/cache/index" + std::to_string(index) + "/";
    std::ifstream size(folder + "size"), shared(folder + "shared_cpu_list");
    std::size_t kilobytes = 0;
    std::string list;
    if (!(size >> kilobytes) || !(shared >> list)) return last;
    last = {list, kilobytes << 10};
  }
}

}  // namespace

std::size_t last_level_cache_bytes() {
  cpu_set_t mine;
  std::size_t total = 0;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0) {
    std::set<std::string> seen;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (!CPU_ISSET(processor, &mine)) continue;
      const Cache cache = last_level_of(processor);
      if (seen.insert(cache.shared).second) total += cache.bytes;
    }
  }
  return total != 0 ? total : static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
}

}  // namespace weft::device
