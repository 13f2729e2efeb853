// device::open("fiber"): a device that runs the GPU branch of the kernels on the CPU, one fiber a GPU thread.
//
// It is no host device (is_host() is false), so operators take their GPU paths; its memory is the host's and starts as
// NaN, shared arrays are NaN at the start of every block, and writes past the end of an array end the program. A thread
// that returns while others wait at a barrier, or threads that wait at different barriers, make the launch throw.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::fiber {

// The sizes of a kernel's parameters, empty if it has no fiber instance with these constants.
std::vector<std::size_t> argument_sizes(const device::KernelSpec& spec);

// The order in which threads and blocks run follows from this number (1 at the start) and the launches since.
void seed(unsigned value);

// A place in a kernel's source: "poisson.hpp", 123.
struct Barrier {
  std::string file;
  int line;
  auto operator<=>(const Barrier&) const = default;
};
// The barriers that launches have met since the last call.
std::vector<Barrier> take_barriers_met();

// While it lives, threads run through this barrier as if it were not written. A kernel's test does that for each
// barrier met, and expects wrong results: so every barrier is shown to be needed and every one needed to be tested.
class WithoutBarrier {
 public:
  explicit WithoutBarrier(Barrier barrier);
  ~WithoutBarrier();
  WithoutBarrier(const WithoutBarrier&) = delete;
  WithoutBarrier& operator=(const WithoutBarrier&) = delete;
};

}  // namespace weft::fiber
