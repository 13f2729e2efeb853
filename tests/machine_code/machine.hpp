// Runs kernels of a cubin on the CPU as a multiprocessor of an H100 would: 32 lanes per warp, divergence and
// reconvergence, barriers, shared memory. Blocks run one after the other.
//
// It is stricter than a card. These end the launch with a Fault: an access to global memory outside of every
// allocation, or outside of the kernel's own shared, local or constant memory; a misaligned access; a read of shared
// memory that was never written (for a wide load that includes such words, their use); two threads that access the same
// shared memory without a barrier in between, if at least one of them writes; the same in global memory (two warps of a
// block, or any threads of two blocks), except for atomic operations; a load through the cache for constant data of
// what the launch has written; a barrier that some threads of the block never reach, or that they reach at different
// places; a value taken from a lane that does not exist; an instruction unknown to the emulator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "counters.hpp"
#include "image.hpp"
#include "instruction.hpp"

namespace weft::machine_code {

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

// The bounds [first, second) of the allocation that contains an address; {0, 0} if there is none.
using FindAllocation = std::function<std::pair<std::uintptr_t, std::uintptr_t>(std::uintptr_t address)>;

// A module: an image and the instructions of its kernels, decoded at their first launch.
class Module {
 public:
  explicit Module(Image image) : image_(std::move(image)) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Image& image() const { return image_; }
  const Kernel& kernel(const std::string& name) const;  // throws std::runtime_error if there is none
  const Code& code(const std::string& name);

 private:
  Image image_;
  std::mutex mutex_;
  std::map<std::string, struct Listing> listings_;
  std::map<std::string, Code> codes_;
};

// The bytes of a launch's parameters, as laid out in constant memory.
std::vector<char> pack_parameters(const Kernel& kernel, void** arguments);

// `launch_shared`: the bytes of shared memory that a block has beyond what the kernel declares.
Counters launch(Module& module, const std::string& kernel, Dimensions blocks, Dimensions threads,
                unsigned launch_shared, const std::vector<char>& parameters, const FindAllocation& find_allocation);

}  // namespace weft::machine_code
