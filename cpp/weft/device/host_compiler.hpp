// Run-time compilation for the host, beside NVRTC and hipRTC (compiler.hpp): a unit of kernels that was not compiled
// into the library is compiled by a C++ compiler on first use, for this processor, and kept on disk (disk_cache.hpp).
//
// Of the processes that need a unit, one compiles while the others wait. Environment: WEFT_CXX names the compiler;
// without it, the one weft was built with, else c++ or g++ on PATH.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <string>

namespace weft::device {

// A translation unit of host kernels: a file with its constants. kernels/CMakeLists.txt lists all.
struct HostUnit {
  const char* file;       // "vector" for kernels/vector.hpp, "flow/simd_order" for flow/simd_order.hpp
  const char* constants;  // "real=double", "N=7,real=float"
  bool built_in;          // compiled into the library
};
std::span<const HostUnit> host_units();

// Bytes of the vectors that the library's own files for the processor were compiled for; those of its units are the
// same.
int vector_bytes();

// Compiles the unit, or takes it from the cache, and opens it: its kernels and tables are in the registry then. Does
// nothing where weft has no such unit, or the registry has it. std::runtime_error without a compiler, for a cache that
// cannot be written, and with the compiler's words. Not collective.
void open_host_unit(const std::string& file, const std::string& constants);

// The table `name` of `file` for an order, as find_host_table(), its unit compiled where need be.
const void* host_table(const std::string& file, const std::string& name, int order, const std::string& real);

// The same, of which there is one per order; the caller has checked that the order is in 1..15.
template <class Table>
const Table& host_table(const char* file, const char* name, int order, const char* real) {
  static std::array<std::atomic<const Table*>, 16> known{};
  std::atomic<const Table*>& place = known.at(static_cast<std::size_t>(order));
  const Table* table = place.load();
  if (table == nullptr) {
    table = static_cast<const Table*>(host_table(std::string(file), name, order, real));
    place.store(table);
  }
  return *table;
}

}  // namespace weft::device
