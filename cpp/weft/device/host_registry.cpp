#include "weft/device/host_registry.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>

namespace weft::device {
namespace {
// Keys: file, name and constants (for tables also the bytes per vector).
struct Registry {
  std::mutex mutex;  // units may be opened during look-ups
  std::map<std::tuple<std::string, std::string, std::string>, HostKernel> kernels;
  std::map<std::tuple<std::string, std::string, std::string, int>, const void*> tables;
};
// A function-local static, because registrations run before main, in any order.
Registry& registry() {
  static Registry all;
  return all;
}

// The entry of `file`, or that for tests; nullptr if there is none.
template <class Map, class... Rest>
auto find_in(const Map& map, const std::string& file, const Rest&... rest) -> const typename Map::mapped_type* {
  auto found = map.find({file, rest...});
  if (found == map.end() && std::getenv("WEFT_TEST_KERNELS") != nullptr) found = map.find({"test:" + file, rest...});
  return found == map.end() ? nullptr : &found->second;
}
}  // namespace

void register_host_kernel(const char* file, const char* constants, const char* name, const std::size_t* argument_sizes,
                          std::size_t arguments, void (*run)(void** arguments, unsigned begin, unsigned end)) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.kernels.insert_or_assign({file, name, constants},
                               HostKernel{file, name, constants, {argument_sizes, argument_sizes + arguments}, run});
}

bool register_host_table(const char* file, const char* constants, const char* name, int vector_bytes,
                         const void* table) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.tables.insert_or_assign({file, name, constants, vector_bytes}, table);
  return true;
}

const HostKernel* find_host_kernel(const std::string& file, const std::string& name, const std::string& constants) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return find_in(all.kernels, file, name, constants);
}

const void* find_host_table(const std::string& file, const std::string& name, const std::string& constants,
                            int vector_bytes) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const void* const* found = find_in(all.tables, file, name, constants, vector_bytes);
  return found == nullptr ? nullptr : *found;
}

void check_arguments(const std::string& kernel, const std::vector<std::size_t>& expected, const std::size_t* sizes,
                     std::size_t count) {
  if (count != expected.size()) {
    throw std::invalid_argument("kernel " + kernel + " takes " + std::to_string(expected.size()) + " arguments, not " +
                                std::to_string(count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (sizes[i] == expected[i]) continue;
    throw std::invalid_argument("kernel " + kernel + ": argument " + std::to_string(i + 1) + " has " +
                                std::to_string(sizes[i]) + " bytes, its parameter " + std::to_string(expected[i]));
  }
}

}  // namespace weft::device
