// Run-time compilation for the host, as with NVRTC and hipRTC (compiler.hpp) for GPUs: a unit of kernels that was not
// compiled into the library is compiled by a C++ compiler on first use, for this processor, and kept on disk
// (disk_cache.hpp).
//
// If several processes need a unit, one compiles it while the others wait. The environment variable WEFT_CXX names the
// compiler; without it, weft uses the compiler that it was built with, or else c++ or g++ on PATH.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <string>

namespace weft::device {

// A translation unit of host kernels: a file with its constants. kernels/CMakeLists.txt lists all units.
struct HostUnit {
  const char* file;       // "vector" for kernels/vector.hpp, "flow/simd_order" for flow/simd_order.hpp
  const char* constants;  // "real=double", "N=7,real=float"
  bool built_in;          // compiled into the library
};
std::span<const HostUnit> host_units();

// Size in bytes of the SIMD vectors in the library's files that are compiled for the processor; its units use the same.
int vector_bytes();

// Compiles the unit, or takes it from the cache, and opens it, which adds its kernels and tables to the registry. Does
// nothing if weft has no such unit, or if the registry already has it. Throws std::runtime_error if there is no
// compiler, if the cache cannot be written, or, with the compiler's output, if the compilation fails. Not collective.
void open_host_unit(const std::string& file, const std::string& constants);

// The table `name` of `file` for an order, as from find_host_table(), after compiling its unit if necessary.
const void* host_table(const std::string& file, const std::string& name, int order, const std::string& real);

// The same for the one table that a file has per order. The caller has checked that the order is in 1..15.
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
