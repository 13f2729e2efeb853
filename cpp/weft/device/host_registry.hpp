// The host's kernels, found by file, name and constants: those compiled into the library, and those of the units that
// host_compiler.hpp compiled at run time. Besides kernels of the dialect it holds tables of functions: the SIMD
// kernels, each of which has its own type.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::device {

struct HostKernel {
  std::string file;       // "vector" for kernels/vector.hpp
  std::string name;       // "axpy"
  std::string constants;  // "real=double" or "N=7,real=double"
  std::vector<std::size_t> argument_sizes;
  // Runs blocks begin, …, end - 1, one after the other.
  void (*run)(void** arguments, unsigned begin, unsigned end);
};

using RegisterHostKernel = void(const char* file, const char* constants, const char* name,
                                const std::size_t* argument_sizes, std::size_t arguments,
                                void (*run)(void** arguments, unsigned begin, unsigned end));
using RegisterHostTable = bool(const char* file, const char* constants, const char* name, int vector_bytes,
                               const void* table);

// Out of line, because every kernel file calls it.
RegisterHostKernel register_host_kernel;
// Returns true, so that static initialisers can call it. The table must live as long as the process.
RegisterHostTable register_host_table;

// nullptr if there is none. Kernels that were compiled for tests (kernels/CMakeLists.txt) are found only if the
// environment variable WEFT_TEST_KERNELS is set, and no other has the same name and constants.
const HostKernel* find_host_kernel(const std::string& file, const std::string& name, const std::string& constants);
// The same for a table of functions on vectors of that many bytes.
const void* find_host_table(const std::string& file, const std::string& name, const std::string& constants,
                            int vector_bytes);

// Throws std::invalid_argument naming the kernel unless the sizes of a launch's arguments are those of its parameters.
void check_arguments(const std::string& kernel, const std::vector<std::size_t>& expected, const std::size_t* sizes,
                     std::size_t count);
inline void check_arguments(const HostKernel& kernel, const std::size_t* sizes, std::size_t count) {
  check_arguments(kernel.name, kernel.argument_sizes, sizes, count);
}

}  // namespace weft::device
