// The sources under kernels/, embedded in the library for the run-time compilers. kernels/CMakeLists.txt generates the
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

// The other headers that host units (host_compiler.hpp) include, by path: "weft/simd/vector.hpp".
std::span<const KernelText> host_texts();

// The names of the kernels that a text declares, in order: one for each line that begins with WEFT_KERNEL(.
std::vector<std::string> kernel_names(const KernelText& text);

}  // namespace weft::device
