#include "weft/device/host_registry.hpp"

#include <map>
#include <stdexcept>
#include <tuple>

namespace weft::device {
namespace {
// A function-local static: registrations run before main, in any order.
auto& registry() {
  static std::map<std::tuple<std::string, std::string, std::string>, HostKernel> kernels;
  return kernels;
}
}  // namespace

void register_host_kernel(const char* file, const char* constants, const char* name, const std::size_t* argument_sizes,
                          std::size_t arguments, void (*run)(void** arguments, unsigned begin, unsigned end)) {
  registry().insert_or_assign({file, name, constants},
                              HostKernel{file, name, constants, {argument_sizes, argument_sizes + arguments}, run});
}

const HostKernel* find_host_kernel(const std::string& file, const std::string& name, const std::string& constants) {
  const auto found = registry().find({file, name, constants});
  return found == registry().end() ? nullptr : &found->second;
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
