// The host target of the dialect: a kernel becomes a function object whose call runs one block and which registers
// itself. Included by dialect.hpp only.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>

#include "weft/device/host_registry.hpp"

namespace weft::kernels {

template <class K, class... A>
struct HostInvoker {
  static void run(void** arguments, unsigned begin, unsigned end) {
    run(arguments, begin, end, std::index_sequence_for<A...>());
  }
  template <std::size_t... I>
  static void run(void** arguments, unsigned begin, unsigned end, std::index_sequence<I...>) {
    [&](A... values) {
      for (unsigned block = begin; block < end; ++block) K{static_cast<int>(block)}(values...);
    }(*static_cast<A*>(arguments[I])...);
  }
};

template <class K, class... A>
bool register_kernel(const char* file, const char* constants, const char* name, void (K::*)(A...)) {
  constexpr std::size_t sizes[]{sizeof(A)...};
  device::register_host_kernel(file, constants, name, sizes, sizeof...(A), &HostInvoker<K, A...>::run);
  return true;
}

}  // namespace weft::kernels

#define WEFT_BLOCK weft_block
#define WEFT_KERNEL(name, threads, parameters)                                                        \
  namespace {                                                                                         \
  struct name##_kernel {                                                                              \
    int weft_block;                                                                                   \
    void operator() parameters;                                                                       \
  };                                                                                                  \
  const bool name##_registered =                                                                      \
      ::weft::kernels::register_kernel(WEFT_FILE, WEFT_CONSTANTS, #name, &name##_kernel::operator()); \
  }                                                                                                   \
  inline void name##_kernel::operator() parameters
