// The last lines of a translation unit that is compiled at run time (host_compiler.hpp). Its kernels and tables
// register themselves while the object is opened; the functions they call are the object's own, and keep what they are
// given until the library asks for it: the object need not find any symbol of the program that opens it.
#pragma once

#include <cstddef>
#include <vector>

#include "weft/device/host_registry.hpp"
#include "weft/simd/vector.hpp"

namespace weft::device {
namespace {

struct KeptKernel {
  const char *file, *constants, *name;
  std::vector<std::size_t> argument_sizes;
  void (*run)(void** arguments, unsigned begin, unsigned end);
};
struct KeptTable {
  const char *file, *constants, *name;
  int vector_bytes;
  const void* table;
};
// Function-local: registrations run before those of this part of the unit.
std::vector<KeptKernel>& kept_kernels() {
  static std::vector<KeptKernel> kernels;
  return kernels;
}
std::vector<KeptTable>& kept_tables() {
  static std::vector<KeptTable> tables;
  return tables;
}

}  // namespace

void register_host_kernel(const char* file, const char* constants, const char* name, const std::size_t* argument_sizes,
                          std::size_t arguments, void (*run)(void** arguments, unsigned begin, unsigned end)) {
  kept_kernels().push_back({file, constants, name, {argument_sizes, argument_sizes + arguments}, run});
}
bool register_host_table(const char* file, const char* constants, const char* name, int vector_bytes,
                         const void* table) {
  kept_tables().push_back({file, constants, name, vector_bytes, table});
  return true;
}

}  // namespace weft::device

// Gives all that the unit has; returns the bytes of its vectors.
extern "C" __attribute__((visibility("default"))) int weft_host_module(weft::device::RegisterHostKernel* kernel,
                                                                       weft::device::RegisterHostTable* table) {
  for (const auto& k : weft::device::kept_kernels())
    kernel(k.file, k.constants, k.name, k.argument_sizes.data(), k.argument_sizes.size(), k.run);
  for (const auto& t : weft::device::kept_tables()) table(t.file, t.constants, t.name, t.vector_bytes, t.table);
  return weft::simd::bytes;
}
