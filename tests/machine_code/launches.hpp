// Launches through the driver made for tests, run as machine code and judged: each is also done by the host's instance
// of the kernel, on a copy of the device's memory, and the two results are compared.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../cpp/fake_gpu.hpp"
#include "counters.hpp"
#include "weft/device/device.hpp"

namespace weft::machine_code {

// What the launches of one instance of a kernel did so far in this process.
struct Judged {
  std::uint64_t bit_equal = 0;  // of counters.launches: results equal to the host's to the last bit
  double worst = 0;             // difference from the host's, relative to the largest value of the array
  Counters counters;
};
// By "file.name N=7,real=double,…". Written as JSON lines at the end to the file that WEFT_MACHINE_CODE_REPORT names.
const std::map<std::string, Judged>& judged();

device::KernelSpec spec_of(const FakeLaunch& launch);

// Copies the arguments and returns the launch. It throws at a fault (machine.hpp), and where a result differs from the
// host's by more than rounding: integers at all, double by 1e-12 and float by 1e-4 of the largest value of the array.
// With WEFT_MACHINE_CODE_COMPARE=0, launches are counted but not compared, and need no instance on the host.
std::function<void()> prepare_launch(const FakeLaunch& launch, std::vector<std::span<char>> (*memory)());

}  // namespace weft::machine_code
