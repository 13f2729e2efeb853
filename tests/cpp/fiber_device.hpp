// device::open("fiber"): a device that runs the GPU branch of the kernels on the CPU, with one fiber per GPU thread.
//
// It is not a host device (is_host() is false), so operators take their GPU paths. Its memory is the host's and is
// initialised with NaN, shared arrays are NaN at the start of every block, and writes past the end of an array end the
// program. If a thread returns while others wait at a barrier, or if threads wait at different barriers, the launch
// throws.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::fiber {

// The sizes of a kernel's parameters, empty if it has no fiber instance with these constants.
std::vector<std::size_t> argument_sizes(const device::KernelSpec& spec);

// The order in which threads and blocks run is determined by this number (1 at the start) and the launches since.
void seed(unsigned value);

// A place in a kernel's source: "poisson.hpp", 123.
struct Barrier {
  std::string file;
  int line;
  auto operator<=>(const Barrier&) const = default;
};
// The barriers that launches have reached since the last call.
std::vector<Barrier> take_barriers_met();

// During its lifetime, threads ignore this barrier. A kernel's test removes each barrier in turn and expects wrong
// results, which shows that every barrier is needed and that every needed barrier is tested.
class WithoutBarrier {
 public:
  explicit WithoutBarrier(Barrier barrier);
  ~WithoutBarrier();
  WithoutBarrier(const WithoutBarrier&) = delete;
  WithoutBarrier& operator=(const WithoutBarrier&) = delete;
};

}  // namespace weft::fiber
