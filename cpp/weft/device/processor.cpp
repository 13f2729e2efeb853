// If the processor lacks instructions that the kernels were compiled to, ends the program with a line that says so
// instead of SIGILL.
#include <cstdio>
#include <cstdlib>

#include "weft/device/host_compiler.hpp"

namespace weft::device {
namespace {

#if defined(__x86_64__)
// Runs before the static initialisers of kernels (priority 65535), which are compiled for WEFT_ARCH too.
__attribute__((constructor(101))) void require_processor() {
  __builtin_cpu_init();
  if (vector_bytes() < 64 || __builtin_cpu_supports("avx512f")) return;
  std::fputs(
      "weft: compiled for processors with AVX-512, which this one does not have: build weft on this machine, or with "
      "make CMAKE_ARGS=-DWEFT_ARCH=x86-64-v3 (docs/cluster.md)\n",
      stderr);
  std::_Exit(1);
}
#endif

}  // namespace
}  // namespace weft::device
