// Included at the end of a translation unit that is compiled at run time (host_compiler.hpp). The unit's kernels and
// tables register themselves when the object is opened. The functions that they call belong to the object, which keeps
// the registrations until the library asks for them: so the object needs no symbol of the program that opens it.
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
// Function-local statics, because registrations may run before this part of the unit is initialised.
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

// Passes all kernels and tables of the unit to the library; returns the size in bytes of the unit's SIMD vectors.
extern "C" __attribute__((visibility("default"))) int weft_host_module(weft::device::RegisterHostKernel* kernel,
                                                                       weft::device::RegisterHostTable* table) {
  for (const auto& k : weft::device::kept_kernels())
    kernel(k.file, k.constants, k.name, k.argument_sizes.data(), k.argument_sizes.size(), k.run);
  for (const auto& t : weft::device::kept_tables()) table(t.file, t.constants, t.name, t.vector_bytes, t.table);
  return weft::simd::bytes;
}
