// The sources under kernels/, carried inside the library for the run-time compilers. kernels/CMakeLists.txt writes the
// definition.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::device {

struct KernelText {
  std::string_view file;  // "vector" for kernels/vector.hpp
  const char* text;
};
std::span<const KernelText> kernel_texts();

// The other headers that units of the host (host_compiler.hpp) include, by path: "weft/simd/vector.hpp".
std::span<const KernelText> host_texts();

// The names of the kernels a text declares, in order: those of its lines that begin with WEFT_KERNEL(.
std::vector<std::string> kernel_names(const KernelText& text);

}  // namespace weft::device
