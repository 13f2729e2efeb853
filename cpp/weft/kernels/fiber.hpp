// The fiber target of the dialect, for tests: the gpu branch on the CPU. Every thread of a block is a fiber. Between
// two barriers the fibers run one after the other in random order, so that what a missing barrier would break on a GPU
// breaks here. Included by dialect.hpp only; the engine is tests/cpp/fiber_device.cpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace weft::fiber {

struct Index {
  unsigned x, y, z;
};
extern Index thread_index, block_index;  // of the running fiber

// Returns once every thread of the block has arrived. File and line identify the barrier.
void barrier(const char* file, int line);
// Fills a shared array with NaN for the first thread of a block.
void enter_shared(void* array, std::size_t bytes);

struct Kernel {
  std::string file, name, constants;
  std::vector<std::size_t> argument_sizes;
  unsigned max_threads;            // its launch bound
  void (*body)(void** arguments);  // what one thread runs
};
bool register_kernel(Kernel kernel);

template <auto F, class... A>
struct Invoker {
  static void run(void** arguments) { run(arguments, std::index_sequence_for<A...>()); }
  template <std::size_t... I>
  static void run(void** arguments, std::index_sequence<I...>) {
    F(*static_cast<A*>(arguments[I])...);
  }
};
template <auto F, class... A>
Kernel describe(const char* name, unsigned max_threads, void (*)(A...)) {
  return {"", name, "", {sizeof(A)...}, max_threads, &Invoker<F, A...>::run};
}

}  // namespace weft::fiber

#define threadIdx ::weft::fiber::thread_index
#define WEFT_BLOCK (static_cast<int>(::weft::fiber::block_index.x))
#define WEFT_BARRIER() ::weft::fiber::barrier(__FILE__, __LINE__)
#define WEFT_WARP_BARRIER() ::weft::fiber::barrier(__FILE__, __LINE__)
#define WEFT_FUNCTION static inline
// The fibers of a block share a static. The anonymous union gives the array a second name and the alias its size, so
// that the first thread of each block that gets here can poison it.
#define WEFT_SHARED(type, declaration) WEFT_SHARED_ON(__LINE__, type, declaration)
#define WEFT_SHARED_ON(line, type, declaration) WEFT_SHARED_AT(line, type, declaration)
#define WEFT_SHARED_AT(line, type, declaration)                     \
  using weft_shared_type_##line = struct {                          \
    type declaration;                                               \
  };                                                                \
  static union alignas(64) {                                        \
    type declaration;                                               \
    char weft_shared_bytes_##line[sizeof(weft_shared_type_##line)]; \
  };                                                                \
  ::weft::fiber::enter_shared(weft_shared_bytes_##line, sizeof(weft_shared_bytes_##line))
#define WEFT_RESTRICT __restrict__
#define WEFT_UNROLL
#define WEFT_NO_UNROLL
#define WEFT_KERNEL(name, threads, parameters)                                                       \
  namespace {                                                                                        \
  struct name##_kernel {                                                                             \
    static void run parameters;                                                                      \
  };                                                                                                 \
  const bool name##_registered = [] {                                                                \
    auto kernel = ::weft::fiber::describe<&name##_kernel::run>(#name, threads, &name##_kernel::run); \
    kernel.file = WEFT_FILE;                                                                         \
    kernel.constants = WEFT_CONSTANTS;                                                               \
    return ::weft::fiber::register_kernel(std::move(kernel));                                        \
  }();                                                                                               \
  }                                                                                                  \
  inline void name##_kernel::run parameters
