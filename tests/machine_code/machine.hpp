// Runs kernels of a cubin on the CPU as a multiprocessor of an H100 would: 32 lanes per warp, divergence and
// reconvergence, barriers, shared memory. Blocks run one after the other.
//
// Stricter than a card. These end the launch with a Fault: an access to global memory outside of every allocation, or
// outside of the kernel's own shared, local or constant memory; a misaligned one; a read of shared memory that nothing
// has been written to, or where a wide load covers such memory, the use of those words; two threads that use the same
// shared memory, one of them writing, with no barrier between; a barrier that some threads of the block never reach, or
// that they reach in different places; a value taken from a lane that is not there; an instruction the emulator does
// not know.
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

// The bounds [first, second) of the allocation that holds an address; {0, 0} where there is none.
using FindAllocation = std::function<std::pair<std::uintptr_t, std::uintptr_t>(std::uintptr_t address)>;

// A module: an image and the instructions of its kernels, decoded when they are first launched.
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

// The bytes of a launch's parameters, as they lie in constant memory.
std::vector<char> pack_parameters(const Kernel& kernel, void** arguments);

Counters launch(Module& module, const std::string& kernel, Dimensions blocks, Dimensions threads,
                const std::vector<char>& parameters, const FindAllocation& find_allocation);

}  // namespace weft::machine_code
