// The description of the kernels in a cubin, read from its ELF sections as the driver reads them.
//
// NVIDIA documents the format only through its tools; the attributes are those that `cuobjdump -elf` names EIATTR_….
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::machine_code {

// On sm_90 the system keeps the first KiB of a block's shared memory.
inline constexpr unsigned shared_memory_of_the_system = 1024;

struct Parameter {
  unsigned offset = 0, bytes = 0;  // offset from the first parameter
};

struct Kernel {
  unsigned declared_shared() const { return shared_end - shared_memory_of_the_system; }  // bytes

  std::string name;
  std::vector<Parameter> parameters;
  unsigned parameters_at = 0;                         // in constant bank 0
  unsigned constant_bytes = 0;                        // of constant bank 0, parameters included
  unsigned registers = 0;                             // per thread
  unsigned local_bytes = 0;                           // per thread: the stack, and what the functions it calls need
  unsigned shared_end = shared_memory_of_the_system;  // of what it declares; what the launch gives follows
  unsigned max_threads = 1024;
  std::vector<char> code;
  std::vector<char> private_constants;  // bank 2: the compiler's own, such as jump tables
};

class Image {
 public:
  explicit Image(std::string cubin);  // throws std::runtime_error if it is not a cubin of a known form

  const std::string& bytes() const { return bytes_; }
  const std::map<std::string, Kernel>& kernels() const { return kernels_; }
  // Banks 3 and 4, shared by all kernels: __constant__ variables and addresses of variables.
  const std::vector<char>& constants(int bank) const { return constants_[bank]; }
  // Memory of the module's __device__ variables, and that of one of them, which is empty if there is none of that name.
  const std::vector<char>& variables() const { return *variables_; }
  std::span<char> variable(const std::string& name) const {
    const auto found = named_.find(name);
    return found == named_.end() ? std::span<char>() : found->second;
  }

  static bool is_elf(const void* image);

 private:
  std::string bytes_;
  std::map<std::string, Kernel> kernels_;
  std::vector<char> constants_[5];
  std::shared_ptr<std::vector<char>> variables_;  // keeps its address when the image is copied
  std::map<std::string, std::span<char>> named_;  // parts of it
};

}  // namespace weft::machine_code
